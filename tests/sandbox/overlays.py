# SPDX-License-Identifier: Apache-2.0
"""Real overlay mounts for tests of walking and landing: a workspace, a layer, what a call sees."""

from __future__ import annotations

import ctypes
import functools
import os
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from sandbox.cell.landing import land as landing
from sandbox.cell.overlay.steps import Walk
from sandbox.cell.overlay.walk import walk
from tests.conftest import cannot_run

OPTIONS = "redirect_dir=on,xino=off,index=off,metacopy=off"
_libc = ctypes.CDLL(None, use_errno=True)

Tree = dict[str, tuple[object, ...]]
"""Path -> type and mode, owner, content or target, mtime (not of directories), attributes."""


@functools.cache
def missing() -> str | None:
    """Return why overlay mounts cannot be made here, None if they can."""
    if os.geteuid() != 0:
        return "overlay mounts need root"
    try:
        with Overlay():
            return None
    except OSError as error:
        return f"overlay mounts: {error}"


class Overlay:
    """A workspace with a layer over it, as a keeper makes them."""

    def __init__(self, *masks: str, prepare: str = "") -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="lockgate-test-")
        base = Path(self._folder.name)
        self.lower, self.upper, self.merged = base / "lower", base / "upper", base / "merged"
        self._work, self._mask = base / "work", base / "mask"
        for path in (self.lower, self.upper, self.merged, self._work, self._mask):
            path.mkdir()
        self.masks = masks
        self.since: int | None = None
        self._mounted = False
        self.edit(prepare)

    def __enter__(self) -> Overlay:
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        self._folder.cleanup()

    def open(self) -> None:
        """Open a transaction."""
        for path in self.masks:
            whiteout = self._mask / path
            whiteout.parent.mkdir(parents=True, exist_ok=True)
            os.mknod(whiteout, stat.S_IFCHR, 0)
        # What a test prepared is older, what it edits later on is newer, however coarse the clock.
        _wait_for_next_tick(self.lower, landing.stamp(str(self.lower)))
        self.since = landing.stamp(str(self.lower))
        _wait_for_next_tick(self.lower, self.since)
        data = f"lowerdir={self._mask}:{self.lower},upperdir={self.upper},workdir={self._work}"
        arguments = ("overlay", str(self.merged), "overlay")
        encoded = [a.encode() for a in arguments]
        if _libc.mount(*encoded, 0, f"{data},{OPTIONS}".encode()) < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        self._mounted = True

    def close(self) -> None:
        """Detach the layer."""
        if self._mounted:
            _libc.umount2(str(self.merged).encode(), 2)
            self._mounted = False

    def call(self, script: str) -> None:
        """Run a script where a call runs."""
        subprocess.run(["bash", "-ec", script], cwd=self.merged, check=True)

    def edit(self, script: str) -> None:
        """Run a script in the real workspace, as a person would."""
        subprocess.run(["bash", "-ec", script], cwd=self.lower, check=True)

    def walk(self, owners: dict[int, int] | None = None) -> Walk:
        """Detach the layer and list what it changed."""
        self.close()
        return walk(
            str(self.upper), str(self.lower), masks=self.masks, since=self.since, owners=owners
        )

    def land(self, walked: Walk, call: str = "c1", **options: object) -> landing.Landing:
        """Land what was walked."""
        return landing.land(str(self.lower), str(self.upper), walked, call, **options)  # type: ignore[arg-type]

    def undo(self, call: str, new_call: str) -> landing.Landing:
        """Undo a call."""
        return landing.undo(str(self.lower), call, new_call)

    def real(self) -> Tree:
        """Return the real workspace."""
        return tree(self.lower)

    def seen(self) -> Tree:
        """Return what the call sees."""
        return tree(self.merged)

    def unfinished(self) -> list[str]:
        """Return the landings that did not come to their end."""
        folder = self.lower / ".lockgate" / "landing"
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def tree(root: Path) -> Tree:
    """Return all below a folder but Lockgate's own records."""
    found: Tree = {}
    for folder, folders, files in os.walk(root):
        if folder == str(root) and ".lockgate" in folders:
            folders.remove(".lockgate")
        for name in folders + files:
            path = Path(folder, name)
            found[str(path.relative_to(root))] = _facts(path)
    return found


def _facts(path: Path) -> tuple[object, ...]:
    status = path.lstat()
    content: object = None
    mtime = None if stat.S_ISDIR(status.st_mode) else status.st_mtime_ns
    if stat.S_ISLNK(status.st_mode):
        content = str(path.readlink())
    elif stat.S_ISREG(status.st_mode):
        content = path.read_bytes()
    names = [n for n in os.listxattr(path, follow_symlinks=False) if n.startswith("user.")]
    attributes = {n: os.getxattr(path, n, follow_symlinks=False) for n in names}
    return status.st_mode, status.st_uid, status.st_gid, content, mtime, attributes


def open_overlay(prepare: str) -> Iterator[Overlay]:
    """Give an overlay for one test, which cannot run where there are none: for a fixture."""
    if reason := missing():
        cannot_run(reason)
    with Overlay(prepare=prepare) as opened:
        yield opened


def _wait_for_next_tick(folder: Path, since: int) -> None:
    """Wait until a change has a later ctime than `since` (clocks of file systems are coarse)."""
    deadline = time.monotonic() + 5
    while landing.stamp(str(folder)) <= since:
        assert time.monotonic() < deadline, "the file system's clock stands still"
