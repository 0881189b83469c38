# SPDX-License-Identifier: Apache-2.0
"""Which agents are connected, and what their files were before: kept in the state folder."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.connect.agents import Mode
from sandbox.connect.edits import Append, Put, Scope
from sandbox.connect.texts import Added
from sandbox.host.dirs import Dirs

FOLDER = "connections"
FIRED = "hooks-seen.json"
RECORD = "record.json"


@dataclass(frozen=True, slots=True)
class Kept:
    """One file of a connection."""

    path: Path
    before: bytes | None
    """What stood there without Lockgate; None: nothing."""
    after: str
    """SHA-256 of what was written; empty: nothing was changed."""
    added: Added
    folders: tuple[str, ...] = ()
    """Folders that were made for it, the innermost first."""


@dataclass(frozen=True, slots=True)
class Connection:
    """An agent that was connected."""

    agent: str
    scope: Scope
    mode: Mode
    project: Path | None
    at: float
    """Seconds since the epoch."""
    files: tuple[Kept, ...]

    @property
    def name(self) -> str:
        """Return the name of its folder."""
        return _name(self.agent, self.project)


class Connections:
    """The connections of one state folder."""

    def __init__(self, dirs: Dirs) -> None:
        self._dirs = dirs
        self._folder = dirs.state / FOLDER

    def find(self, agent: str, project: Path | None) -> Connection | None:
        """Return an agent's connection for a project, or for the user."""
        return _read(self._folder / _name(agent, project))

    def all(self) -> list[Connection]:
        """Return every connection."""
        try:
            names = sorted(path.name for path in self._folder.iterdir())
        except OSError:
            return []
        found = (_read(self._folder / name) for name in names)
        return [connection for connection in found if connection is not None]

    def save(self, connection: Connection) -> Path:
        """Keep a connection with its backups; return its folder."""
        folder = self._folder / connection.name
        fresh = folder.with_name(folder.name + ".new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700, parents=True)
        files = []
        for number, kept in enumerate(connection.files):
            backup = None
            if kept.before is not None:
                backup = f"{number}-{kept.path.name}"
                (fresh / backup).write_bytes(kept.before)
            files.append(_as_json(kept, backup))
        said = {
            "agent": connection.agent,
            "scope": connection.scope.value,
            "mode": connection.mode.value,
            "project": str(connection.project) if connection.project else None,
            "at": connection.at,
            "files": files,
        }
        (fresh / RECORD).write_text(json.dumps(said, indent=1) + "\n", "utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
        return folder

    def forget(self, connection: Connection) -> None:
        """Forget a connection; its backups go too."""
        shutil.rmtree(self._folder / connection.name, ignore_errors=True)

    def fired(self, agent: str) -> float | None:
        """Return when the last event of an agent's hook came, in seconds since the epoch."""
        try:
            said = json.loads((self._dirs.state / FIRED).read_text("utf-8"))
            return float(said[agent]["at"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def note_fired(self, agent: str, event: str, now: float) -> None:
        """Note that an agent's hook was called. Raises OSError."""
        path = self._dirs.state / FIRED
        try:
            said = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError):
            said = {}
        said = {**(said if isinstance(said, dict) else {}), agent: {"at": now, "event": event}}
        draft = path.with_suffix(f".{os.getpid()}.new")
        try:
            draft.write_text(json.dumps(said) + "\n", "utf-8")
            draft.replace(path)
        except OSError:
            draft.unlink(missing_ok=True)
            raise


def sha256(data: bytes | None) -> str:
    """Return the digest of a file's content; of no file, an empty text."""
    return "" if data is None else hashlib.sha256(data).hexdigest()


def _name(agent: str, project: Path | None) -> str:
    if project is None:
        return f"{agent}-user"
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", project.name)[:40]
    return f"{agent}-{plain}-{hashlib.sha256(os.fsencode(project)).hexdigest()[:12]}"


def _as_json(kept: Kept, backup: str | None) -> dict[str, Any]:
    return {
        "path": str(kept.path),
        "backup": backup,
        "after": kept.after,
        "folders": list(kept.folders),
        "made": [list(one) for one in kept.added.made],
        "edits": [
            {"put": isinstance(edit, Put), "path": list(edit.path), "value": edit.value}
            for edit in kept.added.edits
        ],
    }


def _read(folder: Path) -> Connection | None:
    try:
        said = json.loads((folder / RECORD).read_text("utf-8"))
        return Connection(
            said["agent"],
            Scope(said["scope"]),
            Mode(said["mode"]),
            Path(said["project"]) if said["project"] else None,
            float(said["at"]),
            tuple(_kept(folder, one) for one in said["files"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _kept(folder: Path, said: dict[str, Any]) -> Kept:
    edits = tuple(
        (Put if one["put"] else Append)(tuple(one["path"]), one["value"]) for one in said["edits"]
    )
    return Kept(
        Path(said["path"]),
        (folder / said["backup"]).read_bytes() if said["backup"] else None,
        said["after"],
        Added(edits, tuple(tuple(one) for one in said["made"])),
        tuple(said["folders"]),
    )
