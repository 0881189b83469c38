# SPDX-License-Identifier: Apache-2.0
"""A control group of its own for an agent, where this user may make one.

What is in it stays in it, whatever becomes of its parent, session or environment, and all of it
can be frozen at once. Version 1 (the freezer) and version 2 are used; without either, the other
proofs of membership have to do.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from sandbox.processes.scarcity import refuse_scarcity

ROOT = Path("/sys/fs/cgroup")
FOLDER = "lockgate"
OLD_SECONDS = 60.0
"""A group without a process that was made this long ago is nobody's any more."""
FREEZE_SECONDS = 0.2
"""How long a group may take to freeze; what is not frozen by then is stopped one by one."""


class ControlGroup:
    """One agent's group."""

    def __init__(self, path: Path, agent: str) -> None:
        self.path = path
        self.agent = agent
        self._old = (path / "freezer.state").exists()

    @staticmethod
    def make(token: str, agent: str, root: Path = ROOT) -> ControlGroup | None:
        """Make a group named by a token nobody else has, or return None where that is refused."""
        for parent in _places(root):
            path = parent / FOLDER / token
            with contextlib.suppress(OSError):
                path.mkdir(parents=True)
                _tidy(path.parent)
                return ControlGroup(path, agent)
        return None

    @staticmethod
    def make_beside(token: str, agent: str, root: Path = ROOT) -> ControlGroup | None:
        """Make a group for what runs already, or return None where that would take it out of the
        one it is in: only the freezer of version 1 stands beside the others."""
        return ControlGroup.make(token, agent, root) if (root / "freezer").is_dir() else None

    def add(self, pid: int) -> bool:
        """Put a process into the group; its children are born in it. False where it is refused."""
        try:
            (self.path / "cgroup.procs").write_text(str(pid))
        except OSError:
            return False
        return True

    def leave(self, pid: int) -> None:
        """Put a process that is no part of the agent where groups begin."""
        parent = next((one for one in self.path.parents if one.parent == ROOT), None)
        with contextlib.suppress(OSError):
            if parent is not None and pid in self.members():
                (parent / "cgroup.procs").write_text(str(pid))

    def members(self) -> set[int]:
        """Return the numbers of its processes, those of groups that were made below it too.

        Raises Unavailable where nothing can be read just now.
        """
        found: set[int] = set()
        for folder, _, _ in os.walk(self.path, onerror=refuse_scarcity):
            try:
                found.update(map(int, (Path(folder) / "cgroup.procs").read_text().split()))
            except OSError as error:
                refuse_scarcity(error)
            except ValueError:
                continue
        return found

    def freeze(self) -> None:
        """Freeze all of it, as far as that comes in a short time."""
        self._write("FROZEN", "1")
        deadline = time.monotonic() + FREEZE_SECONDS
        while not self._frozen() and time.monotonic() < deadline:
            time.sleep(0.001)

    def thaw(self) -> None:
        """Let all of it run (or be killed)."""
        self._write("THAWED", "0")

    def remove(self) -> bool:
        """Remove the group. False while a process is in it."""
        for folder, _, _ in os.walk(self.path, topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()
        return not self.path.exists()

    def _write(self, old: str, new: str) -> None:
        with contextlib.suppress(OSError):
            if self._old:
                (self.path / "freezer.state").write_text(old)
            else:
                (self.path / "cgroup.freeze").write_text(new)

    def _frozen(self) -> bool:
        try:
            if self._old:
                return (self.path / "freezer.state").read_text().strip() == "FROZEN"
            return "frozen 1" in (self.path / "cgroup.events").read_text()
        except OSError:
            return True


def _tidy(folder: Path) -> None:
    """Remove old groups that are empty: when their agent was killed, its dead were still there."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            with contextlib.suppress(OSError):  # it is a file, or a process is in it
                if time.time() - path.stat().st_mtime > OLD_SECONDS:
                    path.rmdir()


def _places(root: Path) -> Iterator[Path]:
    """Yield the folders below which a group may be made, the best first."""
    if (root / "freezer").is_dir():
        yield root / "freezer"
    if (root / "cgroup.controllers").exists():
        yield root
        with contextlib.suppress(OSError):
            own = Path("/proc/self/cgroup").read_text().strip().rpartition("::")[2]
            yield root / own.lstrip("/")  # delegated to this user
            yield (root / own.lstrip("/")).parent
