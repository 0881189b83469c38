# SPDX-License-Identifier: Apache-2.0
"""Agents that ended after the process that watched them was killed: what they left is not known.

A stop names them once: it cannot prove that nothing of theirs runs (P10).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from sandbox.host import files as own_files
from sandbox.processes.table import boot


class Lost:
    """The list of a state folder: one line each, `BOOT NAME`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, agent: str) -> None:
        """Add an agent by its whole name. Without room on the disk nothing is added."""
        with contextlib.suppress(OSError):
            own_files.append(self._path, f"{boot()} {agent}\n".encode())

    def take(self, wanted: Callable[[str], bool]) -> list[str]:
        """Return the wanted ones of this boot, and keep the others alone."""
        now, found, kept = boot(), dict[str, None](), []
        try:
            lines = own_files.read(self._path).splitlines()
        except (OSError, ValueError):
            return []
        for line in lines:
            when, _, agent = line.partition(" ")
            if when == now and agent:
                if wanted(agent):
                    found[agent] = None
                else:
                    kept.append(f"{line}\n")
        with contextlib.suppress(OSError):
            if kept:
                self._path.write_text("".join(kept), "utf-8")
            else:
                self._path.unlink()
        return list(found)
