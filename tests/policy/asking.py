# SPDX-License-Identifier: Apache-2.0
"""Ask gate 1 in one line."""

from __future__ import annotations

from typing import Any

from policy.gate1.decide import Policy, decide
from policy.model import ActionPlan, Context, Decision, Params, Workspace

CONTEXT = Context(workspaces=(Workspace("/workspace"),), home="/home/me")


def plan(tool: str, cwd: str | None = None, **params: Any) -> ActionPlan:
    """Return a plan that stands in /workspace."""
    return ActionPlan(tool=tool, params=Params(**params), workspace="/workspace", cwd=cwd)


def bash(command: str, cwd: str | None = None) -> Decision:
    """Return the decision on a command line."""
    return decide(plan("Bash", cwd, command=command), CONTEXT, Policy.default())


def tool(name: str, **params: Any) -> Decision:
    """Return the decision on a call of another tool."""
    return decide(plan(name, None, **params), CONTEXT, Policy.default())
