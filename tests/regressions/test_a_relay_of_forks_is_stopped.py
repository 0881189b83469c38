# SPDX-License-Identifier: Apache-2.0
"""A program that forks and ends all the time is neither forgotten nor left by a stop."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.agents.registry import Registry
from sandbox.processes.passes import MOST, Passes
from sandbox.processes.table import Host, Proc, Table
from sandbox.stopping.stop import stop_all
from tests.sandbox.shells import Shell

RELAY = """
import os, sys, time
end = time.time() + 280
while time.time() < end:
    if os.fork():
        os._exit(0)
    time.sleep(0.03)
"""


@pytest.fixture
def shell(shell: Shell, tmp_path: Path) -> Iterator[Shell]:
    yield shell
    for _ in range(50):  # whatever a failed test leaves
        for pid in runners(tmp_path):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def runners(place: Path) -> list[int]:
    """Return the processes that run the relay now."""
    host = Host()
    mark = str(place / "relay")
    return [pid for pid, one in host.table().items() if mark in host.command(pid) and not one.ended]


@pytest.mark.parametrize("grouped", [True, False])
def test_it_is_kept_and_stopped(shell: Shell, tmp_path: Path, grouped: bool) -> None:
    (tmp_path / "relay").write_text(RELAY)
    words = ("agent", "run", "--name", "r", "--", sys.executable, str(tmp_path / "relay"))
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with shell.start(*words, **silent) as started:
        assert started.wait(120) == 0  # its first process has ended
    registry = Registry(shell.dirs)
    if not grouped and (group := (registry.find("r") or pytest.fail("forgotten")).group):
        while pids := (Path(group) / "cgroup.procs").read_text().split():
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):  # the next one runs by now
                    Path(group).parent.parent.joinpath("cgroup.procs").write_text(pid)
    for _ in range(10):
        registry.drop_ended()
        assert registry.find("r") is not None
    seen = {tuple(runners(tmp_path))}
    end = time.monotonic() + 60
    while len(seen) < 2 and time.monotonic() < end:
        seen.add(tuple(runners(tmp_path)))
    assert len(seen) > 1  # the control: it is another process all the time
    assert stop_all(shell.dirs, "a test").left == ()
    time.sleep(0.2)
    assert [runners(tmp_path) for _ in range(5)] == [[]] * 5
    assert registry.find("r") is None


def proc(pid: int, created: int = 10, ppid: int = 1) -> Proc:
    return Proc(pid, ppid, pid, created, "S", 1, "p")


def test_what_leaves_a_pass_open() -> None:
    table = Table({5: proc(5), 6: proc(6)})
    passes = Passes(since=10)
    assert not passes.again(table, {proc(5).known}, {6})
    assert passes.sure
    assert passes.again(table, {proc(5).known}, ())  # 6 shows nothing
    assert not passes.sure
    assert not passes.again(table, {proc(5).known}, ())  # and still does: it is nobody's relay
    assert passes.sure
    assert not passes.again(Table({7: proc(7, created=9), 8: proc(8, ppid=2)}), (), ())
    dead = Table({6: proc(6)._replace(state="Z")})
    assert passes.again(dead, {proc(6).known}, {6}) is False  # it stood there before
    dead[5] = proc(5)._replace(state="Z")
    assert passes.again(dead, {proc(5).known}, {5, 6})  # it has just ended, and may have forked
    assert not passes.again(dead, {proc(5).known}, {5, 6})
    table.missed = frozenset((9,))
    asked = [passes.again(table, {proc(5).known}, {6}) for _ in range(MOST)]
    assert asked == [True] * (MOST - 1) + [False]  # at some time it ends
    assert not passes.sure
