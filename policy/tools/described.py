# SPDX-License-Identifier: Apache-2.0
"""The call that an agent describes when it asks beforehand: a tool's name and a hint. Pure.

Agents ask about their own tools, under the names that those have there; other actions
(`delete_artifact`) are no calls of a tool, and only their words can be judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policy.tools.dialects import AgentTool, AgentTools, Use, normalise

_PATHS = frozenset(("read", "list", "write", "edit", "delete"))


def hinted(tool: str, hint: str) -> Use | None:
    """Return the call that a tool's name and a hint describe; None where they describe none.

    Raises BadCall for one that nobody could read.
    """
    name = tool.rpartition("__")[2].strip()
    if not hint.strip():
        return None
    for agent, known, what in _named(name):
        if what.does in ("shell", "powershell") and what.command:
            return normalise(agent, known, {what.command[0]: hint})
        if what.does in _PATHS and what.path and _is_path(hint):
            return normalise(agent, known, {what.path[0]: hint.strip()})
    return None


def said(action: str, context: Mapping[str, Any]) -> Use | None:
    """Return the call that an action's context holds (`command`, or `file_path` for a tool).

    Raises BadCall for one that nobody could read.
    """
    command, path = context.get("command"), context.get("file_path")
    if isinstance(command, str) and command.strip():
        return hinted("Bash", command)
    return hinted(action, path) if isinstance(path, str) else None


def _named(name: str) -> Iterator[tuple[str, str, AgentTool]]:
    """Yield each agent's tool of a name, however it is written; Lockgate's own have Claude's."""
    for agent, tools in AgentTools.default().root.items():
        for known, what in tools.items():
            if known.casefold() == name.casefold():
                yield agent, known, what


def _is_path(hint: str) -> bool:
    """Whether a hint is one path and no words about it."""
    return len(hint.split()) == 1 and ("/" in hint or "." in hint or hint.startswith("~"))
