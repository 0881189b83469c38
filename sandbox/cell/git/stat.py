# SPDX-License-Identifier: Apache-2.0
"""Make git's index remember the real files, after a landing and after an undo.

A call works on an overlay, so that the index which lands remembers inodes, times and owners that
the real files do not have; git on the host would have to read them all again.

INVARIANT: an entry that the call changed is only said to be up to date where the file's content has
the object id that the entry names: an agent can write any stat data into an index.

Raciness: git's Documentation/technical/racy-git.txt.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection, Iterable, Sequence

from .. import fs
from ..journal.format import META, PUT, SWAP, TAKE, Amendment, Op
from .index_format import (
    CTIME,
    CTIME_NS,
    DEV,
    GID,
    HASHES,
    INO,
    MODE,
    MTIME,
    MTIME_NS,
    SIZE,
    UID,
    UNTRACKED,
    VALID,
    Entry,
    Index,
    forgotten,
    serialise,
)
from .places import Found, read, work_tree
from .replace import replace

MOST_HASHED = 128 << 20
"""Bytes of files that are read to see that they are what the index names; the rest git reads."""


def settle(
    root: int,
    folder: int,
    ops: Sequence[Op],
    indexes: Iterable[Found],
    *,
    back: bool,
    durable: bool,
) -> list[Amendment]:
    """Make indexes remember the real files; return which objects became others.

    `folder` is the landing's own, in the workspace's file system. An index that somebody else has
    changed, or holds the lock of, is left as it is, as is one that cannot be written.
    """
    amended = []
    landed = _landed(ops, back=back)
    for index in indexes:
        op = ops[index.place.position]
        prefix = work_tree(index.place.path)
        if op.action == META:
            continue
        with contextlib.suppress(OSError):
            before = read(folder, op.slot) if op.action == SWAP else None
            if prefix is None:
                stats = _forgotten(index, before)  # where the files lie is not known
            else:
                stats = _stats(root, os.fsencode(prefix), index, landed, before)
            untracked = _untracked(index.held, before)
            if stats or untracked is not None:
                content = serialise(index.held, stats, untracked)
                identity = replace(root, folder, index, content, durable=durable)
                if identity is not None:
                    amended.append(index.place.amendment(op, identity, back=back))
    return amended


def _untracked(held: Index, before: Index | None) -> bytes | None:
    """Return what an index shall say of untracked files; None where it may stay as it is.

    A call can write there that a folder holds nothing new: only what stood there before counts.
    """
    new, old = (
        dict(index.extensions).get(UNTRACKED) if index else None for index in (held, before)
    )
    if new is None or new == old:
        return None
    return forgotten(old or b"", held.width)


def _landed(ops: Sequence[Op], *, back: bool) -> set[bytes]:
    """Return the paths of files that a run placed or set."""
    arriving = (SWAP, META, TAKE if back else PUT)
    out = set()
    for op in ops:
        if op.action in arriving and op.other is None:
            out.add(os.fsencode(op.path))
            out |= {os.fsencode(f"{op.path}/{name}") for name in op.inner or ()}
    return out


def _stats(
    root: int, prefix: bytes, one: Found, landed: Collection[bytes], before: Index | None
) -> dict[int, tuple[int, ...]]:
    """Return new stat data by entry.

    Git reads a file again if its mtime is not older than the index. What an entry that the call
    changed says of a file is kept only where the file holds what it names: what else git could
    take for up to date is made to be read again, or an edit would not show in `git status`.
    """
    stats: dict[int, tuple[int, ...]] = {}
    left = MOST_HASHED
    known = {entry.path: (entry.stat, entry.oid) for entry in before.entries} if before else {}
    written = one.status.st_mtime_ns // 10**9
    with contextlib.closing(_Folder(root)) as folder:
        for entry in one.held.entries:
            if entry.stage or entry.more or entry.flags & VALID or entry.mode >> 12 not in (8, 10):
                continue  # git does not look at the file, or not at its stat data
            racy = entry.stat[MTIME] >= written
            ours = prefix + entry.path in landed
            if not (ours or racy) and known.get(entry.path) == (entry.stat, entry.oid):
                continue  # as it was before the call
            status = folder.lstat(os.fsdecode(prefix + entry.path))
            if status is None or not _resembles(entry, status):
                continue  # git sees that it changed
            left -= status.st_size
            holds = left >= 0 and folder.holds(entry, status, one.held.width)
            values = _values(entry, status) if holds else _FORGOTTEN
            if values != entry.stat:
                stats[entry.at] = _with_mode(entry, values)
    return stats


def _forgotten(one: Found, before: Index | None) -> dict[int, tuple[int, ...]]:
    """Return stat data by which git reads each file again whose entry the call changed."""
    known = {entry.path: (entry.stat, entry.oid) for entry in before.entries} if before else {}
    return {
        entry.at: _with_mode(entry, _FORGOTTEN)
        for entry in one.held.entries
        if not (entry.stage or entry.more or entry.flags & VALID or entry.mode >> 12 not in (8, 10))
        and known.get(entry.path) != (entry.stat, entry.oid)
    }


_FORGOTTEN = (0,) * 10
"""Stat data as in an entry of which git knows nothing yet."""


def _with_mode(entry: Entry, values: tuple[int, ...]) -> tuple[int, ...]:
    return (*values[:MODE], entry.stat[MODE], *values[MODE + 1 :])


def _values(entry: Entry, status: os.stat_result) -> tuple[int, ...]:
    """Return stat data as git stores it: each truncated to 32 bits; mode and size stay."""
    values = list(entry.stat)
    values[CTIME], values[CTIME_NS] = divmod(status.st_ctime_ns, 10**9)
    values[MTIME], values[MTIME_NS] = divmod(status.st_mtime_ns, 10**9)
    values[DEV], values[INO] = status.st_dev, status.st_ino
    values[UID], values[GID] = status.st_uid, status.st_gid
    return tuple(value & 0xFFFFFFFF for value in values)


def _resembles(entry: Entry, status: os.stat_result) -> bool:
    """Whether git could take a file for the one of the entry: it may compare no more than this."""
    size = status.st_size & 0xFFFFFFFF
    if status.st_size and not size and entry.stat[SIZE]:
        size = 0x80000000  # newer git's word for a multiple of 4 GiB
    return (
        stat.S_IFMT(status.st_mode) == stat.S_IFMT(entry.mode)
        and entry.stat[SIZE] == size
        and entry.stat[MTIME] == _values(entry, status)[MTIME]
    )


class _Folder:
    """Looks at files; keeps the last one's directory open, since entries come in order."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._path = ""
        self._open: int | None = None
        self._name = ""

    def close(self) -> None:
        """Close the directory."""
        if self._open is not None:
            os.close(self._open)
            self._open = None

    def lstat(self, path: str) -> os.stat_result | None:
        """Return a file's status; None where it cannot be reached without following a link."""
        directory, _, self._name = path.rpartition("/")
        if self._name in ("", ".", ".."):
            return None
        try:
            if self._open is None or directory != self._path:
                self.close()
                self._open = fs.open_beneath(self._root, directory)
                self._path = directory
            return os.stat(self._name, dir_fd=self._open, follow_symlinks=False)
        except OSError:
            return None

    def holds(self, entry: Entry, status: os.stat_result, width: int) -> bool:
        """Whether the file that was looked at last has the content that its entry names."""
        digest = HASHES[width](b"blob %d\0" % status.st_size)
        try:
            if stat.S_ISLNK(status.st_mode):
                digest.update(os.fsencode(os.readlink(self._name, dir_fd=self._open)))
                return bool(digest.digest() == entry.oid)
            with fs.reading(os.open(self._name, fs.READ, dir_fd=self._open)) as file:
                while chunk := file.read(fs.CHUNK):
                    digest.update(chunk)
                same = fs.identity(os.fstat(file.fileno())) == fs.identity(status)
        except OSError:
            return False
        return same and bool(digest.digest() == entry.oid)
