# SPDX-License-Identifier: Apache-2.0
"""What lies in Lockgate's folders, or holds its locks, neither hangs a stop nor widens it."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.agents.registry import Agent, Registry
from sandbox.errors import Stopped, Unavailable
from sandbox.host.latch import Latch
from sandbox.processes.table import Host, boot
from sandbox.stopping.stop import stop_all
from tests.fakes import wait_for
from tests.sandbox.shells import Shell

WAIT_SECONDS = 60.0


@pytest.fixture
def agent(shell: Shell) -> Iterator[Agent]:
    """Return an agent that runs."""
    words = ("agent", "run", "--name", "w", "--", "bash", "-c", "echo ready; exec sleep 261")
    with shell.start(*words) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"ready\n"
        yield Registry(shell.dirs).find("w") or pytest.fail("it is not registered")
        stop_all(shell.dirs, "the test has ended")


def locked(path: Path) -> Callable[[], None]:
    """Hold a file's lock; return what lets it go."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return lambda: os.close(fd)


def pipe(path: Path) -> Callable[[], None]:
    """Put a pipe into a place; return what removes it."""
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    return lambda: path.unlink(missing_ok=True)


def _lives(agent: Agent) -> bool:
    process = Host().process(agent.pid)
    return process is not None and process.known == agent.root and not process.ended


HOLDS: dict[str, Callable[[Path], Callable[[], None]]] = {
    "a pipe as an entry": lambda state: pipe(state / "agents/p.json"),
    "a pipe as a list of processes": lambda state: pipe(state / "agents/w.seen"),
    "a pipe as a list of the lost": lambda state: pipe(state / "agents/lost"),
    "a pipe as the list of declared agents": lambda state: pipe(state / "declared-agents.json"),
    "a pipe as the lock": lambda state: pipe(state / "agents/lock"),
    "a pipe as the latch": lambda state: pipe(state / "STOP"),
    "a pipe as a note of a container": lambda state: pipe(state / "containers/p"),
    "a pipe as the supervisor's lock": lambda state: pipe(state / "supervisor.lock"),
    "the registry is locked": lambda state: locked(state / "agents/lock"),
    "the log is locked": lambda state: locked(state / "audit.jsonl"),
}


@pytest.mark.parametrize("hold", HOLDS.values(), ids=HOLDS)
def test_a_stop_ends_all_and_answers(
    shell: Shell, agent: Agent, hold: Callable[[Path], Callable[[], None]]
) -> None:
    assert Host().process(agent.pid) is not None
    release = hold(shell.dirs.state)
    try:
        status, out, err = shell("stop", "--reason", "a test")
        assert "agent w: 1 process (sleep)" in out, err
        assert status == 0, out
        one = Host().process(agent.pid)
        assert one is None or one.known != agent.root or one.ended
        with pytest.raises(Stopped):
            Latch(shell.dirs).check("w")
    finally:
        release()


@pytest.mark.parametrize("name", [(), ("--agent", "w")], ids=["all", "one"])
def test_a_stop_ends_what_it_can_see_and_names_what_it_cannot(
    shell: Shell, agent: Agent, name: tuple[str, ...]
) -> None:
    unread = shell.dirs.state / "agents/x.json"
    unread.symlink_to(unread)  # a file that nobody can open, root included
    try:
        _, out, err = shell("stop", *name, "--reason", "a test")
        assert "agent w: 1 process (sleep)" in out, err
        assert "x.json" in out
        assert not _lives(agent)
        with pytest.raises(Unavailable):
            Registry(shell.dirs).all()
    finally:
        unread.unlink()


def test_an_agent_that_stops_all_ends_though_another_entry_cannot_be_read(shell: Shell) -> None:
    unread = shell.dirs.state / "agents/x.json"
    command = shlex.join([*shell.program, "stop"])
    script = f"echo ready; read; ln -s {unread} {unread}; {command}; exec sleep 262"
    words = ("agent", "run", "--name", "w", "--", "bash", "-c", script)
    with shell.start(*words, stdin=subprocess.PIPE) as started:
        assert started.stdin is not None
        assert started.stdout is not None
        assert started.stdout.readline() == b"ready\n"
        agent = Registry(shell.dirs).find("w") or pytest.fail("it is not registered")
        started.stdin.write(b"\n")
        started.stdin.flush()
        wait_for(lambda: not _lives(agent), "it has ended")
    unread.unlink()


FORGED: dict[str, dict[str, Any]] = {
    "as it is written": {},
    "a start that is no number": {"created": "0"},
    "a process that is no number": {"pid": "1"},
    "a name that is another's": {"id": "another"},
    "a token that is no text": {"token": 5},
    "a group that is everybody's": {"group": "/sys/fs/cgroup/freezer"},
    "a group that is another agent's": {"group": "/sys/fs/cgroup/freezer/lockgate/another"},
}


@pytest.mark.parametrize(("what", "fields"), FORGED.items(), ids=FORGED)
def test_an_entry_that_no_registry_writes_is_none(
    shell: Shell, what: str, fields: dict[str, Any]
) -> None:
    with subprocess.Popen(["sleep", "261"]) as other:
        one = Host().process(other.pid)
        assert one is not None
        entry = {
            "id": "w",
            "parent": None,
            "path": "w",
            "role": None,
            "pid": one.pid,
            "created": one.created,
            "boot": boot(),
            "token": "t",
            "foreign": 0,
            "starter": None,
            "group": None,
            "program": "x",
            "source": "run",
            "started": 1.0,
        }
        folder = shell.dirs.state / "agents"
        folder.mkdir()
        (folder / "w.json").write_text(json.dumps({**entry, **fields}))
        (folder / "deep.json").write_text("[" * 100_000)
        found = Registry(shell.dirs).all()
        other.kill()
    assert len(found) == (0 if fields else 1), what
