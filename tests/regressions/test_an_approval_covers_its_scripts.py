# SPDX-License-Identifier: Apache-2.0
"""A yes to `./x.sh` let another `x.sh` run: what the file held was no part of what was approved.

The card did not show it either, and a call that a hook had admitted ran what stood there by then.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from policy.gate1.decide import Policy
from policy.model import ActionPlan, Context, Decision, Params, Workspace
from policy.people.approval import Scope
from policy.shell.held_scripts import MOST_TEXT
from sandbox.approvals.answers import approve, card_of, rows_of
from sandbox.approvals.approver import Answer, Approver, nobody
from sandbox.approvals.offers import always_here
from sandbox.approvals.pregrant import of_command
from sandbox.approvals.script_capture import (
    MOST_LOOKS,
    MOST_SCRIPTS,
    MOST_SHOWN,
    Script,
    TooManyScripts,
    other_scripts,
    read_scripts,
    shown_scripts,
    touched_scripts,
)
from sandbox.approvals.store.grants import Grants
from sandbox.approvals.store.request import Request, Terms
from sandbox.calls.flow.call import OnOutput
from sandbox.calls.supervisor import Supervisor
from sandbox.calls.tickets import Admission
from sandbox.cells.transaction import Transaction
from sandbox.config.settings import Dirs
from sandbox.containers.images import Images
from sandbox.containers.plan import LABEL_TEST
from sandbox.errors import BadInput
from sandbox.results import CallResult, Ending
from sandbox.workspaces.registry import Registry

RUNS = {
    "started by its path": ("./x.sh", "x.sh"),
    "given to a shell": ("bash x.sh a b", "x.sh"),
    "given to a shell by its whole path": ("sh {}/x.sh", "x.sh"),
    "sourced": (". ./x.sh", "x.sh"),
    "given to python": ("python3 tool.py --fast", "tool.py"),
    "given to node": ("node tool.js", "tool.js"),
    "after another command": ("cd sub && true; ../x.sh", "x.sh"),
    "in a pipe": ("cat a.txt | ./x.sh", "x.sh"),
    "by another script": ("./outer.sh", "x.sh"),
    "by a link": ("./link.sh", "link.sh"),
    "written after it ran": ("bash x.sh; git push origin main; echo done >> x.sh", "x.sh"),
    "beside a name nobody knows": ('bash x.sh | tee "log-$(date +%F).txt"; git push', "x.sh"),
    "as a shell's input": ("sh < x.sh", "x.sh"),
    "in a pipe to a shell": ("cat x.sh | bash -s a; git push", "x.sh"),
    "sourced as input": ("source /dev/stdin < x.sh", "x.sh"),
    "by a substitution": ("bash <(cat x.sh)", "x.sh"),
    "as python's input": ("python3 < tool.py", "tool.py"),
}
BESIDE = {
    "a name nobody knows": ('bash "$X"', "the files `?`"),
    "a folder": ("python3 sub", "what lies in the folder `{}/sub`"),
    "a build": ("make all; git push", "what `make` runs of the project"),
    "a script of npm": ("npm run x", "what `npm` runs of the project"),
    "what it wrote itself": (
        "cp x.sh new.sh; sh new.sh",
        "what the call itself writes to `{}/new.sh` before it runs it",
    ),
    "input nobody knows": ('sh < "$X"', "what is meant by this: it runs a text"),
    "a long script": ("bash long.sh", "what `{}/long.sh` runs in turn, since it is long"),
    "too deep": ("bash deep0.sh", "what scripts run that others run, more than 7 deep"),
}
NONE = ("echo ./x.sh", "cat x.sh", "printf 'true\\n' > x.sh && sh x.sh", "/bin/true", "rm x.sh")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a workspace with scripts, beside one file that lies outside."""
    folder = tmp_path / "w"
    (folder / "sub").mkdir(parents=True)
    for name, text in {
        "x.sh": "echo one > made\n",
        "outer.sh": "#!/bin/sh\n./x.sh\n",
        "tool.py": "print(1)\n",
        "tool.js": "1\n",
        "a.txt": "a\n",
        "../out.sh": "true\n",
    }.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "link.sh").symlink_to("x.sh")
    return folder


def of(place: Path, command: str) -> tuple[Script, ...]:
    return both_of(place, command)[0]


def both_of(place: Path, command: str) -> tuple[tuple[Script, ...], tuple[str, ...]]:
    text = command.replace("{}", str(place))
    plan = ActionPlan(tool="Bash", params=Params(command=text), workspace=str(place))
    return read_scripts(plan, Context((Workspace(str(place)),), home="/home/me"), Policy.default())


@pytest.mark.parametrize("command, name", RUNS.values(), ids=RUNS)
def test_what_a_call_runs_is_read(place: Path, command: str, name: str) -> None:
    scripts = {script.path: script for script in of(place, command)}
    script = scripts[str(place / name)]
    assert (place / name).read_text() in shown_scripts([script])[script.path]
    assert not other_scripts([script])
    (place / name).write_text("echo two\n")
    assert other_scripts([script]) == touched_scripts([script]) == [script.path]


@pytest.mark.parametrize("command, name", RUNS.values(), ids=RUNS)
def test_what_is_bound_whole_is_not_named_as_unbound(place: Path, command: str, name: str) -> None:
    assert both_of(place, command)[1] == ()


@pytest.mark.parametrize("command, said", BESIDE.values(), ids=BESIDE)
def test_what_cannot_be_bound_is_said_and_approved_once(
    place: Path, tmp_path: Path, command: str, said: str
) -> None:
    (place / "long.sh").write_text("# long\n" * MOST_TEXT)
    for number in range(MOST_LOOKS + 1):
        (place / f"deep{number}.sh").write_text(f"bash deep{number + 1}.sh\n")
    [unbound] = both_of(place, command)[1]
    assert unbound.startswith(said.replace("{}", str(place)))
    dirs = Dirs.under(tmp_path / "state").create()
    Registry(dirs).add(place, approved=True)

    def asked(text: str) -> Request:
        return of_command(
            dirs, [text], workspace=str(place), agent="main", role=None, cwd=None, here=None
        )

    request = asked(f"{command}; rm a.txt")
    row = f"{unbound}: its text is not part of what you approve"
    assert ("not bound", row) in rows_of(request)[1]
    assert always_here(request) is None
    with pytest.raises(BadInput, match="for exactly this call, once"):
        approve(dirs, request, Terms(uses=2), by="me")
    with pytest.raises(BadInput, match="for exactly this call, once"):
        approve(dirs, request, Terms(scope=Scope.PROGRAM), by="me")
    assert approve(dirs, request, Terms(), by="me").uses == 1
    bound = asked("bash x.sh; rm a.txt")  # the control
    assert not bound.wanted.unbound
    assert approve(dirs, bound, Terms(uses=2), by="me").uses == 2


@pytest.mark.parametrize("command", NONE)
def test_what_a_call_does_not_run_or_writes_itself_is_not(place: Path, command: str) -> None:
    assert of(place, command) == ()


def test_what_lies_outside_is_not_read(place: Path) -> None:
    (place / "away.sh").symlink_to("../out.sh")
    assert of(place, "sh ../out.sh; ./away.sh") == ()


def test_what_comes_goes_or_is_written_again_counts(place: Path) -> None:
    scripts = of(place, "./x.sh; ./new.sh; bash sub")
    assert [Path(script.path).name for script in scripts] == ["x.sh", "new.sh"]
    assert list(shown_scripts(scripts)) == [str(place / "x.sh")]
    (place / "x.sh").write_text("echo one > made\n")
    assert touched_scripts(scripts) == [str(place / "x.sh")]
    assert other_scripts(scripts) == []  # it holds what it held
    (place / "new.sh").touch()
    (place / "x.sh").unlink()
    assert other_scripts(scripts) == [str(place / "x.sh"), str(place / "new.sh")]


def test_long_ones_are_bound_whole_and_shown_in_part(place: Path) -> None:
    (place / "x.sh").write_text("#" * 3 * MOST_SHOWN * 4 + "\n")
    [script] = of(place, "./x.sh")
    assert script.shown.endswith("\n... and more that is not shown")
    with (place / "x.sh").open("a") as file:
        file.write("rm a.txt\n")
    assert other_scripts([script]) == [script.path]
    (place / "x.sh").write_bytes(b"\x7fELF\0")
    assert of(place, "./x.sh")[0].shown.endswith("which are no text")


def test_more_than_anybody_could_read_is_refused(place: Path) -> None:
    for number in range(MOST_SCRIPTS + 1):
        (place / f"s{number}.sh").write_text("true\n")
    names = [f"sh s{number}.sh" for number in range(MOST_SCRIPTS + 1)]
    assert len(of(place, "; ".join(names[1:]))) == MOST_SCRIPTS
    with pytest.raises(TooManyScripts):
        of(place, "; ".join(names))


def test_the_card_shows_the_text_of_what_is_run(place: Path, tmp_path: Path) -> None:
    dirs = Dirs.under(tmp_path / "state").create()
    Registry(dirs).add(place, approved=True)
    request = of_command(
        dirs,
        ["./x.sh; rm a.txt"],
        workspace=str(place),
        agent="main",
        role=None,
        cwd=None,
        here=None,
    )
    digest = hashlib.sha256(b"echo one > made\n").hexdigest()
    shown = f"{place}/x.sh, 16 bytes, SHA-256 {digest}:\necho one > made\n"
    assert ("runs", shown) in rows_of(request)[1]
    assert "| echo one > made\n" in card_of(request)


@pytest.mark.docker
@pytest.mark.parametrize("scope", list(Scope))
def test_a_yes_covers_no_other_text(
    images: Images, place: Path, tmp_path: Path, run_id: str, scope: Scope
) -> None:
    async def run(house: House) -> tuple[CallResult, ...]:
        first = await house.call("./x.sh; rm a.txt")
        house.approve(first, Terms(scope=scope, uses=2))
        (place / "x.sh").write_text("echo two > made\n")
        other = await house.call("./x.sh; rm a.txt")
        assert not (place / "made").exists()
        (place / "x.sh").write_text("echo one > made\n")  # the control: what was approved runs
        same = await house.call("./x.sh; rm a.txt")
        return first, other, same

    first, other, same = asyncio.run(_in_house(place, tmp_path, run_id, run))
    assert first.ending is other.ending is Ending.NOT_APPROVED
    assert same.landed, same.message
    assert (place / "made").read_text() == "one\n"


@pytest.mark.docker
def test_a_script_that_changes_meanwhile_is_asked_about_again_or_held(
    images: Images, place: Path, tmp_path: Path, run_id: str
) -> None:
    shown: list[str] = []

    async def run(house: House) -> tuple[CallResult, ...]:
        async def while_one_thinks(call_id: str, plan: ActionPlan, decision: Decision) -> Answer:
            shown.append(card_of(house.grants.asked(call_id).request))
            if len(shown) == 1:
                (place / "x.sh").write_text("echo two > made\n")
            return Answer(approved=True, by="me")

        thinking = await house.call("./x.sh; rm a.txt", while_one_thinks)
        (place / "a.txt").write_text("a\n")

        admission = await house.admit("./x.sh; rm a.txt")
        house.approve_call(admission.call)
        admission = await house.admit("./x.sh; rm a.txt")
        (place / "x.sh").write_text("echo three > made\n")
        redeemed = await house.supervisor.redeem(admission)

        (place / "x.sh").write_text("echo begun\necho four > made\n")

        def change(_stream: str, _data: bytes) -> None:  # what it wrote comes before its end
            (place / "x.sh").write_text("echo begun\necho five > made\n")

        changed = await house.call("./x.sh; rm a.txt", _yes, change)
        unchanged = await house.call("./x.sh; rm a.txt", _yes, lambda _stream, _data: None)
        return thinking, redeemed, changed, unchanged

    thinking, redeemed, changed, unchanged = asyncio.run(_in_house(place, tmp_path, run_id, run))
    assert thinking.landed, thinking.message
    assert ["| echo one > made" in card for card in shown] == [True, False]
    assert "| echo two > made" in shown[1]
    assert redeemed.ending is Ending.NOT_APPROVED
    assert "x.sh` is not what was approved any more" in redeemed.message
    assert (changed.judgement, changed.landed) == ("hold", False)
    assert "not-as-approved" in changed.message
    assert (unchanged.judgement, unchanged.landed) == ("land", True), unchanged.message


@pytest.mark.docker
def test_a_script_that_is_landed_over_in_the_queue_does_not_run(
    images: Images, place: Path, tmp_path: Path, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(house: House) -> tuple[CallResult, ...]:
        other = await house.behind("cat > x.sh", b"echo evil > made\n", monkeypatch)
        assert not (place / "made").exists()
        (place / "x.sh").write_text("echo one > made\n")
        return other, await house.behind("cat > b.txt", b"b\n", monkeypatch)

    other, same = asyncio.run(_in_house(place, tmp_path, run_id, run))
    assert other.ending is Ending.NOT_APPROVED
    assert "x.sh` is not what was approved any more" in other.message
    assert same.landed, same.message
    assert (place / "made").read_text() == "one\n"


@pytest.mark.docker
@pytest.mark.parametrize("role", [None, "guest"])
def test_another_script_is_told_of_where_nothing_was_changed(
    images: Images, place: Path, tmp_path: Path, run_id: str, role: str | None
) -> None:
    config = Dirs.under(tmp_path / "lockgate").create().config
    config.mkdir(exist_ok=True)
    may = "{read: 'yes', write: 'no', execute: with approval, push: with approval}"
    (config / "policy.yaml").write_text(f"version: 1\nroles: {{roles: {{guest: {may}}}}}\n")
    (place / "x.sh").write_text("echo begun\n")

    async def run(house: House) -> tuple[CallResult, ...]:
        def change(_stream: str, _data: bytes) -> None:
            (place / "x.sh").write_text("echo begun\n# longer by now\n")

        changed = await house.call("./x.sh; git push origin main", _yes, change, role=role)
        same = await house.call("./x.sh; git push origin main", _yes, role=role)
        return changed, same

    changed, same = asyncio.run(_in_house(place, tmp_path, run_id, run))
    assert [one.judgement is None for one in (changed, same)] == [role == "guest"] * 2
    assert changed.stdout.startswith("begun\n")
    assert changed.changes_total == same.changes_total == 0
    assert "x.sh` changed on the host" in changed.message
    assert "(not-as-approved)" in changed.message
    assert "not-as-approved" not in same.message


@pytest.mark.docker
def test_an_agents_own_tool_writes_no_script_that_runs(
    images: Images, place: Path, tmp_path: Path, run_id: str
) -> None:
    (place / "x.sh").write_text("echo begun\nsleep 600\n")
    begun = asyncio.Event()

    async def run(house: House) -> tuple[CallResult | None, ...]:
        running = asyncio.ensure_future(
            house.call("./x.sh; rm a.txt", _yes, lambda _stream, _data: begun.set())
        )
        await begun.wait()
        (place / "alias.sh").symlink_to("x.sh")
        found = [await house.write(name) for name in ("x.sh", "alias.sh", "b.txt")]
        running.cancel()
        await asyncio.wait([running])
        return *found, await house.write("x.sh")

    named, linked, other, later = asyncio.run(_in_house(place, tmp_path, run_id, run))
    for refused in (named, linked):
        assert refused is not None
        assert refused.ending is Ending.DENIED
        assert f"which a person approved, runs `{place}/x.sh`; try again" in refused.message
    assert other is None
    assert later is None


async def _yes(call_id: str, plan: ActionPlan, decision: Decision) -> Answer:
    return Answer(approved=True, by="me")


_Found = TypeVar("_Found", bound=CallResult | None)


class House:
    """A supervisor with one workspace."""

    def __init__(self, supervisor: Supervisor, dirs: Dirs, place: Path) -> None:
        self.supervisor = supervisor
        self.dirs = dirs
        self.grants = Grants(dirs)
        self._place = place

    def plan(self, command: str, role: str | None = None) -> ActionPlan:
        params = Params(command=command)
        return ActionPlan(tool="Bash", params=params, workspace=str(self._place), role=role)

    async def call(
        self,
        command: str,
        approver: Approver = nobody,
        heard: OnOutput | None = None,
        role: str | None = None,
    ) -> CallResult:
        plan = self.plan(command, role)
        return await self.supervisor.call(plan, approver=approver, on_output=heard)

    async def behind(self, first: str, given: bytes, monkeypatch: pytest.MonkeyPatch) -> CallResult:
        """Make an approved call that waits in the queue until another one, which reads what it is
        given, has landed."""
        inside, waits = asyncio.Event(), asyncio.Event()
        opened = Transaction.__aenter__

        async def enter(transaction: Transaction) -> Transaction:
            if inside.is_set():
                waits.set()
            return await opened(transaction)

        async def given_late() -> AsyncIterator[bytes]:
            inside.set()
            await waits.wait()
            yield given

        monkeypatch.setattr(Transaction, "__aenter__", enter)
        before = asyncio.ensure_future(
            self.supervisor.call(self.plan(first), stdin=given_late(), approver=nobody)
        )
        await inside.wait()
        found = await self.call("./x.sh; rm a.txt", _yes)
        assert (await before).landed
        monkeypatch.undo()
        return found

    async def write(self, name: str) -> CallResult | None:
        """Ask for a write by the agent's own tool; return the refusal."""
        params = Params(file_path=str(self._place / name), content="echo evil\n")
        plan = ActionPlan(tool="Write", params=params, workspace=str(self._place))
        return (await self.supervisor.admit(plan, approver=_yes, on_host=True)).refused

    async def admit(self, command: str) -> Admission:
        return await self.supervisor.admit(self.plan(command))

    def approve(self, asked: CallResult, terms: Terms) -> None:
        request = self.grants.asked(asked.id).request
        approve(self.dirs, request, terms, by="me")

    def approve_call(self, call: str) -> None:
        approve(self.dirs, self.grants.asked(call).request, Terms(), by="me")


async def _in_house(
    place: Path,
    tmp_path: Path,
    run_id: str,
    work: Callable[[House], Awaitable[tuple[_Found, ...]]],
) -> tuple[_Found, ...]:
    dirs = Dirs.under(tmp_path / "lockgate").create()
    labels = {LABEL_TEST: run_id}
    async with Supervisor(dirs, workspaces=[Workspace(str(place))], labels=labels) as supervisor:
        return await work(House(supervisor, dirs, place))
