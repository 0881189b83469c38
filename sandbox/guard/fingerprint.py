# SPDX-License-Identifier: Apache-2.0
"""How one path stands: type, mode, owner, identity and content; and what differs between two looks.

Looks through a descriptor of the folder and follows no link. Changes nothing.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from sandbox.cell import fs

MOST_KEPT = 8 << 20
"""Bytes of a file up to which its content is kept; a longer one is only compared."""
_CHUNK = 1 << 20
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

FILE, DIRECTORY, SYMLINK, SPECIAL = "file", "directory", "symlink", "special"
_TYPES = {stat.S_IFREG: FILE, stat.S_IFDIR: DIRECTORY, stat.S_IFLNK: SYMLINK}

Keep = Callable[[str, bytes], None]
"""Takes the content of a file and its SHA-256."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One object of the file system."""

    type: str
    mode: int
    uid: int
    gid: int
    links: int
    """Names of a file; 1 for everything else."""
    size: int
    identity: tuple[int, int, int, int]
    """Device, inode, mtime and ctime in nanoseconds; of a directory only device and inode."""
    sha256: str | None = None
    """Of a file's content or a link's target; None for others and for what cannot be read."""

    @property
    def ctime(self) -> float:
        """When it was last changed in any way, in seconds; nobody can set this at will."""
        return self.identity[3] / 1e9

    @property
    def kept(self) -> bool:
        """Whether its content was kept when it was seen."""
        return self.sha256 is not None and self.size <= MOST_KEPT

    def as_json(self) -> list[Any]:
        """Return it as a row of the snapshot."""
        return [
            *(self.type, self.mode, self.uid, self.gid, self.links, self.size),
            list(self.identity),
            self.sha256,
        ]

    @classmethod
    def from_json(cls, row: list[Any]) -> Entry:
        """Return a row of the snapshot. Raises ValueError or TypeError when it is none."""
        kind, mode, uid, gid, links, size, identity, sha256 = row
        device, inode, mtime, ctime = identity
        return cls(kind, mode, uid, gid, links, size, (device, inode, mtime, ctime), sha256)


def examine(
    folder: int, name: str, known: Entry | None = None, *, keep: Keep, full: bool = False
) -> Entry | None:
    """Return how `name` stands in an open folder; None when it is not there.

    A file whose status is as `known` is not read again unless `full` asks for it. `keep` gets the
    content of each file that is read and short enough.
    """
    try:
        entry = _of(os.stat(name, dir_fd=folder, follow_symlinks=False))
        if entry.type == FILE:
            same = known is not None and replace(known, sha256=None) == entry
            return known if same and not full else _read(folder, name, entry, keep)
        if entry.type == SYMLINK:
            target = os.fsencode(os.readlink(name, dir_fd=folder))
            digest = hashlib.sha256(target).hexdigest()
            keep(digest, target)
            return replace(entry, sha256=digest)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return entry


def difference(before: Entry | None, after: Entry | None) -> str | None:
    """Return what happened to a path in one word, or None where nothing of substance did."""
    if after is None:
        return None if before is None or before.type == DIRECTORY else "deleted"
    if before is None:
        return None if after.type == DIRECTORY else "created"
    if before.type != after.type:
        return "replaced"
    if before.sha256 != after.sha256:
        return "modified"
    if before.sha256 is None and before.type == FILE and before.identity != after.identity:
        return "modified"  # it cannot be read, so that nothing says that it is as before
    if (before.mode, before.uid, before.gid) != (after.mode, after.uid, after.gid):
        return "mode" if before.type != SYMLINK else None
    if after.links > 1 and before.links == 1:
        return "linked"
    return None


def _of(status: os.stat_result) -> Entry:
    kind = _TYPES.get(stat.S_IFMT(status.st_mode), SPECIAL)
    times = (0, 0) if kind == DIRECTORY else (status.st_mtime_ns, status.st_ctime_ns)
    return Entry(
        type=kind,
        mode=stat.S_IMODE(status.st_mode),
        uid=status.st_uid,
        gid=status.st_gid,
        links=status.st_nlink if kind == FILE else 1,
        size=0 if kind == DIRECTORY else status.st_size,
        identity=(status.st_dev, status.st_ino, *times),
    )


def _read(folder: int, name: str, entry: Entry, keep: Keep) -> Entry:
    try:
        file = fs.reading(os.open(name, _FLAGS, dir_fd=folder))
    except OSError:  # not ours to read, or replaced just now: the next look sees by what
        return entry
    digest = hashlib.sha256()
    content = bytearray()
    with file:
        descriptor = file.fileno()
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return entry
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            if len(content) <= MOST_KEPT:
                content += chunk
        status = os.fstat(descriptor)
    if len(content) <= MOST_KEPT:
        keep(digest.hexdigest(), bytes(content))
    return replace(_of(status), sha256=digest.hexdigest())
