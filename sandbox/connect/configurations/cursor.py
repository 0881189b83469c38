# SPDX-License-Identifier: Apache-2.0
"""Cursor's configuration."""

from __future__ import annotations

from typing import Any

from sandbox.connect.edits import (
    EVENT_SECONDS,
    HOOK_SECONDS,
    SERVER,
    Append,
    JsonFile,
    Places,
    Put,
    Wanted,
)

_GATES = (
    *("preToolUse", "beforeShellExecution", "beforeMCPExecution", "beforeReadFile"),
    "beforeSubmitPrompt",
)


_TOLD = ("postToolUse", "postToolUseFailure", "subagentStart", "subagentStop",
                "sessionStart", "sessionEnd")  # fmt: skip


_OWN = "Shell|Read|Write|Edit|StrReplace|EditNotebook|ApplyPatch|Delete|LS|Glob|Grep|WebFetch"


def _file(places: Places, events: tuple[str, ...], matcher: str | None) -> JsonFile:
    edits: list[Put | Append] = [Put(("version",), 1)]
    for event in events:
        gate = event in _GATES
        handler: dict[str, Any] = {
            "command": places.line("cursor"),
            "timeout": HOOK_SECONDS if gate else EVENT_SECONDS,
        }
        if gate:
            handler["failClosed"] = True
        if matcher and event == "preToolUse":
            handler["matcher"] = matcher
        edits.append(Append(("hooks", event), handler))
    return JsonFile(places.folder(".cursor") / "hooks.json", tuple(edits))


def edits_for_hooks(places: Places) -> Wanted:
    """Return what is to be written so that its hooks ask Lockgate."""
    return Wanted((_file(places, (*_GATES, *_TOLD), None),))


def edits_for_mcp(places: Places) -> Wanted:
    """Cursor's editor cannot turn its own tools off, so hooks judge those that remain."""
    command, args = places.server(watch=False)
    folder = places.folder(".cursor")
    server = Put(("mcpServers", SERVER), {"command": command, "args": args})
    name = "cli.json" if places.project is not None else "cli-config.json"
    off = tuple(Append(("permissions", "deny"), one) for one in ("Shell(*)", "Write(**)"))
    events = ("preToolUse", "beforeShellExecution", "beforeReadFile", "beforeSubmitPrompt")
    return Wanted(
        (
            JsonFile(folder / "mcp.json", (server,)),
            JsonFile(folder / name, off),
            _file(places, events, _OWN),
        ),
        ("Cursor asks before it uses a new server: enable `lockgate` in its settings",),
    )
