# SPDX-License-Identifier: Apache-2.0
"""What agents' landings took the content of, of files that they did not make, per workspace.

A limit for one call is no limit where calls follow each other, so what landed within `SECONDS` is
counted together. It stands in the state folder, which no cell reaches. A person who lands a held
call of the agent's has looked: the count begins anew.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from sandbox.host import files as own_files

SECONDS = 24 * 3600.0
MOST = 10_000
"""Paths that are noted; with more, the oldest are forgotten."""


class ReplacedLedger:
    """The notes of one state folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def earlier(self, agent: str, workspaces: Sequence[str]) -> list[frozenset[str]]:
        """Return, per workspace, what earlier calls of an agent took the content of."""
        return [frozenset(self._read(agent, workspace)) for workspace in workspaces]

    def note(self, agent: str, workspace: str, paths: Iterable[str]) -> None:
        """Note what is about to land. Raises Unavailable."""
        file = self._file(agent, workspace)
        with own_files.locked(file.with_suffix(".lock"), self._folder):
            known = self._read(agent, workspace) | dict.fromkeys(paths, time.time())
            newest = sorted(known.items(), key=lambda item: item[1])[-MOST:]
            own_files.write(file, json.dumps(dict(newest)))

    def forget(self, agent: str, workspaces: Iterable[str]) -> None:
        """Begin to count anew: a person has looked at what the agent does."""
        for workspace in workspaces:
            self._file(agent, workspace).unlink(missing_ok=True)

    def _read(self, agent: str, workspace: str) -> dict[str, float]:
        try:
            with own_files.opened(self._file(agent, workspace)) as file:
                found = json.loads(file.read())
            since = time.time() - SECONDS
            return {str(path): float(at) for path, at in found.items() if float(at) > since}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}  # nothing yet; each call is counted by itself all the same

    def _file(self, agent: str, workspace: str) -> Path:
        name = json.dumps([agent, workspace])
        return self._folder / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.json"
