# SPDX-License-Identifier: Apache-2.0
"""The real mini-swe-agent, with a model that says what it is told: its commands are calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sandbox.audit.store import Store
from sandbox.errors import BadInput, Stopped
from sandbox.frameworks.mini_swe_agent import SUBMIT, LockgateEnvironment
from sandbox.host.latch import Latch
from tests.container.served import served
from tests.sandbox.shells import Shell

pytest.importorskip("minisweagent", reason="mini-swe-agent is not installed")


@pytest.fixture(scope="module")
def shell(docker_client: Any, images: Any) -> Iterator[Shell]:
    with served(docker_client) as made:
        yield made


def environment(shell: Shell, **settings: Any) -> LockgateEnvironment:
    from minisweagent.environments import get_environment

    kind = "sandbox.frameworks.mini_swe_agent.LockgateEnvironment"
    made = get_environment(
        {"environment_class": kind, "cwd": str(shell.workspace), "dirs": shell.dirs, **settings}
    )
    assert isinstance(made, LockgateEnvironment)
    return made


def test_its_agent_works_in_a_cell_and_is_told_what_does_not_land(shell: Shell) -> None:
    from minisweagent.agents.default import DefaultAgent
    from minisweagent.models.test_models import DeterministicModel, make_output

    commands = (
        "echo made > made.txt; ls; exit 3",
        "rm -rf /",
        "mkdir -p .github/workflows && echo 'on: push' > .github/workflows/ci.yml",
        f"echo {SUBMIT}; cat made.txt",
    )
    outputs = [make_output("", [{"command": command}]) for command in commands]
    agent = DefaultAgent(
        DeterministicModel(outputs=outputs),
        environment(shell),
        system_template="{{ system }} {{ cwd }}",
        instance_template="{{ task }}",
        cost_limit=0,
    )
    done = agent.run("make a file")
    assert done == {"exit_status": "Submitted", "submission": "made\n"}
    assert (shell.workspace / "made.txt").read_text() == "made\n"
    assert not (shell.workspace / ".github").exists()
    calls = Store(shell.dirs).calls()[::-1]
    assert [call.agent for call in calls] == ["main"] * len(commands)
    assert [call.exit_status for call in calls[:3]] == [3, None, None]
    assert [call.ending for call in calls[:3]] == ["ran", "denied", "not-approved"]
    assert calls[0].landed


def test_what_became_of_a_command_is_its_result(shell: Shell) -> None:
    own = environment(shell, env={"WORD": "a word"}, timeout=20)
    said = own.execute({"command": "echo $WORD; echo err >&2; exit 4"})
    assert said == {"output": "a word\nerr\n", "returncode": 4, "exception_info": ""}
    denied = own.execute({"command": "rm -rf /"})
    assert denied["returncode"] == 126
    assert denied["exception_info"].startswith("denied: ")
    assert "lockgate: denied" in denied["output"]
    proposed = environment(shell, agent="stranger").execute({"command": "echo x > proposed.txt"})
    assert (proposed["returncode"], "it is a proposal" in proposed["output"]) == (126, True)
    assert not (shell.workspace / "proposed.txt").exists()
    late = own.execute({"command": "sleep 30"}, timeout=1)
    assert (late["returncode"], late["exception_info"][:9]) == (124, "timed-out")
    assert own.execute({"command": f"echo {SUBMIT}; exit 1"})["returncode"] == 1  # not done


def test_a_folder_of_no_workspace_is_refused_and_a_stop_ends_the_run(shell: Shell) -> None:
    with pytest.raises(BadInput):
        environment(shell, cwd="/")
    latch = Latch(shell.dirs)
    latch.set("a test")
    try:
        with pytest.raises(Stopped):
            environment(shell).execute({"command": "true"})
    finally:
        latch.clear()
