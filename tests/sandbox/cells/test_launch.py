# SPDX-License-Identifier: Apache-2.0
"""What the runner is asked to do, compared whole; what cannot be done is one clear line."""

from __future__ import annotations

from typing import Any, cast

import pytest

from policy.model import ActionPlan
from sandbox.cells.request import ENVIRONMENT, FILE_TOOLS, WITHOUT_NETWORK, request, runnable
from sandbox.errors import BadInput


def plan(tool: str = "Bash", cwd: str | None = None, /, **params: Any) -> ActionPlan:
    """Return a plan in the workspace /w."""
    return ActionPlan(tool=tool, workspace="/w", cwd=cwd, params=cast(Any, params))


def ask(one: ActionPlan, **env: str) -> dict[str, Any]:
    """Return the request for a plan."""
    return request(one, call="c1", exclusive=True, env=env)


def test_a_command_is_given_to_bash_byte_for_byte() -> None:
    command = "echo \"$HOME\" 'é' \\\n  && true  "
    assert ask(plan(command=command)) == {
        "argv": ["bash", "-c", command],
        "cwd": "/w",
        "env": {**ENVIRONMENT, **WITHOUT_NETWORK, "LOCKGATE_CALL": "c1"},
        "exclusive": True,
    }


def test_variables_of_the_caller_win_and_the_host_gives_none() -> None:
    found = ask(plan("Bash", "/w/sub", command="true"), LANG="de_DE", NEW="x")
    assert found["cwd"] == "/w/sub"
    assert found["env"] == {
        **ENVIRONMENT, **WITHOUT_NETWORK, "LOCKGATE_CALL": "c1", "LANG": "de_DE", "NEW": "x"
    }  # fmt: skip


def test_a_tool_gets_its_parameters_under_their_own_names() -> None:
    options: dict[str, Any] = {"-i": True, "-A": 2}
    found = ask(plan("Grep", None, pattern="x", path="src", **options))
    assert (found["tool"], "argv" in found) == ("Grep", False)
    assert {k: v for k, v in found["params"].items() if v not in (False, [], ())} == {
        "pattern": "x",
        "path": "/w/src",
        "-i": True,
        "-A": 2,
    }


@pytest.mark.parametrize("tool", FILE_TOOLS)
def test_relative_paths_start_where_the_call_starts(tool: str) -> None:
    found = ask(plan(tool, "/w/sub", file_path="a/b", path="../c", pattern="*"))
    assert found["params"]["file_path"] == "/w/sub/a/b"
    assert found["params"]["path"] == "/w/sub/../c"
    absolute = ask(plan(tool, "/w/sub", file_path="/x", path="/y", pattern="*"))
    assert (absolute["params"]["file_path"], absolute["params"]["path"]) == ("/x", "/y")


def test_which_tools_run_here() -> None:
    assert [tool for tool in ("Bash", *FILE_TOOLS) if not runnable(tool)] == []
    assert not runnable("WebFetch")
    assert not runnable("bash")


BAD = {
    "no command": (plan(), "a Bash call needs `command`"),
    "a NUL in the command": (
        plan(command="a\0"),
        "the command holds a NUL byte, which no program can be given; remove it",
    ),
    "a command beyond what the kernel takes": (
        plan(command="é" * 65_536),
        "the command is 131072 bytes long, the kernel takes 131071; "
        "write it to a file in the workspace and run that",
    ),
    "no file": (plan("Read"), "a Read call needs `file_path`"),
    "no pattern": (plan("Glob"), "a Glob call needs `pattern`"),
    "a NUL in a path": (plan("Read", file_path="a\0"), "`file_path` holds a NUL byte; remove it"),
    "a foreign tool": (plan("Task"), "tool `Task` is judged, but not run by Lockgate"),
}


@pytest.mark.parametrize(("one", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_one_clear_line(one: ActionPlan, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        ask(one)
    assert str(caught.value) == message


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A=B", "A\n", "é"])
def test_a_variable_has_a_proper_name(name: str) -> None:
    with pytest.raises(BadInput, match="is no name of an environment variable"):
        request(plan(command="true"), call="c", exclusive=False, env={name: "x"})


def test_the_longest_command_is_taken() -> None:
    assert ask(plan(command="x" * 131_071))["argv"][2] == "x" * 131_071


@pytest.mark.parametrize(
    "name", ["BASH_ENV", "PATH", "LD_PRELOAD", "GIT_PAGER", "PS4", "PYTHONSTARTUP"]
)
def test_a_variable_that_makes_programs_run_other_code_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match=f"`{name}` makes programs run what gate 1 has not read"):
        ask(plan("Bash", command="true"), **{name: "x"})
