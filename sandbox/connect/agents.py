# SPDX-License-Identifier: Apache-2.0
"""What each agent's configuration must say so that its tools go through Lockgate. Pure.

Facts of the agents' own formats: files, keys, units of time. Why each mode is as it is:
docs/agents.md.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from sandbox.errors import BadInput

HOOK_SECONDS = 1800
"""After this time an agent gives a hook up; the hook's own deadline lies below it."""
EVENT_SECONDS = 60
"""The same for events at which nothing is decided."""
TOOL_SECONDS = 1800
"""How long an agent waits for a tool of the MCP server."""
GUARDED = "lockgate: its hook failed, so the call is not let through"
GUARD = f'"$@" && exit 0; [ $? = 2 ] || echo "{GUARDED}" >&2; exit 2'
"""A shell's text around the hook. INVARIANT (closed): a hook that cannot start, or ends with a
status that an agent takes for a yes, is a block. It holds no quote that ends the quotes around it
and no name after a `$`, since agents put variables into such text; and whatever shell of the user's
an agent takes, it is `/bin/sh` that reads it."""
JUDGES = "Lockgate judges; if it asks, answer in `lockgate approvals --watch`"
"""What an agent shows while its hook runs, where it shows anything."""
SERVER = "lockgate"
"""The name of the MCP server in agents' configuration."""


_MOVED = ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR")
"""Variables that say where Lockgate's own folders are."""


class Mode(str, Enum):
    """How an agent's tools get to Lockgate."""

    HOOKS = "hooks"
    MCP = "mcp"


class Scope(str, Enum):
    """Whose configuration is written."""

    PROJECT = "project"
    USER = "user"


@dataclass(frozen=True, slots=True)
class Put:
    """Set a key of a JSON file."""

    path: tuple[str, ...]
    value: Any


@dataclass(frozen=True, slots=True)
class Append:
    """Add to a list of a JSON file, unless it is there."""

    path: tuple[str, ...]
    value: Any


@dataclass(frozen=True, slots=True)
class JsonFile:
    """A JSON file of the agent's, in which some things must stand."""

    path: Path
    edits: tuple[Put | Append, ...]


@dataclass(frozen=True, slots=True)
class TomlFile:
    """A TOML file of the agent's, in which tables must have some keys."""

    path: Path
    values: Mapping[tuple[str, ...], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class OwnFile:
    """A file that is ours alone."""

    path: Path
    text: str


File = JsonFile | TomlFile | OwnFile


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be written for an agent."""

    files: tuple[File, ...]
    notes: tuple[str, ...] = ()
    """What a person must still do, one line each."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where an agent's files are."""

    home: Path
    project: Path | None
    """The workspace, for a project's configuration; None: the user's is meant."""
    program: tuple[str, ...]
    """How this very Lockgate is started: absolute."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that move agents' folders: CLAUDE_CONFIG_DIR, CODEX_HOME, XDG_CONFIG_HOME."""

    def folder(self, name: str, variable: str = "") -> Path:
        """Return the agent's folder: the project's, or the user's."""
        if self.project is not None:
            return self.project / name
        moved = self.environment.get(variable, "") if variable else ""
        return Path(moved) if moved.startswith("/") else self.home / name

    def hook(self, dialect: str) -> tuple[str, ...]:
        """Return the words of the hook's command."""
        return ("/bin/sh", "-c", GUARD, "lockgate", *self.program, "hook", dialect)

    def line(self, dialect: str) -> str:
        """Return the hook's command for a shell."""
        return shlex.join(self.hook(dialect))

    def server(self, *, watch: bool) -> tuple[str, list[str]]:
        """Return program and arguments of the MCP server."""
        words = [*self.program[1:], "mcp"]
        if self.project is not None:
            words += ["--workspace", str(self.project)]
        return self.program[0], [*words, *(["--watch"] if watch else [])]


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

_CLAUDE_ASKS = ("PreToolUse", "PreSkillShellCommand")
_CLAUDE_GATES = (*_CLAUDE_ASKS, "UserPromptSubmit")
_CLAUDE_TOLD = ("PostToolUse", "PostToolUseFailure", "SubagentStart", "SubagentStop")
_CLAUDE_SESSION = ("SessionStart", "SessionEnd")
_CLAUDE_OFF = (
    *("Bash", "PowerShell", "Monitor", "Read", "Write", "Edit", "MultiEdit", "NotebookEdit"),
    *("Glob", "Grep", "WebFetch", "Workflow"),
)


def _claude_file(places: Places) -> Path:
    name = "settings.local.json" if places.project is not None else "settings.json"
    return places.folder(".claude", "CLAUDE_CONFIG_DIR") / name


def _claude_hooks(places: Places) -> Wanted:
    program, *rest = places.hook("claude-code")
    edits = []
    for event in (*_CLAUDE_GATES, *_CLAUDE_TOLD, *_CLAUDE_SESSION):
        gate = event in _CLAUDE_GATES
        handler = {
            "type": "command",
            "command": program,
            "args": rest,
            "timeout": HOOK_SECONDS if gate else EVENT_SECONDS,
            "onFailure": "block" if gate else "continue",
            **({"statusMessage": JUDGES} if event in _CLAUDE_ASKS else {}),
        }
        matched = {"matcher": "*"} if event.endswith(("ToolUse", "Failure")) else {}
        edits.append(Append(("hooks", event), {**matched, "hooks": [handler]}))
    return Wanted((JsonFile(_claude_file(places), tuple(edits)),))


def _claude_mcp(places: Places) -> Wanted:
    command, args = places.server(watch=True)
    server = Put(
        ("mcpServers", SERVER),
        {"type": "stdio", "command": command, "args": args, "timeout": TOOL_SECONDS * 1000},
    )
    edits: list[Put | Append] = [Append(("permissions", "deny"), one) for one in _CLAUDE_OFF]
    edits.append(Append(("permissions", "allow"), f"mcp__{SERVER}"))
    if places.project is not None:
        file = places.project / ".mcp.json"
        edits.append(Append(("enabledMcpjsonServers",), SERVER))
    else:
        moved = places.environment.get("CLAUDE_CONFIG_DIR", "")
        file = (Path(moved) if moved.startswith("/") else places.home) / ".claude.json"
    return Wanted((JsonFile(file, (server,)), JsonFile(_claude_file(places), tuple(edits))))


# -- Codex


def _codex_hooks(places: Places) -> Wanted:
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


def _codex_mcp(places: Places) -> Wanted:
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
    moved = {name: places.environment[name] for name in _MOVED if places.environment.get(name)}
    if moved:  # Codex hands its servers hardly any variable on
        values["mcp_servers", SERVER, "env"] = moved
    folder = places.folder(".codex", "CODEX_HOME")
    notes: tuple[str, ...] = ()
    if places.project is not None:
        notes = ("Codex reads a project's configuration only where the project is trusted",)
    return Wanted((TomlFile(folder / "config.toml", values),), notes)


# -- Gemini CLI

_GEMINI_OFF = (
    *("run_shell_command", "write_file", "replace", "read_file", "read_many_files"),
    *("list_directory", "glob", "grep_search", "search_file_content", "web_fetch", "save_memory"),
)


def _gemini_hooks(places: Places) -> Wanted:
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
    return Wanted((file,), _gemini_notes(places))


def _gemini_mcp(places: Places) -> Wanted:
    command, args = places.server(watch=True)
    server = {"command": command, "args": args, "timeout": TOOL_SECONDS * 1000, "trust": True}
    edits: list[Put | Append] = [Put(("mcpServers", SERVER), server)]
    edits += [Append(("tools", "exclude"), one) for one in _GEMINI_OFF]
    file = JsonFile(places.folder(".gemini") / "settings.json", tuple(edits))
    return Wanted((file,), _gemini_notes(places))


def _gemini_notes(places: Places) -> tuple[str, ...]:
    if places.project is None:
        return ()
    return ("Gemini reads a project's settings only where the folder is trusted",)


# -- Cursor

_CURSOR_GATES = (
    *("preToolUse", "beforeShellExecution", "beforeMCPExecution", "beforeReadFile"),
    "beforeSubmitPrompt",
)
_CURSOR_TOLD = ("postToolUse", "postToolUseFailure", "subagentStart", "subagentStop",
                "sessionStart", "sessionEnd")  # fmt: skip
_CURSOR_OWN = (
    "Shell|Read|Write|Edit|StrReplace|EditNotebook|ApplyPatch|Delete|LS|Glob|Grep|WebFetch"
)


def _cursor_file(places: Places, events: tuple[str, ...], matcher: str | None) -> JsonFile:
    edits: list[Put | Append] = [Put(("version",), 1)]
    for event in events:
        gate = event in _CURSOR_GATES
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


def _cursor_hooks(places: Places) -> Wanted:
    return Wanted((_cursor_file(places, (*_CURSOR_GATES, *_CURSOR_TOLD), None),))


def _cursor_mcp(places: Places) -> Wanted:
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
            _cursor_file(places, events, _CURSOR_OWN),
        ),
        ("Cursor asks before it uses a new server: enable `lockgate` in its settings",),
    )


# -- VS Code

_VSCODE_AGENT = """\
---
name: Lockgate
description: Works through Lockgate's sandbox alone
tools: ['lockgate/*']
---
Use the tools of Lockgate for everything: commands, reading, writing and searching files.
"""


def _vscode_mcp(places: Places) -> Wanted:
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
            OwnFile(places.project / ".github" / "agents" / "lockgate.agent.md", _VSCODE_AGENT),
        ),
        ("in VS Code's chat, choose the agent `Lockgate`: the others keep their own tools",),
    )


_MAKERS = {
    ("claude-code", Mode.HOOKS): _claude_hooks,
    ("claude-code", Mode.MCP): _claude_mcp,
    ("codex", Mode.HOOKS): _codex_hooks,
    ("codex", Mode.MCP): _codex_mcp,
    ("gemini", Mode.HOOKS): _gemini_hooks,
    ("gemini", Mode.MCP): _gemini_mcp,
    ("cursor", Mode.HOOKS): _cursor_hooks,
    ("cursor", Mode.MCP): _cursor_mcp,
    ("vscode", Mode.MCP): _vscode_mcp,
}
