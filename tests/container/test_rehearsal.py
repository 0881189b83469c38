# SPDX-License-Identifier: Apache-2.0
"""P8: a call is rehearsed before a person is asked; what lands are the effects that were shown."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from policy.model import ActionPlan, Decision, Params, Workspace
from sandbox.approvals.approver import Answer, Approver, nobody, yes
from sandbox.approvals.store.grants import Grants
from sandbox.approvals.store.request import Terms
from sandbox.calls.supervisor import Supervisor
from sandbox.config.settings import Dirs, Preview, Settings
from sandbox.containers.images import Images
from sandbox.containers.plan import LABEL_TEST
from sandbox.errors import Stopped
from sandbox.results import CallResult, Ending
from tests.fakes import lines_of

pytestmark = pytest.mark.docker
WAIT_SECONDS = 120.0
SETTINGS = Settings(preview=Preview.REHEARSE)


class House:
    """A supervisor that rehearses, over one folder."""

    def __init__(self, root: Path, run_id: str) -> None:
        self.ws = root / "work"
        self.ws.mkdir()
        (self.ws / "a.txt").write_text("one\n")
        self.dirs = Dirs.under(root / "lockgate").create()
        self.grants = Grants(self.dirs)
        self.run_id = run_id

    @contextlib.asynccontextmanager
    async def open(self, settings: Settings = SETTINGS) -> AsyncIterator[Supervisor]:
        """Start the supervisor."""
        async with (
            asyncio.timeout(WAIT_SECONDS),
            Supervisor(
                self.dirs,
                workspaces=[Workspace(str(self.ws))],
                settings=settings,
                labels={LABEL_TEST: self.run_id},
            ) as supervisor,
        ):
            yield supervisor

    def plan(self, command: str, **params: Any) -> ActionPlan:
        """Return a plan that gate 1 asks about: it deletes something as well."""
        return ActionPlan(
            tool="Bash", params=Params(command=command, **params), workspace=str(self.ws)
        )

    def asked(self) -> dict[str, Any]:
        """Return what the open question shows."""
        [found] = self.grants.open_questions(time.time())
        return found.request.preview

    def events(self, supervisor: Supervisor) -> list[str]:
        """Return the record's events, the oldest first."""
        return [one["event"] for one in lines_of(supervisor._record.store)][::-1]


@pytest.fixture
def house(images: Images, tmp_path: Path, run_id: str) -> House:
    """Return a folder with a supervisor to be."""
    return House(tmp_path, run_id)


def answering(approved: bool, look: Callable[[], Any] = lambda: None) -> Approver:
    """Return a person who looks at something and answers."""

    async def answer(call_id: str, plan: ActionPlan, decision: Decision) -> Answer:
        look()
        return Answer(approved=approved, by="me")

    return answer


def run(work: Awaitable[Any]) -> Any:
    async def whole() -> Any:
        return await work

    return asyncio.run(whole())


COMMAND = "rm a.txt; echo two > b.txt; echo done; echo oops >&2"


def test_a_person_is_shown_what_it_did_and_that_alone_lands(house: House) -> None:
    seen: dict[str, Any] = {}

    def look() -> None:
        seen.update(house.asked())
        assert (house.ws / "a.txt").read_text() == "one\n"
        assert not (house.ws / "b.txt").exists()

    async def go() -> CallResult:
        async with house.open() as supervisor:
            done = await supervisor.call(house.plan(COMMAND), approver=answering(True, look))
            await supervisor._record.flush()
            assert house.events(supervisor) == [
                "decided",
                "rehearsed",
                "asked",
                "answered",
                "ended",
            ]
            [call] = supervisor._record.store.calls()
            assert (call.id, call.landed) == (done.id, True)
        return done

    done = run(go())
    assert (seen["ending"], seen["exit_status"], seen["changes"]) == ("ran", 0, 2)
    assert "done" in seen["output"]
    assert "oops" in seen["output"]
    assert "+two" in seen["diff"]
    assert "-one" in seen["diff"]
    assert (done.ending, done.landed) == (Ending.RAN, True)
    assert (house.ws / "b.txt").read_text() == "two\n"
    assert not (house.ws / "a.txt").exists()


def test_after_a_no_nothing_is_there(house: House) -> None:
    async def go() -> CallResult:
        async with house.open() as supervisor:
            done = await supervisor.call(house.plan(COMMAND), approver=answering(False))
            assert await supervisor.held() == ()
        return done

    done = run(go())
    assert (done.ending, done.landed) == (Ending.NOT_APPROVED, False)
    assert sorted(one.name for one in house.ws.iterdir() if one.name != ".lockgate") == ["a.txt"]


def test_other_effects_than_those_shown_are_held(house: House) -> None:
    change = lambda: (house.ws / "c.txt").write_text("from a person\n")  # noqa: E731
    command = "rm a.txt; cat c.txt > d.txt 2>/dev/null; true"

    async def go() -> CallResult:
        async with house.open() as supervisor:
            done = await supervisor.call(house.plan(command), approver=answering(True, change))
            assert [one.id for one in await supervisor.held()] == [done.id]
            assert (house.ws / "a.txt").exists()
            landed = await supervisor.land(done.id)
            assert landed.landed
        return done

    done = run(go())
    assert (done.judgement, done.landed) == ("hold", False)
    assert "not-as-rehearsed" in done.message
    assert (house.ws / "d.txt").read_text() == "from a person\n"  # a person landed it


def test_a_grant_that_is_used_later_is_bound_to_what_was_shown_too(house: House) -> None:
    async def go() -> tuple[CallResult, CallResult, CallResult]:
        async with house.open() as supervisor:
            plan = house.plan("rm a.txt; date +%N%s > t.txt")
            first = await supervisor.call(plan, approver=nobody)
            [question] = house.grants.open_questions(time.time())
            house.grants.approve(question.request, Terms(), by="me", reason="", now=time.time())
            second = await supervisor.call(plan, approver=nobody)
            assert (house.ws / "a.txt").exists()
            await supervisor.discard(second.id)
            plan = house.plan("rm a.txt; echo always > t.txt")
            await supervisor.call(plan, approver=nobody)
            [question] = house.grants.open_questions(time.time())
            house.grants.approve(question.request, Terms(), by="me", reason="", now=time.time())
            third = await supervisor.call(plan, approver=nobody)
        return first, second, third

    first, second, third = run(go())
    assert first.ending is Ending.NOT_APPROVED
    assert (second.judgement, second.landed) == ("hold", False)
    assert "not-as-rehearsed" in second.message
    assert (third.judgement, third.landed) == ("land", True)


def test_secrets_are_masked_in_what_is_shown(house: House) -> None:
    secret = "ghp_" + "a1B2" * 9
    seen: list[str] = []
    command = f"rm a.txt; echo {secret}; echo token={secret} > b.txt"

    async def go() -> None:
        async with house.open() as supervisor:
            look = lambda: seen.append(str(house.asked()))  # noqa: E731
            await supervisor.call(house.plan(command), approver=answering(False, look))
            await supervisor._record.flush()

    run(go())
    [shown] = seen
    assert "[masked]" in shown
    assert secret not in shown
    assert secret not in (house.dirs.state / "audit.jsonl").read_text()


def test_without_the_setting_nothing_is_rehearsed(house: House) -> None:
    async def go() -> list[str]:
        async with house.open(Settings()) as supervisor:
            look = lambda: house.asked() == {}  # noqa: E731
            await supervisor.call(house.plan(COMMAND), approver=answering(False, look))
            await supervisor._record.flush()
            return house.events(supervisor)

    assert "rehearsed" not in run(go())


def test_what_cannot_be_rehearsed_says_why(house: House) -> None:
    seen: list[dict[str, Any]] = []

    async def go() -> None:
        async with house.open() as supervisor:
            look = lambda: seen.append(house.asked())  # noqa: E731
            no = answering(False, look)
            await supervisor.call(house.plan(COMMAND, run_in_background=True), approver=no)

    run(go())
    assert [one["skipped"] for one in seen] == ["it runs in the background"]


def test_what_is_piped_in_is_rehearsed_with_it(house: House) -> None:
    seen: list[dict[str, Any]] = []

    async def go() -> CallResult:
        async with house.open() as supervisor:
            yes = answering(True, lambda: seen.append(house.asked()))
            return await supervisor.call(house.plan("sh; rm a.txt"), approver=yes, stdin=SCRIPT)

    done = run(go())
    [shown] = seen
    assert "+made\n" in shown["diff"]
    assert done.landed
    assert (house.ws / "b.txt").read_text() == "made\n"
    assert not (house.ws / "a.txt").exists()


SCRIPT = b"echo made > b.txt\n"


OBEYED: dict[str, tuple[str, bool, str]] = {
    "named and shown": ("echo 'use x' > .envrc", True, ""),
    "named, among others": ("echo 'use x' > .envrc; touch b", True, ""),
    "not named": ("sh s.sh; rm a.txt", False, "does not name `.envrc`"),
    "a secret was masked": ("echo 'export TOKEN=abcdefgh12345' > .envrc", False, "not shown whole"),
    "not shown whole": ("seq 1000 > .envrc", False, "not shown whole"),
    "binary": ("printf 'a\\000b' > .envrc", False, "not shown whole"),
    "others are held too": ("echo 'use x' > .envrc; ln -s /etc e; rm a.txt", False, ""),
}


@pytest.mark.parametrize("case", OBEYED.values(), ids=OBEYED)
def test_what_was_shown_of_an_obeyed_file_is_not_asked_again(
    house: House, case: tuple[str, bool, str]
) -> None:
    """Found when a person said yes to a file that was named and shown, and it was held again."""
    command, lands, why = case
    (house.ws / "s.sh").write_text("echo 'use x' > .envrc\n")

    async def go(settings: Settings) -> CallResult:
        async with house.open(settings) as supervisor:
            return await supervisor.call(house.plan(command), approver=answering(True))

    assert not run(go(Settings())).landed  # the control: without a rehearsal it is held
    done = run(go(SETTINGS))
    assert done.landed is lands, done.message
    assert why in done.message
    if lands:
        assert (house.ws / ".envrc").read_text() == "use x\n"
        assert "landed as it was shown when it was approved" in done.message


def test_the_content_of_a_write_was_shown(house: House) -> None:
    def plan(**params: Any) -> ActionPlan:
        return ActionPlan(tool="Write", params=Params(**params), workspace=str(house.ws))

    envrc = plan(file_path=str(house.ws / ".envrc"), content="use x\n")
    secret = plan(file_path=str(house.ws / ".envrc"), content="export TOKEN=abcdefgh12345\n")

    async def go() -> list[CallResult]:
        async with house.open(Settings()) as supervisor:
            said = [
                await supervisor.call(envrc, approver=yes),  # said beforehand: nobody saw it
                await supervisor.call(secret, approver=answering(True)),
                await supervisor.call(envrc, approver=answering(True)),
            ]
            await supervisor.undo(said[-1].id)
            return said

    unseen, masked, seen = run(go())
    assert (unseen.landed, masked.landed, seen.landed) == (False, False, True)
    assert "approval did not cover it" in masked.message
    assert not (house.ws / ".envrc").exists()


def test_a_stop_ends_a_rehearsal_and_nobody_is_asked(house: House) -> None:
    async def go() -> list[str]:
        async with house.open() as supervisor:
            call = asyncio.create_task(
                supervisor.call(house.plan("rm a.txt; sleep 100"), approver=answering(True))
            )
            while not any(cell["busy"] for cell in supervisor.cells()):
                await asyncio.sleep(0.05)
            report = await supervisor.stop("a test")
            assert report.left == ()
            done = await asyncio.gather(call, return_exceptions=True)
            assert isinstance(done[0], Exception), done
            with pytest.raises(Stopped):
                await supervisor.call(house.plan("true"))
            await supervisor._record.flush()
            return house.events(supervisor)

    events = run(go())
    assert "answered" not in events
    assert (house.ws / "a.txt").exists()


def test_the_time_limit_ends_a_rehearsal_and_is_shown(house: House) -> None:
    seen: list[dict[str, Any]] = []

    async def go() -> None:
        async with house.open() as supervisor:
            no = answering(False, lambda: seen.append(house.asked()))
            await supervisor.call(house.plan("rm a.txt; sleep 100", timeout=500), approver=no)

    run(go())
    assert [one["ending"] for one in seen] == ["timed-out"]
