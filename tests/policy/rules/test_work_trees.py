# SPDX-License-Identifier: Apache-2.0
"""Work trees that an agent keeps in the project: there the names in them count, for both gates."""

from __future__ import annotations

import pytest

from policy.facts import How, Touch
from policy.model import Context, Workspace
from policy.protected.paths import PathPolicy
from policy.rules.locations import Places

OBEYED = {
    ".claude/settings.json": True,
    ".claude/worktrees/x/README.md": False,
    ".claude/worktrees/x/src/app.py": False,
    ".claude/worktrees/x/.claude/settings.json": True,
    ".claude/worktrees/x/sub/.CLAUDE/settings.json": True,
    ".claude/worktrees/x/.mcp.json": True,
    ".claude/worktrees/x/.github/workflows/ci.yml": True,
}


@pytest.mark.parametrize("path, wanted", OBEYED.items())
def test_what_is_obeyed_in_a_work_tree_of_an_agent(path: str, wanted: bool) -> None:
    context = Context((Workspace("/w"),), home="/home/ann")
    answer = Places.default().judge(Touch(How.WRITE, f"/w/{path}"), context)
    assert (answer is not None) == wanted
    assert (PathPolicy.default().obeyed_of(path) is not None) == wanted
