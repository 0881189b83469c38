# SPDX-License-Identifier: Apache-2.0
"""Real agents behind both ways of connecting them: what lands, what is refused, what ends them."""

from __future__ import annotations

import json
import os
import shlex
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.agents.registry import Registry
from sandbox.approvals.store.grants import Grants
from sandbox.client.blocking import BlockingClient
from tests.agents.drivers import AGENTS, Agent, Ran, ended, start
from tests.agents.model import Model, Step
from tests.agents.recording import recorded
from tests.container.served import served
from tests.sandbox.shells import Shell

WAIT_SECONDS = 90.0


@pytest.fixture
def shell(docker_client: Any, images: Any) -> Iterator[Shell]:
    with served(docker_client) as made:
        yield made


@pytest.fixture(params=AGENTS)
def agent(request: pytest.FixtureRequest) -> Agent:
    one = AGENTS[request.param]
    one.installed()
    return one


def connect(shell: Shell, agent: Agent, mode: str) -> None:
    status, _, err = shell("connect", agent.name, "--mode", mode, "--yes")
    assert status == 0, err


def run(shell: Shell, agent: Agent, *steps: Step) -> tuple[Ran, Model]:
    """Let an agent make these calls; return how it ended, and what the model saw."""
    with Model(steps) as model:
        done = ended(start(agent, model, shell.workspace, shell.env))
    assert len(model.results) == len(steps), (done, model.results)
    return done, model


def until(found: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not found():
        assert time.monotonic() < end
        time.sleep(0.05)


def running(shell: Shell) -> list[Any]:
    with BlockingClient(shell.dirs) as one:
        return list(one.exchange({"op": "ps"})["running"])


def supervisor(shell: Shell) -> int:
    return int(json.loads(shell.dirs.lock.read_text())["pid"])


# -- hooks


def test_behind_hooks(shell: Shell, agent: Agent) -> None:
    connect(shell, agent, "hooks")
    place = shell.workspace
    waiver = place / ".devkit-waiver.yml"
    steps = [
        agent.shell_step("echo made > made.txt; ls"),
        agent.shell_step("rm -rf /"),
        agent.shell_step("echo waived > tmp1"),
        agent.shell_step('python3 -c \'import os; os.rename("tmp1", ".devkit-" + "waiver.yml")\''),
        agent.shell_step("lockgate approve c123"),
    ]
    steps += agent.file_steps(str(place / "direct.txt"), str(waiver))
    with recorded(shell, agent):
        done, model = run(shell, agent, *steps)
    assert done.status == 0, done
    assert (place / "made.txt").read_text() == "made\n"
    assert "denied" in model.results[1]
    assert "recursive" in model.results[1]
    assert not waiver.exists()
    assert "agent" in model.results[4]
    assert (place / "direct.txt").exists()
    assert "waiver" in model.results[-1]
    _, out, _ = shell("doctor", "--json")
    (check,) = [one for one in json.loads(out) if one["name"] == f"agent {agent.name}"]
    assert agent.name == "codex" or check["status"] == "ok", check


def test_a_killed_supervisor_blocks(shell: Shell, agent: Agent) -> None:
    connect(shell, agent, "hooks")
    old = shell.workspace / "old.txt"
    old.write_text("old")
    with Model([agent.shell_step("rm old.txt")]) as model:
        process = start(agent, model, shell.workspace, shell.env)
        grants = Grants(shell.dirs)
        until(lambda: bool(grants.open_questions(time.time())))
        os.kill(supervisor(shell), signal.SIGKILL)
        ended(process)
    assert "went away" in "".join(model.results), model.results
    assert old.exists()


def test_a_hook_that_is_gone_blocks_or_the_doctor_says_so(shell: Shell, agent: Agent) -> None:
    connect(shell, agent, "hooks")
    (path,) = (one for one in shell.workspace.rglob("*.json")
               if "hook" in one.read_text() and ".git" not in one.parts)  # fmt: skip
    path.write_text(path.read_text().replace("/lockgate", "/no-such-program"))
    if agent.name == "claude-code":  # the one that can be told to block then
        with Model([agent.shell_step("echo x > unseen.txt")]) as model:
            ended(start(agent, model, shell.workspace, shell.env))
        assert not (shell.workspace / "unseen.txt").exists()
    _, out, _ = shell("doctor", "--json")
    (check,) = [one for one in json.loads(out) if one["name"] == f"agent {agent.name}"]
    assert check["status"] == "fail"


def test_a_stop_ends_the_run(shell: Shell, agent: Agent) -> None:
    connect(shell, agent, "hooks")
    steps = [agent.shell_step("echo x > stopped.txt; sleep 300"), agent.shell_step("echo more")]
    with Model(steps) as model:
        process = start(agent, model, shell.workspace, shell.env)
        until(lambda: bool(running(shell)))
        assert shell("stop")[0] in (0, 1)
        done = ended(process)
    assert done.status not in (0, None), done
    assert not (shell.workspace / "stopped.txt").exists()
    # It stays stopped: a new run makes no call.
    with Model([agent.shell_step("echo again > again.txt")]) as model:
        ended(start(agent, model, shell.workspace, shell.env))
    assert not (shell.workspace / "again.txt").exists()


# -- MCP


def test_over_mcp(shell: Shell, agent: Agent) -> None:
    connect(shell, agent, "mcp")
    done, model = run(
        shell,
        agent,
        agent.mcp_step("bash", command="echo made > made.txt; ls"),
        agent.mcp_step("bash", command="rm -rf /"),
        agent.mcp_step("write", file_path="tmp1", content="waived"),
        agent.mcp_step("bash", command="mv tmp1 .devkit-waiver.yml"),
        agent.mcp_step("read", file_path="made.txt"),
    )
    assert done.status == 0, done
    assert (shell.workspace / "made.txt").read_text() == "made\n"
    assert "denied" in model.results[1]
    assert not (shell.workspace / ".devkit-waiver.yml").exists()
    assert "made" in model.results[4]
    assert agent.shell not in model.tools
    assert agent.write not in model.tools


def test_the_tools_that_would_go_around_are_off_under_mcp(shell: Shell, agent: Agent) -> None:
    connect(shell, agent, "mcp")
    run(shell, agent, agent.shell_step("echo x > around.txt"))
    for step in agent.file_steps(str(shell.workspace / "direct.txt"), "also.txt"):
        run(shell, agent, step)
    left = {one.name for one in shell.workspace.iterdir() if one.suffix == ".txt"}
    assert left == set()


def test_a_stop_ends_the_run_over_mcp(shell: Shell, agent: Agent) -> None:
    connect(shell, agent, "mcp")
    command = f"echo x > {shlex.quote('stopped.txt')}; sleep 300"
    with Model([agent.mcp_step("bash", command=command)]) as model:
        process = start(agent, model, shell.workspace, shell.env)
        until(lambda: bool(running(shell)))
        assert shell("stop")[0] in (0, 1)
        done = ended(process)
    # Killed, or told that its call is over and ended by itself before that: over it is.
    assert done.status is not None, done
    assert Registry(shell.dirs).members_of(Registry(shell.dirs).all()) in ({}, {"main": {}})
    assert not Path(shell.workspace / "stopped.txt").exists()
