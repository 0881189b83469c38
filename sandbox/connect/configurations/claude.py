# SPDX-License-Identifier: Apache-2.0
"""Claude Code's configuration."""

from __future__ import annotations

from pathlib import Path

from sandbox.connect.edits import (
    EVENT_SECONDS,
    HOOK_SECONDS,
    JUDGES,
    SERVER,
    TOOL_SECONDS,
    Append,
    JsonFile,
    Places,
    Put,
    Wanted,
)

_ASKS = ("PreToolUse", "PreSkillShellCommand")


_GATES = (*_ASKS, "UserPromptSubmit")


_TOLD = ("PostToolUse", "PostToolUseFailure", "SubagentStart", "SubagentStop")


_SESSION = ("SessionStart", "SessionEnd")


_OFF = (
    *("Bash", "PowerShell", "Monitor", "Read", "Write", "Edit", "MultiEdit", "NotebookEdit"),
    *("Glob", "Grep", "WebFetch", "Workflow"),
)


def _file(places: Places) -> Path:
    name = "settings.local.json" if places.project is not None else "settings.json"
    return places.folder(".claude", "CLAUDE_CONFIG_DIR") / name


def edits_for_hooks(places: Places) -> Wanted:
    """Return what is to be written so that its hooks ask Lockgate."""
    program, *rest = places.hook("claude-code")
    edits = []
    for event in (*_GATES, *_TOLD, *_SESSION):
        gate = event in _GATES
        handler = {
            "type": "command",
            "command": program,
            "args": rest,
            "timeout": HOOK_SECONDS if gate else EVENT_SECONDS,
            "onFailure": "block" if gate else "continue",
            **({"statusMessage": JUDGES} if event in _ASKS else {}),
        }
        matched = {"matcher": "*"} if event.endswith(("ToolUse", "Failure")) else {}
        edits.append(Append(("hooks", event), {**matched, "hooks": [handler]}))
    return Wanted((JsonFile(_file(places), tuple(edits)),))


def edits_for_mcp(places: Places) -> Wanted:
    """Return what is to be written so that it uses Lockgate's tools, and none of its own."""
    command, args = places.server(watch=True)
    server = Put(
        ("mcpServers", SERVER),
        {"type": "stdio", "command": command, "args": args, "timeout": TOOL_SECONDS * 1000},
    )
    edits: list[Put | Append] = [Append(("permissions", "deny"), one) for one in _OFF]
    edits.append(Append(("permissions", "allow"), f"mcp__{SERVER}"))
    if places.project is not None:
        file = places.project / ".mcp.json"
        edits.append(Append(("enabledMcpjsonServers",), SERVER))
    else:
        moved = places.environment.get("CLAUDE_CONFIG_DIR", "")
        file = (Path(moved) if moved.startswith("/") else places.home) / ".claude.json"
    return Wanted((JsonFile(file, (server,)), JsonFile(_file(places), tuple(edits))))
