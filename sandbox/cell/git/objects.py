# SPDX-License-Identifier: Apache-2.0
"""Git's objects read from files: loose ones, packs (see packs), and what commits and trees say.

Format: git's Documentation/gitrepository-layout.txt. Whatever is odd is told (`Odd`), never
guessed: who cannot read a repository cannot say what it holds.

Runs in the keeper: standard library only, Python 3.9. No git is run, no link is followed.
"""

from __future__ import annotations

import re
import stat
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from .. import fs
from .files import Files
from .packs import HASHES, MOST_BYTES, Budget, Odd, Pack

_MODE = re.compile(rb"[0-7]{1,11}")


class Entry(NamedTuple):
    """An entry of a tree."""

    mode: int
    """As git takes it: whatever permissions an entry names, a folder is a folder."""
    oid: bytes

    @property
    def is_tree(self) -> bool:
        """Whether it is a folder."""
        return self.mode == 0o040000


class Store:
    """One `objects` folder. Close it after use."""

    def __init__(self, files: Files, width: int, budget: Budget | None = None) -> None:
        """Look at files; `width` is the bytes of an object id: 20 or 32."""
        self._files = files
        self.width = width
        self._budget = budget or Budget()
        self._packs: list[Pack] | None = None

    def close(self) -> None:
        """Close what was opened."""
        for pack in self._packs or ():
            pack.close()

    def packs(self) -> list[Pack]:
        """Return the packs that are there."""
        if self._packs is None:
            self._packs = []
            names = self._files.names("pack")
            for name in names:
                if name.endswith(".idx") and not self._is_gone(f"pack/{name}"):
                    path = f"pack/{name[:-4]}"
                    self._packs.append(Pack(self._files, path, self.width, self._budget))
        return self._packs

    def loose(self) -> Iterator[bytes]:
        """Give the ids of loose objects."""
        for head in self._files.names(""):
            if len(head) == 2 and _is_hex(head):
                for tail in self._files.names(head):
                    if len(tail) == 2 * self.width - 2 and _is_hex(tail):
                        oid = bytes.fromhex(head + tail)
                        if not self._is_gone(self._place(oid)):
                            yield oid

    def has(self, oid: bytes) -> bool:
        """Whether an object is there."""
        return self._loose_status(oid) or any(pack.find(oid) for pack in self.packs())

    def begins(self, digits: str) -> bool:
        """Whether the id of an object begins with some hexadecimal digits, at least four."""
        tails = self._files.names(digits[:2])
        if any(tail.startswith(digits[2:]) and _is_hex(tail) for tail in tails):
            return True
        return any(pack.begins(digits) for pack in self.packs())

    def checked(self, oid: bytes) -> bytes:
        """Return the type of a loose object whose content is what its name says. Raises Odd."""
        digest = HASHES[self.width]()
        unpack, head = zlib.decompressobj(), b""
        with open(self._files.open(self._place(oid)), "rb") as file:
            try:
                while raw := file.read(fs.CHUNK):
                    if unpack.eof:
                        raise Odd(f"object {oid.hex()} goes on behind its end")
                    while raw and not unpack.eof:
                        content = unpack.decompress(raw, fs.CHUNK)
                        self._budget.spend(len(content))
                        head = head or content[:16]
                        digest.update(content)
                        raw = unpack.unconsumed_tail
            except zlib.error as error:
                raise Odd(f"object {oid.hex()}: {error}") from None
        if unpack.unused_data:
            raise Odd(f"object {oid.hex()} goes on behind its end")
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

    def kind(self, oid: bytes) -> bytes | None:
        """Return the type of an object, without reading all of it; None where it is not there."""
        if self._loose_status(oid):
            with open(self._files.open(self._place(oid)), "rb") as file:
                try:
                    head = zlib.decompressobj().decompress(file.read(512), 32)
                except zlib.error as error:
                    raise Odd(f"object {oid.hex()}: {error}") from None
            return head.partition(b" ")[0]
        for pack in self.packs():
            offset = pack.find(oid)
            if offset:
                return pack.kind(offset)
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

    def _is_gone(self, path: str) -> bool:
        """Whether a name only says that the one below it was removed (a whiteout of a layer)."""
        status = self._files.status(path)
        return status is None or (stat.S_ISCHR(status.st_mode) and status.st_rdev == 0)

    @staticmethod
    def _place(oid: bytes) -> str:
        name = oid.hex()
        return f"{name[:2]}/{name[2:]}"

    def _loose_status(self, oid: bytes) -> bool:
        status = self._files.status(self._place(oid))
        return status is not None and stat.S_ISREG(status.st_mode)

    def _loose(self, oid: bytes) -> bytes | None:
        """Return what a loose object unpacks to, header first."""
        if not self._loose_status(oid):
            return None
        with open(self._files.open(self._place(oid)), "rb") as file:
            raw = file.read(MOST_BYTES + 1)
        unpack = zlib.decompressobj()
        try:
            content = unpack.decompress(raw, MOST_BYTES + 32)
        except zlib.error as error:
            raise Odd(f"object {oid.hex()}: {error}") from None
        self._budget.spend(len(content))
        if not unpack.eof:
            raise Odd(f"object {oid.hex()}: cut, or too large")
        return content


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
        word, name = content[at:space], content[space + 1 : end]
        if _MODE.fullmatch(word) is None or name in found:
            raise Odd("a tree that cannot be read")
        found[name] = Entry(_canonical(int(word, 8)), content[end + 1 : end + 1 + width])
        at = end + 1 + width
    return found


def _canonical(mode: int) -> int:
    """Return the mode that git takes one for. Source: `canon_mode` in git's object.h."""
    if stat.S_ISREG(mode):
        return 0o100755 if mode & 0o100 else 0o100644
    if stat.S_ISDIR(mode):
        return 0o040000
    return 0o120000 if stat.S_ISLNK(mode) else 0o160000


def _is_hex(text: str) -> bool:
    return all(char in "0123456789abcdef" for char in text)
