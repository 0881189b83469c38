# SPDX-License-Identifier: Apache-2.0
"""Asking the second reading: it is never waited for longer than the deadline, and comes back."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from policy.model import ActionPlan, Context, Params, Verdict, Workspace
from sandbox.gates import second_opinion as module
from sandbox.gates.gate1 import Gate1, Gate1Answer
from sandbox.gates.policy_files import BuiltIn
from sandbox.gates.second_opinion import MOST_TEXT, SecondOpinion

HANG = "$(ls #${ c\n)"
"""The smallest text on which bashlex loops for ever."""
ROOT = Path(__file__).parents[3]
BOUND_SECONDS = 60.0
GENEROUS = 60.0
"""A deadline that a busy machine does not miss."""


@pytest.fixture
def second() -> Iterator[SecondOpinion]:
    """Return a program that can answer."""
    opinion = SecondOpinion(deadline=GENEROUS)
    assert opinion.wait_ready()
    yield opinion
    opinion.close()


def hasten(opinion: SecondOpinion) -> SecondOpinion:
    """Give an opinion the deadline that it has in earnest."""
    opinion.deadline = module.DEADLINE_SECONDS
    return opinion


def until_ready(opinion: SecondOpinion) -> None:
    """Wait until a program that was ended is back."""
    end = time.monotonic() + BOUND_SECONDS
    while not opinion.wait_ready():
        assert time.monotonic() < end


def test_it_says_which_programs_it_sees(second: SecondOpinion) -> None:
    assert second.wait(second.ask("echo $(date) | grep x")) == ("echo", "date", "grep")


def test_a_text_that_it_cannot_read_gives_no_opinion(second: SecondOpinion) -> None:
    assert second.wait(second.ask("case x in x) ls;; esac")) is None
    assert second.wait(second.ask("ls $(pwd)")) == ("ls", "pwd")


def test_any_text_can_be_asked_about(second: SecondOpinion) -> None:
    for text in ("", "\x00", "\ud800", "a\nb", "ü $(ls)", '"'):
        second.wait(second.ask(text))
    assert second.wait(second.ask("ls")) == ("ls",)


def test_a_program_that_is_not_ready_is_not_waited_for() -> None:
    opinion = SecondOpinion(deadline=GENEROUS)
    assert opinion.ask("ls") is None
    assert opinion.wait_ready()
    assert opinion.wait(opinion.ask("ls")) == ("ls",)
    opinion.close()


def test_a_text_that_is_too_long_is_not_asked_about(second: SecondOpinion) -> None:
    assert second.ask("x" * (MOST_TEXT + 1)) is None
    assert second.wait(None) is None


def test_a_hang_costs_the_caller_the_deadline_and_ends_the_program(
    second: SecondOpinion,
) -> None:
    pid = second.pid
    hasten(second)
    began = time.monotonic()
    assert second.wait(second.ask(HANG)) is None
    assert time.monotonic() - began < BOUND_SECONDS
    while second.pid == pid:
        assert time.monotonic() - began < BOUND_SECONDS
        second.ask("ls")
    assert pid is not None
    assert not psutil.pid_exists(pid)
    second.deadline = GENEROUS
    until_ready(second)
    assert second.wait(second.ask("ls $(pwd)")) == ("ls", "pwd")


def test_a_program_that_dies_is_started_anew(second: SecondOpinion) -> None:
    assert second.pid is not None
    dead = psutil.Process(second.pid)
    dead.kill()
    assert second.wait(second.ask("ls")) in (None, ("ls",))
    until_ready(second)
    assert second.pid != dead.pid
    assert second.wait(second.ask("ls")) == ("ls",)


def test_questions_that_wait_are_bounded(second: SecondOpinion) -> None:
    hasten(second)
    second.ask(HANG)
    asked = [second.ask("ls") for _ in range(2 * module.MOST_WAITING)]
    assert sum(one is not None for one in asked) < module.MOST_WAITING
    began = time.monotonic()
    assert second.wait(asked[0]) is None
    assert time.monotonic() - began < BOUND_SECONDS


def test_long_questions_never_make_the_caller_wait(second: SecondOpinion) -> None:
    hasten(second)
    began = time.monotonic()
    second.ask(HANG)
    asked = [second.ask("é" * MOST_TEXT) for _ in range(20)]
    assert time.monotonic() - began < BOUND_SECONDS
    assert asked[-1] is None


def test_a_program_that_is_not_there_gives_no_opinion(tmp_path: Path) -> None:
    opinion = SecondOpinion(program=tmp_path / "nothing.py")
    assert opinion.wait_ready() is False
    assert opinion.wait(opinion.ask("ls")) is None
    opinion.close()


def test_a_program_that_says_nonsense_gives_no_opinion(tmp_path: Path) -> None:
    program = tmp_path / "odd.py"
    program.write_text("for line in __import__('sys').stdin: print('nonsense', flush=True)\n")
    opinion = SecondOpinion(deadline=GENEROUS, program=program)
    assert opinion.wait_ready()
    assert opinion.wait(opinion.ask("ls")) is None
    opinion.close()


def test_it_has_no_environment_and_no_files(second: SecondOpinion) -> None:
    assert second.pid is not None
    program = Path(f"/proc/{second.pid}")
    assert (program / "environ").read_bytes() == b""
    assert {one.name for one in (program / "fd").iterdir()} == {"0", "1", "2"}
    assert (program / "cwd").readlink() == Path("/")


def test_it_ends_with_its_parent_even_in_a_loop() -> None:
    code = (
        "import time\n"
        "from sandbox.gates.second_opinion import SecondOpinion\n"
        "second = SecondOpinion()\n"
        "assert second.wait_ready()\n"
        f"second.ask({HANG!r})\n"
        "print(second.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    child.wait(BOUND_SECONDS)


def test_with_an_event_loop() -> None:
    async def several() -> list[tuple[str, ...] | None]:
        opinion = SecondOpinion(deadline=GENEROUS)
        assert opinion.wait_ready()
        texts = ("ls $(a)", "pwd $(b)", "((", "id `c`")
        found = await asyncio.gather(*(opinion.answer(opinion.ask(one)) for one in texts))
        opinion.close()
        return found

    assert asyncio.run(several()) == [("ls", "a"), ("pwd", "b"), None, ("id", "c")]


def ask_gate(opinion: SecondOpinion, command: str) -> Gate1Answer:
    workspace = "/workspace"
    asked = ActionPlan(tool="Bash", params=Params(command=command), workspace=workspace)
    context = Context(workspaces=(Workspace(workspace),), home="/home/me")
    gate = Gate1(BuiltIn(), opinion)

    async def both() -> Gate1Answer:
        first, second = await asyncio.gather(
            gate.decide(asked, context, (workspace,)), gate.decide(asked, context, (workspace,))
        )
        assert first.decision == second.decision
        return first

    return asyncio.run(both())


def test_the_first_calls_wait_until_the_program_is_ready() -> None:
    with SecondOpinion(deadline=GENEROUS) as opinion:
        assert ask_gate(opinion, "ls $(pwd)").second == ("ls", "pwd")


def test_a_plain_call_does_not_start_the_program() -> None:
    with SecondOpinion(deadline=GENEROUS) as opinion:
        assert ask_gate(opinion, "ls -la").decision.verdict is Verdict.ALLOW
        assert opinion.pid is None


def test_a_call_that_nobody_reads_a_second_time_is_asked_about(tmp_path: Path) -> None:
    with SecondOpinion(program=tmp_path / "nothing.py") as opinion:
        answer = ask_gate(opinion, "ls $(pwd)")
        assert answer.decision.verdict is Verdict.ASK
        assert answer.decision.layers[0].rule == "second-opinion"
        plain = ask_gate(opinion, "ls -la")
        assert plain.decision.verdict is Verdict.ALLOW


def test_with_an_event_loop_a_hang_costs_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STUCK_SECONDS", BOUND_SECONDS)

    async def hang() -> None:
        opinion = SecondOpinion(deadline=GENEROUS)
        assert opinion.wait_ready()
        assert await opinion.answer(opinion.ask("ls")) == ("ls",)
        pid = opinion.pid
        assert pid is not None
        opinion.deadline = 0.05
        assert await opinion.answer(opinion.ask(HANG)) is None
        assert opinion.pid == pid  # it goes on with the text, and nobody waits for it
        while opinion.pid == pid:  # the kernel ends it, and the loop notices
            await asyncio.sleep(0.01)
        opinion.close()

    asyncio.run(asyncio.wait_for(hang(), BOUND_SECONDS))
