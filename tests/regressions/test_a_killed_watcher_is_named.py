# SPDX-License-Identifier: Apache-2.0
"""What an agent leaves after it killed `lockgate agent run` cannot be known: a stop says so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from sandbox.agents.registry import Agent, Registry
from sandbox.processes.table import Host
from sandbox.stopping.stop import stop_all
from tests.sandbox.shells import Shell

SAID = "agent w: who watched it (`lockgate agent run`) was killed"
WAIT_SECONDS = 120.0


def begun(shell: Shell, script: str) -> tuple[subprocess.Popen[bytes], Agent]:
    """Start an agent that says `ready` once it runs."""
    words = ("agent", "run", "--name", "w", "--", "bash", "-c", f"echo ready; {script}")
    started = shell.start(*words, stdin=subprocess.PIPE)
    assert started.stdout is not None
    assert started.stdout.readline() == b"ready\n"
    agent = Registry(shell.dirs).find("w")
    assert agent is not None
    return started, agent


def killed(started: subprocess.Popen[bytes], agent: Agent) -> None:
    """Kill the process that watches an agent."""
    assert agent.starter is not None
    os.kill(agent.starter[0], signal.SIGKILL)
    started.wait(WAIT_SECONDS)


@pytest.mark.parametrize("watched", [True, False])
def test_while_it_runs(shell: Shell, watched: bool) -> None:
    started, agent = begun(shell, "exec sleep 261")
    if not watched:
        killed(started, agent)
    left = stop_all(shell.dirs, "a test").left
    started.communicate(timeout=WAIT_SECONDS)
    assert [one[: len(SAID)] for one in left] == ([] if watched else [SAID])
    assert stop_all(shell.dirs, "again").left == ()  # it is said once


@pytest.mark.parametrize("watched", [True, False])
def test_when_it_has_ended(shell: Shell, watched: bool) -> None:
    started, agent = begun(shell, "read x" if watched else "exec sleep 261")
    if watched:
        started.communicate(b"\n", timeout=WAIT_SECONDS)
    else:
        killed(started, agent)
        os.kill(agent.pid, signal.SIGKILL)
    registry = Registry(shell.dirs)
    while registry.all():
        registry.drop_ended()
    assert registry.take_lost(lambda name: name == "another") == []
    left = stop_all(shell.dirs, "a test").left
    assert [one[: len(SAID)] for one in left] == ([] if watched else [SAID])
    assert registry.take_lost(lambda _: True) == []


def test_what_goes_on_after_the_agent_is_watched_as_before(shell: Shell) -> None:
    started, agent = begun(shell, "sleep 261 </dev/null >/dev/null 2>&1 &")
    started.communicate(timeout=WAIT_SECONDS)
    now = Registry(shell.dirs).find("w")
    assert now is not None
    assert now.starter is None
    report = stop_all(shell.dirs, "a test")
    assert report.left == ()
    assert any("agent w" in one for one in report.killed)
    assert Host().process(agent.pid) is None


def test_an_agent_below_another_is_ended_with_its_watcher(shell: Shell) -> None:
    words = f"{sys.executable} -m sandbox.cli.main agent run --name below -- sleep 261"
    started, _ = begun(shell, f"{words} & while sleep 0.1; do :; done")
    registry = Registry(shell.dirs)
    while registry.find("below") is None:
        assert started.poll() is None
    assert stop_all(shell.dirs, "a test").left == ()
    started.communicate(timeout=WAIT_SECONDS)
    assert registry.take_lost(lambda _: True) == []
