# SPDX-License-Identifier: Apache-2.0
"""What is to stand in an agent's files, whatever the agent."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

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


MOVED = ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR")
"""Variables that say where Lockgate's own folders are."""


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
