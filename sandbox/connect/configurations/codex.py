# SPDX-License-Identifier: Apache-2.0
"""Codex' configuration."""

from __future__ import annotations

from typing import Any

from sandbox.connect.edits import (
    EVENT_SECONDS,
    HOOK_SECONDS,
    JUDGES,
    MOVED,
    SERVER,
    TOOL_SECONDS,
    Append,
    JsonFile,
    Places,
    TomlFile,
    Wanted,
)


def edits_for_hooks(places: Places) -> Wanted:
    """Return what is to be written so that its hooks ask Lockgate."""
    folder = places.folder(".codex", "CODEX_HOME")
    edits = []
    for event in (
        *("PreToolUse", "UserPromptSubmit", "PostToolUse"),
        *("SubagentStart", "SubagentStop", "SessionStart"),
    ):
        gate = event in ("PreToolUse", "UserPromptSubmit")
        seconds = HOOK_SECONDS if gate else EVENT_SECONDS
        line = places.line("codex")
        handler: dict[str, Any] = {"type": "command", "command": line, "timeout": seconds}
        if event == "PreToolUse":
            handler["statusMessage"] = JUDGES
        edits.append(Append(("hooks", event), {"hooks": [handler]}))
    notes = ["in Codex, open `/hooks` and trust the hooks of Lockgate: until then it skips them"]
    if places.project is not None:
        notes.append("Codex reads a project's configuration only where the project is trusted")
    # Its sandbox lets no program reach a socket unless commands may use the network; they run in
    # cells, which have none.
    values: dict[tuple[str, ...], dict[str, Any]] = {
        (): {"sandbox_mode": "workspace-write"},
        ("sandbox_workspace_write",): {"network_access": True},
    }
    files = (
        JsonFile(folder / "hooks.json", tuple(edits)),
        TomlFile(folder / "config.toml", values),
    )
    return Wanted(files, tuple(notes))


def edits_for_mcp(places: Places) -> Wanted:
    """Return what is to be written so that it uses Lockgate's tools, and none of its own."""
    command, args = places.server(watch=True)
    values: dict[tuple[str, ...], dict[str, Any]] = {
        (): {"sandbox_mode": "read-only", "web_search": "disabled"},
        ("features",): {"shell_tool": False, "unified_exec": False, "view_image": False},
        ("mcp_servers", SERVER): {
            "command": command,
            "args": args,
            "required": True,
            "startup_timeout_sec": 60,
            "tool_timeout_sec": TOOL_SECONDS,
            "default_tools_approval_mode": "approve",
        },
    }
    moved = {name: places.environment[name] for name in MOVED if places.environment.get(name)}
    if moved:  # Codex hands its servers hardly any variable on
        values["mcp_servers", SERVER, "env"] = moved
    folder = places.folder(".codex", "CODEX_HOME")
    notes: tuple[str, ...] = ()
    if places.project is not None:
        notes = ("Codex reads a project's configuration only where the project is trusted",)
    return Wanted((TomlFile(folder / "config.toml", values),), notes)
