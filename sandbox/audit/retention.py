# SPDX-License-Identifier: Apache-2.0
"""What calls wrote, and the diffs of their changes, are kept up to a quota: the oldest go first.

The record of a call is never touched, and what waits for a person or still runs keeps its files.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from sandbox.errors import Unavailable
from sandbox.host import files as own_files

UNTIL = ".until"
"""The file that says up to when calls lost their folders, in seconds since 1970."""
ROOM = 0.9
"""What of the quota is left full, so that not each call makes room for the next."""
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Dropped:
    """Calls whose folders went at once."""

    calls: int
    first: str
    last: str


class Retention:
    """Keeps the folders of calls within a quota, looking only when much was written."""

    def __init__(self, calls: Path, most: int, held: Callable[[], Collection[str]]) -> None:
        """`most` is in bytes; `held` gives the calls that wait for a person."""
        self._calls = calls
        self._most = most
        self._held = held
        self._looked_at: int | None = None

    def look(self, written: int, running: Collection[str]) -> Dropped | None:
        """Make room where there is too much; `written` is how many bytes were written so far."""
        pace = min(64 * _MIB, self._most // 16)
        if self._looked_at is not None and written - self._looked_at <= pace:
            return None
        self._looked_at = written
        found = sorted(_folders(self._calls))
        total = sum(size for _, _, size in found)
        if total <= self._most:
            return None
        spared = {*self._held(), *running}
        gone = []
        for age, name, size in found:
            if total <= self._most * ROOM:
                break
            if name in spared or any(name.startswith(f"{one}-") for one in spared):
                continue
            shutil.rmtree(self._calls / name, ignore_errors=True)
            total -= size
            gone.append((age, name))
        if not gone:
            return None
        with contextlib.suppress(Unavailable):  # a full disk; the next look says it
            own_files.write(self._calls / UNTIL, f"{gone[-1][0]}\n")
        return Dropped(len(gone), gone[0][1], gone[-1][1])


def until(calls: Path) -> float:
    """Return up to when calls lost their folders, in seconds since 1970; 0 for never."""
    try:
        return float(own_files.read(calls / UNTIL))
    except (OSError, ValueError):
        return 0.0


def _folders(calls: Path) -> Iterator[tuple[float, str, int]]:
    """Give (last change, call, bytes on disk) of each folder; one that goes meanwhile is none."""
    with contextlib.suppress(OSError), os.scandir(calls) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    yield entry.stat(follow_symlinks=False).st_mtime, entry.name, _size(entry.path)


def _size(folder: str) -> int:
    with os.scandir(folder) as files:
        return 4096 + sum(512 * file.stat(follow_symlinks=False).st_blocks for file in files)
