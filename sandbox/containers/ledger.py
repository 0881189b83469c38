# SPDX-License-Identifier: Apache-2.0
"""Which containers this state folder has, noted on disk, so that a stop needs no engine to know.

A note is there before its container starts. INVARIANT (P10, "no late start"): no container starts
while a stop is in force, and one that started as a stop came is ended at once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from sandbox.host import files as own_files
from sandbox.host.dirs import Dirs
from sandbox.host.latch import Latch, below

FOLDER = "containers"


def state_label(dirs: Dirs) -> str:
    """Return the label value that marks the containers of a state folder."""
    return hashlib.sha256(os.fsencode(dirs.state)).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Note:
    """One container."""

    id: str
    name: str
    """The cell's name, for its keeper too."""
    role: str
    agent: str
    local: bool
    """Whether its processes are this host's; else they are in a virtual machine."""

    def is_of(self, agent: str | None) -> bool:
        """Whether it is an agent's or a sub-agent's of it; None means any."""
        return agent is None or below(agent, self.agent)


class ContainerNotes:
    """The notes of one state folder, and the latch that containers start under."""

    def __init__(self, dirs: Dirs) -> None:
        self._folder = dirs.state / FOLDER
        self._latch = Latch(dirs)

    def check(self, agent: str) -> None:
        """Raise Stopped while this agent, or everything, is stopped."""
        self._latch.check(agent)

    def add(self, note: Note) -> None:
        """Note a container. Raises OSError: what cannot be noted must not start."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / note.id
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps(asdict(note)))
        draft.replace(path)

    def remove(self, identity: str) -> None:
        """Forget a container that is gone."""
        with contextlib.suppress(OSError):
            (self._folder / identity).unlink(missing_ok=True)

    def all(self) -> Mapping[str, Note]:
        """Return the noted containers by id; notes of containers that are gone may be left."""
        found = {}
        with contextlib.suppress(OSError):
            for name in os.listdir(self._folder):  # noqa: PTH208 - names alone
                if (note := _read(self._folder / name)) is not None:
                    found[note.id] = note
        return found


def _read(path: Path) -> Note | None:
    if path.suffix:
        return None
    try:
        note = Note(**json.loads(own_files.read(path)))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    words = (note.id, note.name, note.role, note.agent)
    return note if all(isinstance(word, str) for word in words) else None
