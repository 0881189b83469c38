# SPDX-License-Identifier: Apache-2.0
"""Folders as commits hold them, compared with each other and with files. Reads only.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from ..git.files import Files, content
from ..git.objects import Entry, Store, commit, tree
from ..git.packs import HASHES, Odd

MOST_TREES = 50_000
"""Folders that are read in one look."""
MOST_BYTES = 32 << 20
"""Of a file that is compared; a longer one counts as another."""
_TREE, _LINK, _GITLINK = 0o040000, 0o120000, 0o160000


class Trees:
    """Reads folders of one store, each once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[bytes, dict[bytes, Entry]] = {}

    def of_commit(self, oid: bytes) -> tuple[bytes, list[bytes]]:
        """Return the tree and the parents of a commit. Raises Odd."""
        found = self._store.read(oid)
        if found is None or found[0] != b"commit":
            raise Odd(f"commit {oid.hex()} is missing")
        return commit(found[1])

    def read(self, oid: bytes | None) -> dict[bytes, Entry]:
        """Return what a folder holds; nothing for None. Raises Odd."""
        if oid is None:
            return {}
        if oid not in self._known:
            if len(self._known) >= MOST_TREES:
                raise Odd(f"more than {MOST_TREES} folders to look through")
            found = self._store.read(oid)
            if found is None or found[0] != b"tree":
                raise Odd(f"tree {oid.hex()} is missing")
            self._known[oid] = tree(found[1], self._store.width)
        return self._known[oid]

    def at(self, top: bytes, path: bytes) -> Entry | None:
        """Return what stands at a path of a tree; None where nothing does. Raises Odd."""
        entry: Entry | None = Entry(_TREE, top)
        for part in path.split(b"/"):
            if entry is None or not entry.is_tree:
                return None
            entry = self.read(entry.oid).get(part)
        return entry

    def differing(
        self, old: bytes | None, new: bytes
    ) -> Iterator[tuple[bytes, Entry | None, Entry]]:
        """Give path, entry before and entry of each file of `new` that `old` has otherwise."""
        waiting: list[tuple[bytes, bytes | None, bytes]] = [(b"", old, new)]
        while waiting:
            prefix, before, after = waiting.pop()
            if before == after:
                continue
            theirs = self.read(before)
            for name, entry in self.read(after).items():
                other = theirs.get(name)
                if entry == other or entry.mode == _GITLINK:
                    continue
                if entry.is_tree:
                    below = other.oid if other is not None and other.is_tree else None
                    waiting.append((prefix + name + b"/", below, entry.oid))
                else:
                    yield prefix + name, other, entry

    def text(self, entry: Entry | None) -> bytes:
        """Return the content of a file; nothing for None. Raises Odd."""
        if entry is None or entry.is_tree:
            return b""
        found = self._store.read(entry.oid)
        if found is None:
            raise Odd(f"object {entry.oid.hex()} is missing")
        return found[1]


def blob_at(files: Files, path: bytes, width: int) -> tuple[bytes, bytes | None]:
    """Return the object id that a file would have, and its content; nothing where there is none."""
    name = os.fsdecode(path)
    status = files.status(name)
    if status is not None and stat.S_ISLNK(status.st_mode):
        return b"", None
    text = content(files, name, MOST_BYTES)
    if text is None:
        return b"", None
    return HASHES[width](b"blob %d\0" % len(text) + text).digest(), text
