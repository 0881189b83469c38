# SPDX-License-Identifier: Apache-2.0
"""The agents that can be connected, and what is written for each. Pure.

Why each mode is as it is: docs/agents.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Any

from sandbox.connect.configurations import claude, codex, cursor, gemini, vscode
from sandbox.connect.edits import Places, Wanted
from sandbox.errors import BadInput


class Mode(str, Enum):
    """How an agent's tools get to Lockgate."""

    HOOKS = "hooks"
    MCP = "mcp"


AGENTS = ("claude-code", "codex", "gemini", "cursor", "vscode")
MODES: Mapping[str, tuple[Mode, ...]] = {
    "claude-code": (Mode.HOOKS, Mode.MCP),
    "codex": (Mode.MCP, Mode.HOOKS),  # its hooks are skipped until trusted, and fail open
    "gemini": (Mode.HOOKS, Mode.MCP),
    "cursor": (Mode.HOOKS, Mode.MCP),
    "vscode": (Mode.MCP,),
}
"""The modes that each agent has; the first is the default."""
SHELL_TOOL = {
    "claude-code": "Bash",
    "codex": "Bash",
    "gemini": "run_shell_command",
    "cursor": "Shell",
}
"""What its hooks call the tool that runs commands."""
BEFORE = {
    "claude-code": "PreToolUse",
    "codex": "PreToolUse",
    "gemini": "BeforeTool",
    "cursor": "preToolUse",
}
"""The event before a tool is used."""


def wanted(agent: str, mode: Mode, places: Places) -> Wanted:
    """Return what is to be written. Raises BadInput for a mode that the agent does not have."""
    if mode not in MODES[agent]:
        only = MODES[agent][0].value
        raise BadInput(f"`{agent}` has no {mode.value} that can be used; use `--mode {only}`")
    return _MAKERS[agent, mode](places)


def is_ours(agent: str, handler: Any) -> bool:
    """Whether a hook's handler in an agent's configuration starts Lockgate's hook for it."""
    if not isinstance(handler, Mapping):
        return False
    command, rest = handler.get("command"), handler.get("args")
    words = [str(one) for one in rest] if isinstance(rest, list) else []
    ours = rf"(?:lockgate|sandbox\.cli\.entry)['\"]?\s+hook\s+{re.escape(agent)}\s*$"
    return bool(re.search(ours, " ".join([str(command), *words])))


# -- Claude Code


# -- Codex


# -- Gemini CLI


# -- Cursor


# -- VS Code


_MAKERS = {
    ("claude-code", Mode.HOOKS): claude.edits_for_hooks,
    ("claude-code", Mode.MCP): claude.edits_for_mcp,
    ("codex", Mode.HOOKS): codex.edits_for_hooks,
    ("codex", Mode.MCP): codex.edits_for_mcp,
    ("gemini", Mode.HOOKS): gemini.edits_for_hooks,
    ("gemini", Mode.MCP): gemini.edits_for_mcp,
    ("cursor", Mode.HOOKS): cursor.edits_for_hooks,
    ("cursor", Mode.MCP): cursor.edits_for_mcp,
    ("vscode", Mode.MCP): vscode.edits_for_mcp,
}
