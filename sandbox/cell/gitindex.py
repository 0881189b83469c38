# SPDX-License-Identifier: Apache-2.0
"""Git's index: what it lists, what it means, and the stat data that it remembers of each file.

A call works on an overlay, so that the index which lands remembers inodes, times and owners that
the real files do not have; git on the host would have to read them all again. `settle` sets right
what the index remembers, after a landing and after an undo. `meaning` tells a refresh of stat data,
which is no change, from a change. `note_dropped` finds hidden files that leave the index.

INVARIANT: an entry is only said to be up to date where the file's content has the object id that
the entry names, or where nothing but owner and device differ from what git itself recorded. Bytes
other than stat data and the checksum are never changed. Whatever is odd in an index (a split one,
an unknown version or extension, a wrong checksum) makes it be left alone.

Format: git's Documentation/gitformat-index.txt; raciness: Documentation/technical/racy-git.txt.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from . import fs

MOST_BYTES = 256 << 20
"""A larger index is left alone."""
MOST_HASHED = 128 << 20
"""Bytes of files that are read to see that they are what the index names; the rest git reads."""

_STAT = struct.Struct(">10I")
_WORD = struct.Struct(">I")
_HALF = struct.Struct(">H")
_KINDS = (0o100644, 0o100755, 0o120000, 0o160000, 0o040000)
_HASHES: dict[int, Callable[..., Any]] = {20: hashlib.sha1, 32: hashlib.sha256}
_CACHES = (b"TREE", b"UNTR", b"FSMN", b"EOIE", b"IEOT")
"""Extensions that hold nothing that cannot be found out again."""
_NAME, _STAGE, _EXTENDED, _VALID = 0x0FFF, 0x3000, 0x4000, 0x8000
_CTIME, _CTIME_NS, _MTIME, _MTIME_NS, _DEV, _INO, _MODE, _UID, _GID, _SIZE = range(10)


class Entry(NamedTuple):
    """One entry. `at` is where its stat data starts in the file."""

    at: int
    stat: tuple[int, ...]
    oid: bytes
    flags: int
    more: int
    """The second half of the flags; 0 where there is none."""
    path: bytes

    @property
    def mode(self) -> int:
        """What git records of the file's type and mode."""
        return self.stat[_MODE]

    @property
    def stage(self) -> int:
        """0, or which side of a conflict this is."""
        return (self.flags & _STAGE) >> 12


class Index(NamedTuple):
    """An index as it was read."""

    content: bytes
    version: int
    width: int
    """Bytes of an object id: 20 or 32."""
    entries: list[Entry]
    extensions: list[tuple[bytes, bytes]]


class _Odd(Exception):
    """This is no index that we understand."""


def parse(content: bytes) -> Index | None:
    """Read an index; None where anything about it is odd."""
    found = []
    for width in _HASHES:
        with contextlib.suppress(_Odd, struct.error, IndexError):
            found.append(_parsed(content, width))
    return found[0] if len(found) == 1 else None


def serialise(index: Index, stats: Mapping[int, Sequence[int]]) -> bytes:
    """Return the file's bytes with other stat data in the entries that start at the given places.

    A checksum of zeros (index.skipHash) stays one.
    """
    content = bytearray(index.content)
    for at, values in stats.items():
        _STAT.pack_into(content, at, *values)
    end = len(content) - index.width
    if any(content[end:]):
        content[end:] = _HASHES[index.width](content[:end]).digest()
    return bytes(content)


def meaning(index: Index) -> str:
    """Return a digest of all that an index says but stat data and caches."""
    digest = hashlib.sha256(b"%d" % index.width)
    for entry in index.entries:
        flags = entry.flags & (_VALID | _STAGE)
        head = (len(entry.path), entry.path, entry.mode, entry.oid, flags, entry.more)
        digest.update(repr(head).encode())
    for name, held in index.extensions:
        if name not in _CACHES:
            digest.update(repr((name, held)).encode())
    return digest.hexdigest()


def _parsed(content: bytes, width: int) -> Index:
    end = len(content) - width
    if end < 12 or content[:4] != b"DIRC":
        raise _Odd
    version, count = struct.unpack_from(">2I", content, 4)
    if version not in (2, 3, 4):
        raise _Odd
    if any(content[end:]) and _HASHES[width](content[:end]).digest() != content[end:]:
        raise _Odd
    entries: list[Entry] = []
    at, path = 12, b""
    for _ in range(count):
        entry, after = _entry(content, at, width, version, path)
        if entries and (entry.path, entry.stage) <= (path, entries[-1].stage):
            raise _Odd
        if entry.mode not in _KINDS or after > end:
            raise _Odd
        entries.append(entry)
        at, path = after, entry.path
    extensions = []
    while at < end:
        name, (size,) = content[at : at + 4], _WORD.unpack_from(content, at + 4)
        at += 8 + size
        if at > end or not (b"A" <= name[:1] <= b"Z" or name == b"sdir"):
            raise _Odd  # others may not be ignored; `link` is a split index
        extensions.append((name, content[at - size : at]))
    return Index(content, version, width, entries, extensions)


def _entry(
    content: bytes, start: int, width: int, version: int, before: bytes
) -> tuple[Entry, int]:
    values = _STAT.unpack_from(content, start)
    at = start + _STAT.size
    oid = content[at : at + width]
    at += width
    (flags,) = _HALF.unpack_from(content, at)
    at += 2
    more = 0
    if flags & _EXTENDED:
        (more,) = _HALF.unpack_from(content, at)
        at += 2
        if version < 3 or more & 0x9FFF:
            raise _Odd
    kept = b""
    if version == 4:
        strip, at = _number(content, at)
        if strip > len(before):
            raise _Odd
        kept = before[: len(before) - strip]
    stop = content.find(b"\0", at)
    if stop < 0:
        raise _Odd
    path = kept + content[at:stop]
    if not path or min(len(path), _NAME) != flags & _NAME:
        raise _Odd
    after = stop + 1
    if version < 4:
        after = start + ((stop - start + 8) & ~7)
        if any(content[stop:after]):
            raise _Odd
    return Entry(start, values, oid, flags, more, path), after


def _number(content: bytes, at: int) -> tuple[int, int]:
    """Read a number as git's `decode_varint` does; return it and where it ends."""
    byte = content[at]
    at += 1
    value = byte & 127
    while byte & 128:
        byte = content[at]
        at += 1
        value = ((value + 1) << 7) + (byte & 127)
    return value, at


# Where indexes lie


def is_index(path: str) -> bool:
    """Whether a path of a workspace is the index of a repository, or of one of its work trees."""
    full = "/" + path
    return full.endswith("/.git/index") or (
        full.endswith("/index") and full.split("/")[-4:-2] == [".git", "worktrees"]
    )


def work_tree(path: str) -> str | None:
    """Return the folder that an index is of, as a prefix; None where that is not known."""
    return path[: -len(".git/index")] if ("/" + path).endswith("/.git/index") else None


def read(root: int, path: str) -> Index | None:
    """Read an index of the workspace; None where there is none that we understand."""
    try:
        descriptor = fs.open_beneath(root, path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    return _read(descriptor)


def _read(descriptor: int) -> Index | None:
    """Read an open file, and close it."""
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
            return None
        return parse(file.read())


# Hidden files that leave the index


def note_dropped(
    changes: Iterable[dict[str, Any]], root: str, upper: str, hidden: Collection[str]
) -> None:
    """Mark each change of an index that loses entries of files which the cell could not see.

    Where the new index cannot be understood, all hidden files that the old one lists count as lost.
    """
    for change in changes:
        if not is_index(change["path"]) and not is_index(change.get("source", "")):
            continue
        old = change.get("source", change["path"])
        prefix = work_tree(old)
        if prefix is None or change["kind"] == "created":
            continue
        if change["kind"] == "renamed" and is_index(change["path"]) and not change.get("modified"):
            continue
        dropped = _dropped(change, prefix, old, root, upper, hidden)
        if dropped:
            change["drops_hidden"] = [os.fsdecode(os.fsencode(prefix) + one) for one in dropped]


def _dropped(
    change: Mapping[str, Any], prefix: str, old: str, root: str, upper: str, hidden: Collection[str]
) -> list[bytes]:
    top = fs.open_directory(root)
    try:
        before = read(top, old)
    finally:
        os.close(top)
    if before is None:
        return []
    covered = {os.fsencode(path) for path in hidden}
    listed = {entry.path for entry in before.entries}
    lost = {path for path in listed if _covered(os.fsencode(prefix) + path, covered)}
    if lost and change["kind"] != "deleted" and is_index(change["path"]):
        layer = fs.open_directory(upper)
        try:
            after = read(layer, change["path"])
        finally:
            os.close(layer)
        lost -= {entry.path for entry in after.entries} if after else set()
    return sorted(lost)


def _covered(path: bytes, folders: Collection[bytes]) -> bool:
    """Whether a path is one of `folders`, or lies in one."""
    parts = path.split(b"/")
    return any(b"/".join(parts[: n + 1]) in folders for n in range(len(parts)))
