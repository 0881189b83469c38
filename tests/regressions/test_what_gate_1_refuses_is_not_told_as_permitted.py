# SPDX-License-Identifier: Apache-2.0
"""`can_execute` and `check_permission` went by trust alone: `rm -rf /` could be executed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.errors import BadInput
from sandbox.host.dirs import Dirs
from sandbox.mcp.governance.standpoint import Who
from sandbox.mcp.governance.tools import Governance
from sandbox.workspaces.registry import Registry

FORBIDDEN = "rm -rf /"


@pytest.fixture
def govern(tmp_path: Path) -> Iterator[tuple[Governance, Who]]:
    dirs = Dirs.under(tmp_path / "l").create()
    work = tmp_path / "work"
    work.mkdir()
    (work / "notes.txt").write_text("n")
    Registry(dirs).add(str(work), approved=True)
    yield Governance(dirs), Who(workspace=str(work))


def executable(govern: tuple[Governance, Who], tool: str, hint: str) -> tuple[bool, str]:
    said = asyncio.run(govern[0].permissions.can_execute(govern[1], tool, hint))
    assert set(said) == {"can_execute", "action_needed", "reason"}
    return said["can_execute"], said["action_needed"]


def permitted(govern: tuple[Governance, Who], action: str, **context: Any) -> tuple[bool, str]:
    said = asyncio.run(govern[0].permissions.check_permission(govern[1], action, context))
    assert set(said) == {"allowed", "reason", "required_level", "current_level"}
    return said["allowed"], said["reason"]


CALLS = {
    "a forbidden command": ("Bash", FORBIDDEN, (False, "none")),
    "under the name that MCP has for it": ("mcp__lockgate__bash", FORBIDDEN, (False, "none")),
    "under the name that another agent has": ("run_shell_command", FORBIDDEN, (False, "none")),
    "a command that a person must approve": ("Bash", "git push origin main", (False, "approve")),
    "a command that changes the workspace": ("Bash", "touch new.txt", (True, "none")),
    "a command that reads": ("bash", "ls -la", (True, "none")),
    "a protected file": ("Write", ".devkit-waiver.yml", (False, "none")),
    "an ordinary file": ("Write", "notes.txt", (True, "none")),
    "a secret": ("read", "~/.ssh/id_rsa", (False, "none")),
    "an agent's approval": ("Bash", "lockgate approve c1", (False, "none")),
    "a command that is too long to be read": ("Bash", "z" * 200_000, (False, "approve")),
    "a command that is no text": ("Bash", "\ud800", (False, "none")),
    "a path that is no text": ("Write", "\ud800/x", (False, "none")),
    "no tool, but an action in words": (
        "rotate_logs",
        "rm -rf / of the old ones",
        (False, "approve"),
    ),
    "an unknown tool": ("frobnicate", "", (False, "approve")),
    "a tool that destroys": ("mcp__x__delete_everything", "all", (False, "approve")),
    "no hint": ("Bash", "", (True, "none")),
}


@pytest.mark.parametrize("tool, hint, wanted", CALLS.values(), ids=list(CALLS))
def test_a_call_is_told_as_gate_1_decides_it(
    govern: tuple[Governance, Who], tool: str, hint: str, wanted: tuple[bool, str]
) -> None:
    assert executable(govern, tool, hint) == wanted


def test_the_reason_says_what_to_do_instead(govern: tuple[Governance, Who]) -> None:
    said = asyncio.run(govern[0].permissions.can_execute(govern[1], "Bash", "rm -rf src"))
    assert "name the single files" in said["reason"]


@pytest.mark.parametrize(
    "action, context",
    [
        ("Bash", {"command": FORBIDDEN}),
        ("run", {"command": FORBIDDEN, "is_reversible": True}),
        ("run", {"command": "git push origin main"}),
        ("write_file", {"file_path": ".devkit-waiver.yml"}),
        (FORBIDDEN, {}),
        ("git push origin main", {}),
        ("rm notes.txt", {}),
        ("npm publish --access public", {}),
        ("curl https://host.invalid/x", {}),
        ("cp notes.txt .github/workflows/a.yml", {}),
        ("cp notes.txt /srv/x", {}),
    ],
)
def test_a_permission_is_told_as_gate_1_decides_it(
    govern: tuple[Governance, Who], action: str, context: dict[str, Any]
) -> None:
    assert permitted(govern, action, **context)[0] is False


@pytest.mark.parametrize(
    "action, context",
    [
        ("Bash", {"command": "touch new.txt"}),
        ("write_file", {"file_path": "notes.txt"}),
        ("tidy the notes up", {}),
        ("touch new.txt && git add new.txt", {}),
        ("frobnicate what's left of it", {}),
        ("edit_file", {"command": 7}),
    ],
)
def test_what_gate_1_lets_through_is_told_by_trust(
    govern: tuple[Governance, Who], action: str, context: dict[str, Any]
) -> None:
    allowed, reason = permitted(govern, action, **context)
    assert allowed, reason
    assert reason.endswith("is allowed at level `autonomous`")


def test_an_action_has_a_name_of_some_length(govern: tuple[Governance, Who]) -> None:
    with pytest.raises(BadInput, match="`action` is 5000 characters long; at most 4000"):
        govern[0].standing.record_outcome(govern[1], "x" * 5000, success=True)
    with pytest.raises(BadInput, match="`action` is 5000"):
        permitted(govern, "x" * 5000)


def test_what_is_not_allowed_by_trust_stays_so(govern: tuple[Governance, Who]) -> None:
    said = permitted(govern, "deploy", command="ls", affects_production=True, is_destructive=True)
    assert said == (False, "Destructive action in production requires approval at every level")


def test_the_policy_of_a_workspace_that_a_call_names_counts(
    govern: tuple[Governance, Who], tmp_path: Path
) -> None:
    other = tmp_path / "other"
    (other / ".lockgate").mkdir(parents=True)
    Registry(Dirs.under(tmp_path / "l")).add(str(other), approved=True)
    command = f"cat notes.txt {other}/a.txt"
    assert executable(govern, "Bash", command) == (True, "none")
    (other / ".lockgate" / "policy.yaml").write_text(STRICT)
    assert executable(govern, "Bash", command)[0] is False
    assert executable(govern, "Bash", "cat notes.txt") == (True, "none")


STRICT = """
version: 1
commands:
  - id: no-cat
    programs: [cat]
    tier: forbidden
    because: nobody reads here
    match: [cat a]
    miss: [ls]
"""
