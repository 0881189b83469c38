# SPDX-License-Identifier: Apache-2.0
"""Who speaks through a hook: agents' processes are put under watch, and nobody else's."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.agents.registry import Registry
from sandbox.errors import Stopped
from sandbox.hooks.events import Event, Kind
from sandbox.hooks.sessions import Sessions
from sandbox.host.dirs import Dirs
from sandbox.host.latch import Latch
from sandbox.host.self_test import SELF_TEST

AGENT = """\
import subprocess, sys
waits = "import sys; print(1, flush=True); sys.stdin.read()"
hook = subprocess.Popen([sys.executable, "-c", waits], stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE)
hook.stdout.readline()
print(hook.pid, flush=True)
sys.stdin.read()
"""
BEFORE = Event(Kind.BEFORE, "PreToolUse", session="s", tool="Bash")


class Process:
    """A process that stands for an agent, with one below it that stands for its hook."""

    def __init__(self, *words: str) -> None:
        command = words or (sys.executable, "-c", AGENT)
        self.own = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self.own.stdout is not None
        self.hook = int(self.own.stdout.readline())


@pytest.fixture
def dirs() -> Iterator[Dirs]:
    with tempfile.TemporaryDirectory(prefix="lg-") as root:
        yield Dirs.under(Path(root)).create()


@pytest.fixture
def processes() -> Iterator[list[Process]]:
    made: list[Process] = []
    yield made
    for one in made:
        with contextlib.suppress(OSError):
            os.killpg(one.own.pid, 9)
        one.own.communicate()


def ask(dirs: Dirs, peer: int, *, source: str = "claude", claimed: str = "",
        event: Event = BEFORE) -> str:  # fmt: skip
    return asyncio.run(Sessions(dirs).agent(source, event, peer, claimed))


def test_the_first_session_is_main_and_the_next_a_child_of_it(
    dirs: Dirs, processes: list[Process]
) -> None:
    processes += [Process(), Process(), Process()]
    first, second, third = processes
    assert ask(dirs, first.hook) == "main"
    assert ask(dirs, second.hook, source="codex") == "main:codex-2"
    assert ask(dirs, first.hook) == "main"
    assert ask(dirs, third.hook, source="codex") == "main:codex-3"
    found = {one.path: one.pid for one in Registry(dirs).all()}
    assert found == {
        "main": first.own.pid,
        "main:codex-2": second.own.pid,
        "main:codex-3": third.own.pid,
    }
    (main,) = (one for one in Registry(dirs).all() if one.path == "main")
    assert {first.own.pid, first.hook} <= set(Registry(dirs).members(main))


def test_a_name_is_free_again_when_its_session_has_ended(
    dirs: Dirs, processes: list[Process]
) -> None:
    processes.append(Process())
    assert ask(dirs, processes[0].hook) == "main"
    os.killpg(processes[0].own.pid, 9)
    processes[0].own.wait()
    processes.append(Process())
    assert ask(dirs, processes[1].hook) == "main"


def test_many_events_of_one_session_at_once_are_one_agent(
    dirs: Dirs, processes: list[Process]
) -> None:
    processes.append(Process())

    async def work() -> list[str]:
        one = Sessions(dirs)
        return await asyncio.gather(
            *(one.agent("claude", BEFORE, processes[0].hook, "") for _ in range(100))
        )

    assert set(asyncio.run(work())) == {"main"}
    assert len(Registry(dirs).all()) == 1


def test_a_process_that_is_no_ancestor_is_not_put_under_watch(
    dirs: Dirs, processes: list[Process]
) -> None:
    processes += [Process(), Process()]
    mine, other = processes
    assert ask(dirs, mine.hook, claimed=str(other.own.pid)) == "main"
    assert [one.pid for one in Registry(dirs).all()] == [mine.own.pid]


def test_what_the_agent_says_it_is_counts_where_it_is_an_ancestor(
    dirs: Dirs, processes: list[Process]
) -> None:
    processes.append(Process())
    ask(dirs, processes[0].hook, claimed=str(os.getpid()))
    assert [one.pid for one in Registry(dirs).all()] == [os.getpid()]


def test_a_shell_around_the_hook_is_not_the_agent(dirs: Dirs, processes: list[Process]) -> None:
    program = "import os, sys; print(os.getpid(), flush=True); sys.stdin.read()"
    around = f"{sys.executable} -c '{program}' hook claude-code; true"
    processes.append(Process("sh", "-c", around))
    assert processes[0].hook != processes[0].own.pid
    ask(dirs, processes[0].hook)
    assert [one.pid for one in Registry(dirs).all()] == [os.getpid()]


@pytest.mark.parametrize("source", ["cursor", "generic"])
def test_an_editor_is_not_put_under_watch(
    dirs: Dirs, processes: list[Process], source: str
) -> None:
    processes.append(Process())
    assert ask(dirs, processes[0].hook, source=source) == "main"
    assert Registry(dirs).all() == []


def test_the_self_test_is_no_agent(dirs: Dirs, processes: list[Process]) -> None:
    processes.append(Process())
    event = Event(Kind.BEFORE, "PreToolUse", session=SELF_TEST, tool="Bash")
    assert ask(dirs, processes[0].hook, event=event) == "main"
    assert Registry(dirs).all() == []


def test_a_sub_agents_name_cannot_be_another_agents(dirs: Dirs, processes: list[Process]) -> None:
    processes.append(Process())
    event = Event(Kind.BEFORE, "PreToolUse", session="s", tool="Bash", child="x:main\n" + "y" * 99)
    name = ask(dirs, processes[0].hook, event=event)
    assert name.startswith("main:sub:x-main-y")
    assert name.count(":") == 2
    assert len(name) < 80


def test_no_new_session_begins_while_all_is_stopped(dirs: Dirs, processes: list[Process]) -> None:
    processes.append(Process())
    Latch(dirs).set("a test")
    with pytest.raises(Stopped, match="a test"):
        ask(dirs, processes[0].hook)
