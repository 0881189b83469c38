# SPDX-License-Identifier: Apache-2.0
"""The processes that an agent was seen to have: one line each, `PID START`.

A descendant that was seen once is known by its number and start ever after, even when it has left
the tree, its session and its environment.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from pathlib import Path

from sandbox.host import files as own_files
from sandbox.processes.scarcity import refuse_scarcity
from sandbox.processes.table import Host, Known

MOST_BYTES = 64 * 1024
"""A longer list is written anew, with the living alone."""


class SeenProcesses:
    """The list of one agent."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> frozenset[Known]:
        """Return all that were seen; a line that a crash has cut is left out. Raises Unavailable
        where nothing can be read just now."""
        try:
            text = own_files.read(self._path, "ascii")
        except OSError as error:
            refuse_scarcity(error)
            return frozenset()
        except ValueError:
            return frozenset()
        found = set()
        for line in text.split("\n")[:-1]:
            with contextlib.suppress(ValueError):
                pid, created = line.split()
                found.add(Known(int(pid), int(created)))
        return frozenset(found)

    def add(self, some: Collection[Known], host: Host) -> None:
        """Add what is not there yet. Without room on the disk nothing is added."""
        fresh = set(some) - self.read()
        if not fresh:
            return
        data = "".join(f"{pid} {created}\n" for pid, created in sorted(fresh)).encode()
        with contextlib.suppress(OSError):
            if own_files.append(self._path, data) > MOST_BYTES:
                self._shorten(host)

    def remove(self) -> None:
        """Remove the list."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _shorten(self, host: Host) -> None:
        living = {proc.known for proc in host.table().values()}
        draft = self._path.with_suffix(f".{os.getpid()}.new")
        kept = sorted(one for one in self.read() if one in living)
        draft.write_text("".join(f"{pid} {created}\n" for pid, created in kept))
        draft.replace(self._path)
