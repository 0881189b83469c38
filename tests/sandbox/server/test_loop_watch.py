# SPDX-License-Identifier: Apache-2.0
"""A supervisor whose loop stands still says where, ends on a signal, and is ended by a stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.client.connect import reach
from sandbox.processes.supervisor_process import supervisor
from sandbox.processes.table import Host
from sandbox.stopping.silent import ANSWER_SECONDS, end_silent
from sandbox.stopping.stop import stop_all
from tests.sandbox.shells import Shell

WAIT_SECONDS = 120.0
BUSY = """
import asyncio, os, re, signal, sys
from sandbox.server.loop_watch import LoopWatch, end_on

def stands_still():
    if sys.argv[1] == "log":  # until the log says so, and then it goes on
        while not os.fstat(2).st_size:
            re.match("(a*)*b", "a" * 18)
    while sys.argv[1] == "ever":
        re.match("(a*)*b", "a" * 18)

async def main():
    done = asyncio.Event()
    end_on((signal.SIGTERM,), done.set, seconds=1 if sys.argv[1] == "ever" else 60)
    watch = LoopWatch(sys.stderr, seconds=0.2)
    watch.start()
    print("ready", flush=True)
    stands_still()
    await asyncio.sleep(0.5)
    if sys.argv[1] != "log":
        await done.wait()
    watch.close()
    print("ended", flush=True)

asyncio.run(main())
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def begin(how: str, log: Path) -> subprocess.Popen[str]:
    """Start a process whose loop stands still; return when it is about to."""
    with log.open("w") as errors:
        one = subprocess.Popen(
            [sys.executable, "-c", BUSY, how], stdout=subprocess.PIPE, stderr=errors, text=True
        )
    assert one.stdout is not None
    assert one.stdout.readline() == "ready\n"
    return one


def test_the_log_says_where_a_loop_stood_still(log: Path) -> None:
    one = begin("log", log)
    assert one.communicate(timeout=WAIT_SECONDS)[0] == "ended\n"
    said = log.read_text()
    assert "in stands_still" in said
    assert "the event loop stood still for" in said


def test_a_signal_ends_a_process_whose_loop_stands_still(log: Path) -> None:
    one = begin("ever", log)
    one.send_signal(signal.SIGTERM)
    one.communicate(timeout=WAIT_SECONDS)
    assert one.returncode == -signal.SIGALRM


def test_a_loop_that_goes_round_ends_in_its_own_way(log: Path) -> None:
    one = begin("free", log)
    one.send_signal(signal.SIGTERM)
    assert one.communicate(timeout=WAIT_SECONDS)[0] == "ended\n"
    assert one.returncode == 0


@pytest.fixture
def running(shell: Shell) -> Iterator[int]:
    """Start a supervisor; return its process id."""
    line = reach(shell.dirs)
    pid = int(line.hello["pid"])
    line.close()
    yield pid
    found = supervisor(shell.dirs.lock, Host())
    if found is not None:
        Host().send(found, signal.SIGKILL)


def test_a_stop_ends_a_supervisor_that_does_not_answer(shell: Shell, running: int) -> None:
    os.kill(running, signal.SIGSTOP)  # it answers nobody, as one that computes for ever
    report = stop_all(shell.dirs, "it hangs")
    waited = f"did not answer within {ANSWER_SECONDS:g} s and was ended"
    said = f"the supervisor (process {running}) {waited}"
    assert [one for one in report.notes if one.startswith(said)]
    assert supervisor(shell.dirs.lock, Host()) is None
    line = reach(shell.dirs)
    assert int(line.hello["pid"]) != running
    line.close()


def test_a_stop_leaves_a_supervisor_that_answers(shell: Shell, running: int) -> None:
    report = stop_all(shell.dirs, "just so")
    assert not [one for one in report.notes if "supervisor" in one]
    found = supervisor(shell.dirs.lock, Host())
    assert found is not None
    assert found.pid == running


def test_a_supervisor_that_goes_on_meanwhile_is_left(shell: Shell, running: int) -> None:
    os.kill(running, signal.SIGSTOP)
    later = threading.Timer(0.2, os.kill, (running, signal.SIGCONT))
    later.start()
    assert end_silent(shell.dirs, Host(), seconds=WAIT_SECONDS) == ("", True)
    later.join()
