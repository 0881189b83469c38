# SPDX-License-Identifier: Apache-2.0
"""Packs of git's objects: the index, objects, and deltas upon other objects. Reads only.

Format: git's Documentation/gitformat-pack.txt. Whatever is odd is told (`Odd`), never guessed.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import hashlib
import itertools
import mmap
import os
import struct
import zlib
from collections.abc import Callable, Iterator

from .files import Files

MOST_BYTES = 32 << 20
"""Of one commit or tree; a larger one is odd."""
MOST_CHECKED = 128 << 20
"""Bytes of a pack that is looked through whole."""
MOST_COUNTED = 200_000
"""Objects of it."""
HASHES = {20: hashlib.sha1, 32: hashlib.sha256}
"""Bytes of an object id -> how it is made."""
MOST_DEPTH = 200
"""Deltas upon deltas; git itself makes 50 at most by default."""
MOST_SPENT = 2 << 30
"""Bytes that one look may unpack: a small pack can hold terabytes."""
_STEP = 8
"""Bytes that one byte of a delta counts as: two may be a step of its own, and add one byte."""
MOST_LINKS = 4_096
"""Deltas that are followed to find out a type: as deep as git itself can make them."""
_VERSIONS = (b"\0\0\0\2", b"\0\0\0\3")
_KINDS = {1: b"commit", 2: b"tree", 3: b"blob", 4: b"tag"}
_OFFSET_DELTA, _NAME_DELTA = 6, 7
_MAGIC = b"\377tOc\0\0\0\2"
Find = Callable[[bytes], "tuple[bytes, bytes]"]
"""Gives type and content of an object that a delta builds upon. Raises Odd where it is missing."""


class Odd(Exception):
    """Something in a repository that cannot be read."""


class Budget:
    """What one look may unpack. Raises Odd where it is used up."""

    def __init__(self) -> None:
        self._left = MOST_SPENT

    def spend(self, size: int) -> None:
        """Count so many bytes more."""
        self._left -= size
        if self._left < 0:
            raise Odd("more than can be looked through")


class Pack:
    """One pack and its index."""

    def __init__(self, files: Files, path: str, width: int, budget: Budget) -> None:
        self._width = width
        self.path = path
        self._budget = budget
        self._index = self._map(files, path + ".idx")
        self._data = self._map(files, path + ".pack")
        if self._index[:8] != _MAGIC:
            raise Odd(f"{path}.idx: not of version 2")
        self._fan = struct.unpack_from(">256I", self._index, 8)
        self.count = self._fan[255]
        names = 8 + 1024
        self._names = names
        self._offsets = names + self.count * (width + 4)
        self._far = self._offsets + self.count * 4
        self._known: dict[int, tuple[bytes, bytes]] = {}
        self._kept = 0
        if len(self._index) < self._far:
            raise Odd(f"{path}.idx: cut")

    def _map(self, files: Files, path: str) -> mmap.mmap:
        try:
            descriptor = files.open(path)
        except OSError as error:
            raise Odd(f"{path}: {error.strerror}") from None
        try:
            return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError):
            raise Odd(f"{path}: cannot be read") from None
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Close both files."""
        self._index.close()
        self._data.close()

    def kinds(self, find: Find) -> Iterator[tuple[bytes, bytes]]:
        """Give name and type of every object, each found to be what its name says. Raises Odd."""
        if len(self._data) > MOST_CHECKED or self.count > MOST_COUNTED:
            raise Odd(f"{self.path}: too large to be looked through")
        self._check()
        for position in range(self.count):
            name = self.name(position)
            kind, content = self.read(self._offset(position), find)
            whole = b"%s %d\0" % (kind, len(content)) + content
            if HASHES[self._width](whole).digest() != name:
                raise Odd(f"object {name.hex()} is not what its name says")
            yield name, kind

    def _check(self) -> None:
        """Look whether git would open the pack and find in it what the index says. Raises Odd.

        Source: `open_packed_git_1` and `load_idx` in git's packfile.c, `verify_packfile` in
        pack-check.c.
        """
        data, index, width = self._data, self._index, self._width
        head = (b"PACK", self.count)
        if (data[:4], int.from_bytes(data[8:12], "big")) != head or data[4:8] not in _VERSIONS:
            raise Odd(f"{self.path}.pack: another head than its index tells of")
        ends = (len(data) - width, len(index) - width)
        for content, end in zip((data, index), ends):
            if HASHES[width](memoryview(content)[:end]).digest() != content[end:]:
                raise Odd(f"{self.path}: its checksum is another one")
        if index[ends[1] - width : ends[1]] != data[ends[0] :]:
            raise Odd(f"{self.path}: the index is of another pack")
        names = [self.name(position) for position in range(self.count)]
        if any(names[n] >= names[n + 1] for n in range(self.count - 1)):
            raise Odd(f"{self.path}.idx: not in order")
        counts = [0] * 256
        for name in names:
            counts[name[0]] += 1
        if list(itertools.accumulate(counts)) != list(self._fan):
            raise Odd(f"{self.path}.idx: not in order")
        self._check_places(ends[0])

    def _check_places(self, end: int) -> None:
        """Look whether the objects follow each other, each with its own checksum."""
        places = sorted((self._offset(position), position) for position in range(self.count))
        starts = [start for start, _ in places]
        far = sum(start > 0x7FFFFFFF for start in starts)
        if (
            starts[:1] not in ([12], [])
            or len(self._index) != self._far + far * 8 + 2 * self._width
        ):
            raise Odd(f"{self.path}.idx: it holds something else")
        sums = self._names + self.count * self._width
        for (start, position), after in zip(places, [*starts[1:], end]):
            (wanted,) = struct.unpack_from(">I", self._index, sums + position * 4)
            if not start < after or zlib.crc32(self._data[start:after]) != wanted:
                raise Odd(f"{self.path}: an object is not where its index says")

    def names(self) -> Iterator[bytes]:
        """Give the ids of all objects."""
        return (self.name(position) for position in range(self.count))

    def kind(self, offset: int) -> bytes:
        """Return the type of the object at a place, without unpacking it. Raises Odd."""
        for _ in range(MOST_LINKS):
            try:
                at, kind, _size = self._head(offset)
                if kind in _KINDS:
                    return _KINDS[kind]
                if kind == _OFFSET_DELTA:
                    back = _backwards(self._data, at)[0]
                    offset = offset - back if 0 < back < offset else 0
                elif kind == _NAME_DELTA:
                    offset = self.find(self._data[at : at + self._width])
            except (IndexError, struct.error) as error:
                raise Odd(f"{self.path}: {error}") from None
            if not offset:
                break
        raise Odd(f"{self.path}: an object of no type")

    def name(self, position: int) -> bytes:
        """Return the id at a position of the index."""
        at = self._names + position * self._width
        return self._index[at : at + self._width]

    def find(self, oid: bytes) -> int:
        """Return where an object starts in the pack; 0 where it is not there."""
        low = self._fan[oid[0] - 1] if oid[0] else 0
        high = self._fan[oid[0]]
        while low < high:
            middle = (low + high) // 2
            found = self.name(middle)
            if found == oid:
                return self._offset(middle)
            if found < oid:
                low = middle + 1
            else:
                high = middle
        return 0

    def begins(self, digits: str) -> bool:
        """Whether the id of an object begins with some hexadecimal digits."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if self.name(middle).hex() < digits:
                low = middle + 1
            else:
                high = middle
        return low < self.count and self.name(low).hex().startswith(digits)

    def _offset(self, position: int) -> int:
        (near,) = struct.unpack_from(">I", self._index, self._offsets + position * 4)
        if near & 0x80000000:
            far = self._far + (near & 0x7FFFFFFF) * 8
            return int(struct.unpack_from(">Q", self._index, far)[0])
        return int(near)

    def read(self, offset: int, find: Find, depth: int = 0) -> tuple[bytes, bytes]:
        """Return type and content of the object at a place."""
        if offset in self._known:
            return self._known[offset]
        if depth > MOST_DEPTH:
            raise Odd(f"{self.path}: too many deltas upon deltas")
        try:
            found = self._read(offset, find, depth)
        except (IndexError, struct.error, zlib.error) as error:
            raise Odd(f"{self.path}: {error}") from None
        self._kept += len(found[1])
        if self._kept > MOST_BYTES:  # bases of deltas are mostly those read last
            self._known.clear()
            self._kept = len(found[1])
        self._known[offset] = found
        return found

    def _head(self, offset: int) -> tuple[int, int, int]:
        """Return where an object's content starts, its type, and its size."""
        at, byte = offset + 1, self._data[offset]
        kind, size, shift = byte >> 4 & 7, byte & 15, 4
        while byte & 128:
            byte = self._data[at]
            at += 1
            size |= (byte & 127) << shift
            shift += 7
            if shift > 64:
                raise Odd(f"{self.path}: an object without a size")
        return at, kind, size

    def _read(self, offset: int, find: Find, depth: int) -> tuple[bytes, bytes]:
        at, kind, size = self._head(offset)
        if size > MOST_BYTES:
            raise Odd(f"{self.path}: an object of {size} bytes")
        if kind in _KINDS:
            return _KINDS[kind], self._inflate(at, size)
        if kind == _OFFSET_DELTA:
            back, at = _backwards(self._data, at)
            if not 0 < back < offset:
                raise Odd(f"{self.path}: a delta upon nothing")
            base = self.read(offset - back, find, depth + 1)
        elif kind == _NAME_DELTA:
            name = self._data[at : at + self._width]
            at += self._width
            base = find(name)
        else:
            raise Odd(f"{self.path}: an object of type {kind}")
        delta = self._inflate(at, size)
        self._budget.spend(len(delta) * _STEP)
        content = _patched(base[1], delta)
        self._budget.spend(len(content))
        return base[0], content

    def _inflate(self, at: int, size: int) -> bytes:
        """Unpack an object, which must end where git wants it to end."""
        self._budget.spend(size)
        for room in (size + (size >> 8) + 256, 2 * size + 1024):  # it may not have got smaller
            unpack = zlib.decompressobj()
            content = unpack.decompress(self._data[at : at + room], size + 1)
            if unpack.eof:
                break
        if not unpack.eof or len(content) != size:
            raise Odd(f"{self.path}: an object of another size")
        return content


def _backwards(data: mmap.mmap, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    value = byte & 127
    while byte & 128:
        byte = data[at]
        at += 1
        value = ((value + 1) << 7) | (byte & 127)
    return value, at


def _patched(base: bytes, delta: bytes) -> bytes:
    """Apply a delta, as strictly as git does: pieces of the base and new bytes, in turn.

    Source: `patch_delta` in git's patch-delta.c.
    """
    before, at = _size(delta, 0)
    size, at = _size(delta, at)
    if size > MOST_BYTES:
        raise Odd(f"an object of {size} bytes")
    if before != len(base):
        raise Odd("a delta upon something else")
    out = bytearray()
    while at < len(delta):
        code = delta[at]
        at += 1
        start, length, source = at, code, delta
        if code & 128:
            start = length = 0
            for bit in range(7):
                if code >> bit & 1:
                    if bit < 4:
                        start |= delta[at] << 8 * bit
                    else:
                        length |= delta[at] << 8 * (bit - 4)
                    at += 1
            length, source = length or 0x10000, base
        else:
            at += code
        if not length or start + length > len(source) or len(out) + length > size:
            raise Odd("a delta that cannot be read")
        out += source[start : start + length]
    if len(out) != size:
        raise Odd("a delta of another size")
    return bytes(out)


def _size(delta: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = delta[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if not byte & 128:
            return value, at
        if shift > 64:
            raise Odd("a delta of no size")
