# SPDX-License-Identifier: Apache-2.0
"""Gemini's configuration."""

from __future__ import annotations

from sandbox.connect.edits import (
    EVENT_SECONDS,
    HOOK_SECONDS,
    SERVER,
    TOOL_SECONDS,
    Append,
    JsonFile,
    Places,
    Put,
    Wanted,
)

_OFF = (
    *("run_shell_command", "write_file", "replace", "read_file", "read_many_files"),
    *("list_directory", "glob", "grep_search", "search_file_content", "web_fetch", "save_memory"),
)


def edits_for_hooks(places: Places) -> Wanted:
    """Return what is to be written so that its hooks ask Lockgate."""
    edits = []
    for event in ("BeforeTool", "BeforeAgent", "AfterTool", "SessionStart", "SessionEnd"):
        seconds = HOOK_SECONDS if event in ("BeforeTool", "BeforeAgent") else EVENT_SECONDS
        handler = {
            "type": "command",
            "name": SERVER,
            "command": places.line("gemini"),
            "timeout": seconds * 1000,
        }
        edits.append(Append(("hooks", event), {"hooks": [handler]}))
    file = JsonFile(places.folder(".gemini") / "settings.json", tuple(edits))
    return Wanted((file,), _notes(places))


def edits_for_mcp(places: Places) -> Wanted:
    """Return what is to be written so that it uses Lockgate's tools, and none of its own."""
    command, args = places.server(watch=True)
    server = {"command": command, "args": args, "timeout": TOOL_SECONDS * 1000, "trust": True}
    edits: list[Put | Append] = [Put(("mcpServers", SERVER), server)]
    edits += [Append(("tools", "exclude"), one) for one in _OFF]
    file = JsonFile(places.folder(".gemini") / "settings.json", tuple(edits))
    return Wanted((file,), _notes(places))


def _notes(places: Places) -> tuple[str, ...]:
    if places.project is None:
        return ()
    return ("Gemini reads a project's settings only where the folder is trusted",)
