# SPDX-License-Identifier: Apache-2.0
"""Packs of git's objects: the index, objects, and deltas upon other objects. Reads only.

Format: git's Documentation/gitformat-pack.txt. Whatever is odd is told (`Odd`), never guessed.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
import zlib
from collections.abc import Callable, Iterator

from . import fs

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
_KINDS = {1: b"commit", 2: b"tree", 3: b"blob", 4: b"tag"}
_OFFSET_DELTA, _NAME_DELTA = 6, 7
_MAGIC = b"\377tOc\0\0\0\2"
Find = Callable[[bytes], "tuple[bytes, bytes]"]
"""Gives type and content of an object that a delta builds upon. Raises Odd where it is missing."""


class Odd(Exception):
    """Something in a repository that cannot be read."""


class Pack:
    """One pack and its index."""

    def __init__(self, folder: int, path: str, width: int) -> None:
        self._width = width
        self._path = path
        self._index = self._map(folder, path + ".idx")
        self._data = self._map(folder, path + ".pack")
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

    def _map(self, folder: int, path: str) -> mmap.mmap:
        try:
            descriptor = fs.open_beneath(folder, path, os.O_RDONLY | os.O_NONBLOCK)
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
            raise Odd(f"{self._path}: too large to be looked through")
        for position in range(self.count):
            name = self.name(position)
            kind, content = self.read(self._offset(position), find)
            whole = b"%s %d\0" % (kind, len(content)) + content
            if HASHES[self._width](whole).digest() != name:
                raise Odd(f"object {name.hex()} is not what its name says")
            yield name, kind

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
            raise Odd(f"{self._path}: too many deltas upon deltas")
        try:
            found = self._read(offset, find, depth)
        except (IndexError, struct.error, zlib.error) as error:
            raise Odd(f"{self._path}: {error}") from None
        self._kept += len(found[1])
        if self._kept > MOST_BYTES:  # bases of deltas are mostly those read last
            self._known.clear()
            self._kept = len(found[1])
        self._known[offset] = found
        return found

    def _read(self, offset: int, find: Find, depth: int) -> tuple[bytes, bytes]:
        at, byte = offset + 1, self._data[offset]
        kind, size, shift = byte >> 4 & 7, byte & 15, 4
        while byte & 128:
            byte = self._data[at]
            at += 1
            size |= (byte & 127) << shift
            shift += 7
        if size > MOST_BYTES:
            raise Odd(f"{self._path}: an object of {size} bytes")
        if kind in _KINDS:
            return _KINDS[kind], self._inflate(at, size)
        if kind == _OFFSET_DELTA:
            back, at = _backwards(self._data, at)
            if not 0 < back < offset:
                raise Odd(f"{self._path}: a delta upon nothing")
            base = self.read(offset - back, find, depth + 1)
        elif kind == _NAME_DELTA:
            name = self._data[at : at + self._width]
            at += self._width
            base = find(name)
        else:
            raise Odd(f"{self._path}: an object of type {kind}")
        return base[0], _patched(base[1], self._inflate(at, size))

    def _inflate(self, at: int, size: int) -> bytes:
        content = zlib.decompressobj().decompress(
            self._data[at : at + size + (size >> 8) + 256], size
        )
        if len(content) < size:  # it did not get smaller
            content = zlib.decompressobj().decompress(self._data[at : at + 2 * size + 1024], size)
        if len(content) != size:
            raise Odd(f"{self._path}: an object of another size")
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
    """Apply a delta: pieces of the base and new bytes, in turn."""
    _, at = _size(delta, 0)
    size, at = _size(delta, at)
    if size > MOST_BYTES:
        raise Odd(f"an object of {size} bytes")
    out = bytearray()
    while at < len(delta):
        code = delta[at]
        at += 1
        if code & 128:
            start = length = 0
            for bit in range(7):
                if code >> bit & 1:
                    if bit < 4:
                        start |= delta[at] << 8 * bit
                    else:
                        length |= delta[at] << 8 * (bit - 4)
                    at += 1
            out += base[start : start + (length or 0x10000)]
        elif code:
            out += delta[at : at + code]
            at += code
        else:
            raise Odd("a delta that cannot be read")
        if len(out) > size:
            break
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
