# SPDX-License-Identifier: Apache-2.0
"""Git's index as a file: its entries, its extensions, and what it means.

INVARIANT: bytes other than stat data, caches and the checksum are never changed. Whatever is odd in
an index (a split one, an unknown version or extension, a wrong checksum) makes it be left alone.

Format: git's Documentation/gitformat-index.txt.

Runs in the keeper: standard library only, Python 3.9. Pure.
"""

from __future__ import annotations

import contextlib
import hashlib
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

_STAT = struct.Struct(">10I")
_WORD = struct.Struct(">I")
_HALF = struct.Struct(">H")
_KINDS = (0o100644, 0o100755, 0o120000, 0o160000, 0o040000)
HASHES: dict[int, Callable[..., Any]] = {20: hashlib.sha1, 32: hashlib.sha256}
"""Bytes of an object id -> how it is made."""
UNTRACKED = b"UNTR"
"""The extension that remembers which files are untracked."""
_CACHE_HEAD = 2 * 36 + 4
"""Bytes of stat data and flags in it, between its own name and two object ids."""
_CACHES = (b"TREE", b"UNTR", b"FSMN", b"EOIE", b"IEOT")
"""Extensions that hold nothing that cannot be found out again."""
MOST_NAMED = 256 << 20
"""Bytes of all names in an index: in version 4 a short file can spell out very many."""
_NAME, _STAGE, _EXTENDED, VALID = 0x0FFF, 0x3000, 0x4000, 0x8000
CTIME, CTIME_NS, MTIME, MTIME_NS, DEV, INO, MODE, UID, GID, SIZE = range(10)
"""Places in an entry's stat data."""


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
        return self.stat[MODE]

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
    for width in HASHES:
        with contextlib.suppress(_Odd, struct.error, IndexError):
            found.append(_parsed(content, width))
    return found[0] if len(found) == 1 else None


def serialise(
    index: Index, stats: Mapping[int, Sequence[int]], untracked: bytes | None = None
) -> bytes:
    """Return the file's bytes with other stat data in the entries that start at the given places.

    `untracked` stands in for what it remembers of untracked files; nothing where it is empty.
    A checksum of zeros (index.skipHash) stays one.
    """
    content = bytearray(index.content)
    for at, values in stats.items():
        _STAT.pack_into(content, at, *values)
    end = len(content) - index.width
    sum_ = content[end:]
    if untracked is not None:
        kept = [
            (name, untracked if name == UNTRACKED else held)
            for name, held in index.extensions
            if name != b"EOIE" and (name != UNTRACKED or untracked)
        ]
        del content[end - sum(8 + len(held) for _, held in index.extensions) :]
        for name, held in kept:
            content += name + _WORD.pack(len(held)) + held
        end = len(content)
        content += sum_
    if any(sum_):
        content[end:] = HASHES[index.width](content[:end]).digest()
    return bytes(content)


def forgotten(untracked: bytes, width: int) -> bytes:
    """Return an untracked cache without what it remembers; nothing where it cannot be read.

    It stays switched on, and git looks at all folders anew.
    """
    try:
        size, at = _number(untracked, 0)
        end = untracked.index(b"\0", at + size + _CACHE_HEAD + 2 * width) + 1
    except (IndexError, ValueError):
        return b""
    return untracked[:end] + b"\0"


def meaning(index: Index) -> str:
    """Return a digest of all that an index says but stat data and caches."""
    digest = hashlib.sha256(b"%d" % index.width)
    for entry in index.entries:
        flags = entry.flags & (VALID | _STAGE)
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
    if any(content[end:]) and HASHES[width](content[:end]).digest() != content[end:]:
        raise _Odd
    entries: list[Entry] = []
    at, path, named = 12, b"", 0
    for _ in range(count):
        entry, after = _entry(content, at, width, version, path)
        if entries and (entry.path, entry.stage) <= (path, entries[-1].stage):
            raise _Odd
        if entry.mode not in _KINDS or after > end:
            raise _Odd
        named += len(entry.path)
        if named > MOST_NAMED:
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
