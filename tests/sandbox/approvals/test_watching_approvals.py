# SPDX-License-Identifier: Apache-2.0
"""The live list of questions: what it shows, what a key does, and how it ends."""

from __future__ import annotations

import io
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console
from rich.live import Live

from policy.gate1.decide import Policy, decide
from policy.model import ActionPlan, Context, Params, Workspace
from policy.people.approval import Scope, covers, wanted
from sandbox.agents.registering import register
from sandbox.agents.told_sessions import ToldSessions
from sandbox.approvals import offers
from sandbox.approvals.store.grants import Grants
from sandbox.approvals.store.request import Request
from sandbox.cli.people.waiting_list import View, waiting_list
from sandbox.cli.people.watch import ApprovalsWatch
from tests.sandbox.shells import WAIT_SECONDS, Shell

NOW = time.time()
HOSTILE = "rm \x1b[2J\u202ea.txt\n> c9  0 s old, 30 min left  danger \u2066"
YES = (b"[yes/no]", b"yes\n")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    shell.dirs.create()
    return shell


def question(command: str = "rm a.txt", call: str = "c1", *, session: str = "") -> Request:
    plan = ActionPlan(tool="Bash", params=Params(command=command), workspace="/w")
    context = Context((Workspace("/w"),), home="/home/me")
    decision = decide(plan, context, Policy.default())
    what = wanted(plan, decision, context, Policy.default())
    what = what.model_copy(update={"session": session})
    now = time.time()
    return Request(
        call=call, wanted=what, plan=plan, decision=decision, asked=now, until=now + 1800
    )


def ask(shell: Shell, request: Request) -> Request:
    Grants(shell.dirs).ask(request)
    return request


def shown(requests: list[Request], *, width: int = 80, height: int = 24, chosen: str = "") -> str:
    view = View(requests, chosen, "granted \x1b[31mg1")
    return waiting_list(view, now=NOW + 5, width=width, height=height).plain


@pytest.mark.parametrize("width", [20, 80, 200])
def test_what_an_agent_wrote_is_a_line_of_its_own(width: int) -> None:
    lines = shown([question(HOSTILE), question("git push", "c2")], width=width).split("\n")
    assert len(lines) == 1 + 2 * 2 + 2
    assert all(len(line) <= width and line.isprintable() for line in lines)
    assert lines[0].startswith("Lockgate: 2 calls")
    assert [line for line in lines if line.startswith("  c")] == [lines[1], lines[3]]
    assert "\\x1b[2J" in lines[2]


def test_a_list_longer_than_the_terminal_shows_the_chosen_one() -> None:
    requests = [question(f"rm {at}", f"c{at:03}") for at in range(100)]
    for chosen in ("c000", "c050", "c099"):
        lines = shown(requests, height=12, chosen=chosen).split("\n")
        assert len(lines) <= 12
        assert [line[:6] for line in lines if line.startswith(">")] == [f"> {chosen}"]


def test_each_yes_says_how_far_it_goes_and_goes_no_further() -> None:
    request = question("git push origin main", session="s-1")
    other = question("git push origin main", session="s-2").wanted
    for offer, same, elsewhere in (
        (offers.once(request), True, True),
        (offers.this_session(request), True, False),
        (offers.always_here(request), True, True),
    ):
        assert offer is not None
        grant = offer.terms.grant(request, NOW, by="me")
        assert covers(grant, request.wanted, NOW) is same
        assert covers(grant, other, NOW) is elsewhere
        assert not covers(grant, question("git push origin other").wanted, NOW)
    assert offers.this_session(question()) is None
    unknown = question("rm $X", session="s-1")
    assert offers.this_session(unknown) is None
    assert offers.always_here(unknown) is None


KEYS = {
    "once": (b"o", Scope.EXACT, 1, "exactly this call, once"),
    "this session": (b"s", Scope.PROGRAM, 10_000, "in its session s-1"),
    "always here": (b"a", Scope.PROGRAM, 10_000, "in /w, for 90 days"),
}


@pytest.mark.parametrize("key, scope, uses, words", KEYS.values(), ids=KEYS)
def test_a_key_and_a_yes_below_the_card_allow_a_call(
    shell: Shell, key: bytes, scope: Scope, uses: int, words: str
) -> None:
    ask(shell, question(session="s-1"))
    typing = [(b"rm a.txt", key), YES, (b"granted g", b"q")]
    status, said = shell.at_terminal("approvals", "--watch", typing=typing)
    assert status == 0, said
    for part in ("roll back", words, "it covers", "rm a.txt", "no call waits"):
        assert part in said
    [grant] = Grants(shell.dirs).all()
    assert (grant.scope, grant.uses) == (scope, uses)
    assert grant.session == ("s-1" if key == b"s" else None)
    log = (shell.dirs.state / "audit.jsonl").read_text()
    assert f'"grant":"{grant.id}"' in log
    assert ('"session":"s-1"' in log) is (key == b"s")


def test_a_sessions_grant_goes_with_its_session(shell: Shell) -> None:
    """It was listed as usable for 8 hours, whatever became of the session."""
    ask(shell, question(session="s-1"))
    ask(shell, question("rm b.txt", "c2", session="of-an-editor"))
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        agent = register(shell.dirs, process.pid, name="main", source="test")
        ToldSessions(shell.dirs).note(agent, "s-1")
        for _ in range(2):
            typing = [(b"rm ", b"s"), YES, (b"granted g", b"q")]
            assert shell.at_terminal("approvals", "--watch", typing=typing)[0] == 0
        listed = shell("grants")[1]
        assert (listed.count("8 hours left"), "rm a.txt" in listed) == (2, True)
        process.kill()
    listed = shell("grants")[1]
    assert (listed.count("8 hours left"), "rm b.txt" in listed) == (1, True)
    assert "its session has ended" in shell("grants", "--all")[1]
    with subprocess.Popen(
        ["cat"], stdin=subprocess.PIPE
    ) as process:  # which takes the session up again
        agent = register(shell.dirs, process.pid, name="main", source="test")
        ToldSessions(shell.dirs).note(agent, "s-1")
        assert shell("grants")[1].count("8 hours left") == 2
        process.kill()


def test_details_a_no_and_a_denial(shell: Shell) -> None:
    ask(shell, question())
    typing = [
        (b"rm a.txt", b"\r"),
        (b"goes back", b"q"),
        (b"rm a.txt", b"s"),
        (b"names none", b"o"),
        (b"[yes/no]", b"no\n"),
        (b"is not answered", b"n"),
        (b"Why", b"use staging\n"),
        (b"denied c1", b"q"),
    ]
    status, said = shell.at_terminal("approvals", "--watch", typing=typing)
    assert status == 0, said
    assert "cannot be known" not in said
    assert Grants(shell.dirs).state("c1")[0::2] == ("denied", "use staging")
    assert Grants(shell.dirs).all() == []


def test_keys_that_arrive_together_each_count(shell: Shell) -> None:
    for at in range(4):
        ask(shell, question(f"rm {at}.txt", f"c{at}"))
    assert "questions: 4 wait; `lockgate approvals` lists them" in shell("ps")[1]
    typing = [(b"rm 0.txt", b"jjj\x1b[Ajko"), (b"[yes/no]", b"no\n"), (b"is not answered", b"q")]
    status, said = shell.at_terminal("approvals", "--watch", typing=typing)
    assert (status, "c2 is not answered" in said) == (0, True), said


def test_the_chosen_question_stays_chosen_when_it_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    monkeypatch.setattr("sandbox.cli.terminal.dirs", lambda: shell.dirs)
    ask(shell, question("rm a.txt", "c1"))
    ask(shell, question("rm b.txt", "c2"))
    watch, live = ApprovalsWatch(), Live(console=Console(file=io.StringIO()), auto_refresh=False)
    watch.look(live)
    watch.move(b"j")
    ask(shell, question("rm b.txt", "c3"))
    watch.look(live)
    chosen = watch.chosen()
    assert chosen is not None
    assert (chosen.call, chosen.plan.params.command) == ("c3", "rm b.txt")


def test_what_is_typed_before_the_card_is_no_yes(shell: Shell) -> None:
    ask(shell, question())
    typing = [(b"rm a.txt", b"oyes\n"), (b"[yes/no]", b"no\n"), (b"is not answered", b"q")]
    assert shell.at_terminal("approvals", "--watch", typing=typing)[0] == 0
    assert Grants(shell.dirs).asked("c1").state == "open"


def until(terminal: int, wanted: bytes) -> bytes:
    """Return what a terminal shows until something stands there."""
    seen = b""
    while wanted not in seen:
        assert select.select([terminal], [], [], WAIT_SECONDS)[0], seen
        seen += os.read(terminal, 65536)
    return seen


@pytest.mark.parametrize("end", [b"\x03", b"q", b"\x04", b""], ids=["^C", "q", "^D", "closed"])
def test_the_bell_rings_for_a_new_question_and_the_list_ends(shell: Shell, end: bytes) -> None:
    ask(shell, question(call="c1"))
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(shell.workspace)
        words = ["-m", "sandbox.cli.main", "approvals", "--watch"]
        os.execve(sys.executable, [sys.executable, *words], {**shell.env, "NO_COLOR": "1"})
    seen = until(terminal, b"rm a.txt")
    assert b"\x07" not in seen
    ask(shell, question("rm b.txt", "c2"))
    seen = until(terminal, b"rm b.txt")
    assert b"\x07" in seen
    assert b"\x1b[31m" not in seen
    if end:
        os.write(terminal, end)
        until(terminal, b"\x1b[?1049l")  # the screen of before is back
        left = os.waitpid(pid, 0)[1]
        os.close(terminal)
    else:
        os.close(terminal)
        left = os.waitpid(pid, 0)[1]
    assert os.waitstatus_to_exitcode(left) == 0
    assert Grants(shell.dirs).asked("c1").state == "open"


def test_without_a_terminal_there_is_one_line(shell: Shell) -> None:
    says = "lockgate: answering is a person's decision and needs a terminal\n"
    assert shell("approvals", "--watch") == (126, "", says)
    status, said = shell.at_terminal("approvals", "--watch", env={"TERM": "dumb"})
    assert (status, said.count("\n"), "`lockgate approvals --json`" in said) == (2, 1, True)
