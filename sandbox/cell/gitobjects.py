# SPDX-License-Identifier: Apache-2.0
"""Git's objects read from files: loose ones, packs (see gitpacks), and what commits and trees say.

Format: git's Documentation/gitrepository-layout.txt. Whatever is odd is told (`Odd`), never
guessed: who cannot read a repository cannot say what it holds.

Runs in the keeper: standard library only, Python 3.9. No git is run, no link is followed.
"""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from . import fs
from .gitpacks import HASHES, MOST_BYTES, Odd, Pack


class Entry(NamedTuple):
    """An entry of a tree."""

    mode: int
    oid: bytes

    @property
    def is_tree(self) -> bool:
        """Whether it is a folder."""
        return self.mode == 0o040000


class Store:
    """One `objects` folder. Close it after use."""

    def __init__(self, folder: int, width: int) -> None:
        """Take over an open folder; `width` is the bytes of an object id: 20 or 32."""
        self._folder = folder
        self.width = width
        self._packs: list[Pack] | None = None

    def close(self) -> None:
        """Close the folder and what was opened in it."""
        for pack in self._packs or ():
            pack.close()
        os.close(self._folder)

    def packs(self) -> list[Pack]:
        """Return the packs that are there."""
        if self._packs is None:
            self._packs = []
            for name in self._names("pack"):
                if name.endswith(".idx") and not self._is_gone(f"pack/{name}"):
                    self._packs.append(Pack(self._folder, f"pack/{name[:-4]}", self.width))
        return self._packs

    def loose(self) -> Iterator[bytes]:
        """Give the ids of loose objects."""
        for head in self._names(""):
            if len(head) == 2 and _is_hex(head):
                for tail in self._names(head):
                    if len(tail) == 2 * self.width - 2 and _is_hex(tail):
                        oid = bytes.fromhex(head + tail)
                        if not self._is_gone(self._place(oid)):
                            yield oid

    def has(self, oid: bytes) -> bool:
        """Whether an object is there."""
        return self._loose_status(oid) or any(pack.find(oid) for pack in self.packs())

    def checked(self, oid: bytes) -> bytes:
        """Return the type of a loose object whose content is what its name says. Raises Odd."""
        digest = HASHES[self.width]()
        unpack, head = zlib.decompressobj(), b""
        flags = os.O_RDONLY | os.O_NONBLOCK
        with open(fs.open_beneath(self._folder, self._place(oid), flags), "rb") as file:
            try:
                while raw := file.read(fs.CHUNK) if not unpack.eof else b"":
                    while raw:
                        content = unpack.decompress(raw, fs.CHUNK)
                        head = head or content[:16]
                        digest.update(content)
                        raw = unpack.unconsumed_tail
            except zlib.error as error:
                raise Odd(f"object {oid.hex()}: {error}") from None
        if digest.digest() != oid or not unpack.eof:
            raise Odd(f"object {oid.hex()} is not what its name says")
        return head.partition(b" ")[0]

    def read(self, oid: bytes, others: tuple[Store, ...] = ()) -> tuple[bytes, bytes] | None:
        """Return type and content; None where it is not there. `others` may hold delta bases."""
        found = self._loose(oid)
        if found is not None:
            head, _, content = found.partition(b"\0")
            return head.partition(b" ")[0], content
        for pack in self.packs():
            offset = pack.find(oid)
            if offset:
                return pack.read(offset, self.finder(others))
        return None

    def finder(self, others: tuple[Store, ...]) -> Callable[[bytes], tuple[bytes, bytes]]:
        """Return how a pack of this store finds what its deltas build upon."""

        def find(oid: bytes) -> tuple[bytes, bytes]:
            for store in (self, *others):
                rest = tuple(one for one in (self, *others) if one is not store)
                found = store.read(oid, rest)
                if found is not None:
                    return found
            raise Odd(f"object {oid.hex()} is missing")

        return find

    def _names(self, folder: str) -> list[str]:
        try:
            descriptor = fs.open_beneath(self._folder, folder)
        except OSError as error:
            if error.errno in fs.ABSENT:
                return []
            raise
        try:
            return sorted(os.listdir(descriptor))
        finally:
            os.close(descriptor)

    def _is_gone(self, path: str) -> bool:
        """Whether a name only says that the one below it was removed (a whiteout of a layer)."""
        status = fs.lstat(self._folder, path)
        return status is None or (stat.S_ISCHR(status.st_mode) and status.st_rdev == 0)

    @staticmethod
    def _place(oid: bytes) -> str:
        name = oid.hex()
        return f"{name[:2]}/{name[2:]}"

    def _loose_status(self, oid: bytes) -> bool:
        status = fs.lstat(self._folder, self._place(oid))
        return status is not None and stat.S_ISREG(status.st_mode)

    def _loose(self, oid: bytes) -> bytes | None:
        """Return what a loose object unpacks to, header first."""
        if not self._loose_status(oid):
            return None
        flags = os.O_RDONLY | os.O_NONBLOCK
        with open(fs.open_beneath(self._folder, self._place(oid), flags), "rb") as file:
            raw = file.read(MOST_BYTES + 1)
        try:
            return zlib.decompressobj().decompress(raw, MOST_BYTES + 32)
        except zlib.error as error:
            raise Odd(f"object {oid.hex()}: {error}") from None


# What objects say


def commit(content: bytes) -> tuple[bytes, list[bytes]]:
    """Return the tree and the parents that a commit names."""
    tree, parents = b"", []
    try:
        for line in content.split(b"\n"):
            word, _, value = line.partition(b" ")
            if word == b"tree" and not tree:
                tree = bytes.fromhex(value.decode("ascii"))
            elif word == b"parent":
                parents.append(bytes.fromhex(value.decode("ascii")))
            else:
                break
    except ValueError:
        raise Odd("a commit that cannot be read") from None
    if not tree:
        raise Odd("a commit without a tree")
    return tree, parents


def tree(content: bytes, width: int) -> dict[bytes, Entry]:
    """Return what a tree holds, by name."""
    found = {}
    at = 0
    while at < len(content):
        space = content.find(b" ", at)
        end = content.find(b"\0", space)
        if space < 0 or end < 0 or end + 1 + width > len(content):
            raise Odd("a tree that cannot be read")
        try:
            mode = int(content[at:space], 8)
        except ValueError:
            raise Odd("a tree that cannot be read") from None
        found[content[space + 1 : end]] = Entry(mode, content[end + 1 : end + 1 + width])
        at = end + 1 + width
    return found


def _is_hex(text: str) -> bool:
    return all(char in "0123456789abcdef" for char in text)
