# SPDX-License-Identifier: Apache-2.0
"""VS Code's configuration."""

from __future__ import annotations

from pathlib import Path

from sandbox.connect.edits import SERVER, JsonFile, OwnFile, Places, Put, Wanted

_AGENT = """\
---
name: Lockgate
description: Works through Lockgate's sandbox alone
tools: ['lockgate/*']
---
Use the tools of Lockgate for everything: commands, reading, writing and searching files.
"""


def edits_for_mcp(places: Places) -> Wanted:
    """Return what is to be written so that it uses Lockgate's tools, and none of its own."""
    command, args = places.server(watch=False)
    value = {"type": "stdio", "command": command, "args": args}
    if places.project is None:
        moved = places.environment.get("XDG_CONFIG_HOME", "")
        config = Path(moved) if moved.startswith("/") else places.home / ".config"
        file = config / "Code" / "User" / "mcp.json"
        note = "in VS Code's chat, turn every other tool off in the list of tools"
        value["args"] = [*args, "--workspace", "${workspaceFolder}"]
        return Wanted((JsonFile(file, (Put(("servers", SERVER), value),)),), (note,))
    return Wanted(
        (
            JsonFile(places.project / ".vscode" / "mcp.json", (Put(("servers", SERVER), value),)),
            OwnFile(places.project / ".github" / "agents" / "lockgate.agent.md", _AGENT),
        ),
        ("in VS Code's chat, choose the agent `Lockgate`: the others keep their own tools",),
    )
