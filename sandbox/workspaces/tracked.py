# SPDX-License-Identifier: Apache-2.0
"""What one repository of a workspace tracks: in its index, at HEAD, or at the tip of a branch.

Reads files only, with the keeper's own readers: git itself is not run, since a repository's
settings could make it run programs. INVARIANT: whatever cannot be read tracks everything, and
reading ends at fixed numbers of references, objects and bytes (then everything is tracked).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from sandbox.cell import fs
from sandbox.cell.git import objects as gitobjects
from sandbox.cell.git.files import OnDisk
from sandbox.cell.git.packs import Odd
from sandbox.host import files as own_files
from sandbox.workspaces.git_places import above, is_repository
from sandbox.workspaces.ignore_ledger import EVERYTHING, MOST_INDEX, Ledger, names_in

MOST_REFS = 20_000
MOST_TIPS = 3000
MOST_READ = 64 << 20
"""Bytes of commits and trees."""
MOST_PACKED_REFS = 16 << 20
_SMALL = 4096
_REF = "ref: "
_WIDTHS = {40: 20, 64: 32}
"""Digits of an object's id -> its bytes."""


class Unreadable(Exception):
    """Nobody can say what a repository tracks."""


class Repository:
    """A repository whose work tree is a folder of the workspace, or above. Close it after use."""

    def __init__(self, work_tree: Path, ledger: Ledger | None, git_dir: Path | None = None) -> None:
        """`work_tree` holds `.git`: a folder, or a file that names one; or `git_dir` is apart.

        What it tracked before agents' calls, by the `ledger`, counts as tracked.
        """
        self._store: gitobjects.Store | None = None
        self._objects = -1
        """The open folder of the store's objects, while there is a store."""
        self._trees: dict[bytes, dict[bytes, gitobjects.Entry]] = {}
        self._folders: dict[bytes, frozenset[bytes]] = {}
        self._read = 0
        try:
            self.git_dir = self.common_dir = git_dir or _git_dir(work_tree)
            if common := _text(self.git_dir / "commondir").strip():
                self.common_dir = Path(os.path.normpath(self.git_dir / common))
            before = ledger.names(str(self.git_dir)) if ledger else frozenset()
            self._names = before | self._index()
        except (Unreadable, OSError, ValueError):
            self.git_dir = self.common_dir = work_tree / ".git"
            self._names = frozenset((EVERYTHING,))
        self._sparse = frozenset(name for name in self._names if name.endswith(b"/"))

    def close(self) -> None:
        """Close what was opened."""
        if self._store is not None:
            self._store.close()
            self._store = None
            os.close(self._objects)

    def tracks(self, path: bytes) -> bool:
        """Whether it tracks a path of its work tree, as far as can be said."""
        if EVERYTHING in self._names or path.partition(b"\n")[0] in self._names:
            return True
        above, _, name = path.rpartition(b"/")
        if self._sparse and any(path.startswith(one) for one in self._sparse):
            return True
        try:
            return any(name in self._tree(one) for one in self._trees_at(above))
        except (Unreadable, Odd, OSError, ValueError, RecursionError, MemoryError):
            self._names = frozenset((EVERYTHING,))
            return True

    # -- the index

    def _index(self) -> frozenset[bytes]:
        try:
            with own_files.opened(self.git_dir / "index") as file:
                content = file.read(MOST_INDEX + 1)
        except FileNotFoundError:
            return frozenset()
        except OSError:
            return frozenset((EVERYTHING,))
        return names_in(content if len(content) <= MOST_INDEX else b"") or frozenset()

    # -- commits

    def _trees_at(self, folder: bytes) -> frozenset[bytes]:
        """Return the trees that a folder is at the tips."""
        if b"" not in self._folders:
            self._folders[b""] = frozenset(self._roots())
        way: list[bytes] = []
        at = folder
        while at not in self._folders:
            way.append(at)
            at = at.rpartition(b"/")[0]
        for one in reversed(way):
            above, _, name = one.rpartition(b"/")
            found = (self._tree(tree).get(name) for tree in self._folders[above])
            self._folders[one] = frozenset(e.oid for e in found if e is not None and e.is_tree)
        return self._folders[folder]

    def _roots(self) -> Iterator[bytes]:
        """Give the trees of HEAD and of the branches."""
        tips = self._tips()
        if len(tips) > MOST_TIPS:
            raise Unreadable
        for tip in tips:
            kind, content = self._object(tip)
            if kind == b"commit":
                yield gitobjects.commit(content)[0]

    def _tree(self, oid: bytes) -> dict[bytes, gitobjects.Entry]:
        found = self._trees.get(oid)
        if found is None:
            kind, content = self._object(oid)
            if kind != b"tree":
                raise Unreadable
            found = self._trees[oid] = gitobjects.tree(content, len(oid))
        return found

    def _object(self, oid: bytes) -> tuple[bytes, bytes]:
        if self._store is None:
            self._objects = fs.open_directory(str(self.common_dir / "objects"))
            self._store = gitobjects.Store(OnDisk(self._objects), len(oid))
        found = self._store.read(oid) if len(oid) == self._store.width else None
        self._read += len(found[1]) + _SMALL if found else 0
        if found is None or self._read > MOST_READ:
            raise Unreadable
        return found

    # -- references

    def _tips(self) -> set[bytes]:
        """Return the commits that HEAD and the branches name."""
        if (self.common_dir / "reftable").exists():
            raise Unreadable
        refs = dict(self._packed())
        refs.update(self._loose())
        head = _text(self.git_dir / "HEAD").strip()
        named = [value for name, value in refs.items() if not name.startswith("refs/tags/")]
        if not head.startswith(_REF):
            named.append(head)
        found = set()
        for value in named:
            if value.startswith(_REF):
                continue  # it names another reference, which is looked at itself
            if len(value) not in _WIDTHS:
                raise Unreadable
            found.add(bytes.fromhex(value))
        return found

    def _packed(self) -> Iterator[tuple[str, str]]:
        text = _text(self.common_dir / "packed-refs", MOST_PACKED_REFS)
        for count, line in enumerate(text.split("\n")):
            if count > MOST_REFS:
                raise Unreadable
            value, _, name = line.partition(" ")
            if name.startswith("refs/") and not line.startswith("#"):
                yield name, value

    def _loose(self) -> Iterator[tuple[str, str]]:
        count = 0
        for base in dict.fromkeys((self.common_dir, self.git_dir)):
            waiting = [base / "refs"]
            while waiting:
                folder = waiting.pop()
                try:
                    with os.scandir(folder) as entries:
                        for entry in entries:
                            count += 1
                            if count > MOST_REFS:
                                raise Unreadable
                            if entry.is_dir(follow_symlinks=False):
                                waiting.append(Path(entry.path))
                            elif not entry.name.endswith(".lock"):
                                name = os.path.relpath(entry.path, base)
                                yield name, _text(Path(entry.path)).strip()
                except FileNotFoundError:
                    continue


def tracked(workspace: str, paths: Iterable[str]) -> list[str]:
    """Return those of a workspace's paths that a repository tracks now, there or above."""
    found = []
    known: dict[str, Repository] = {}
    outer = [one for one in above(workspace) if is_repository(one)]
    try:
        for path in paths:
            full = f"{workspace}/{path}"
            inner = (
                str(parent) for parent in Path(full).parents if parent.is_relative_to(workspace)
            )
            for folder in (*(one for one in inner if os.path.lexists(f"{one}/.git")), *outer):
                if folder not in known:
                    known[folder] = Repository(Path(folder), None)
                below = os.path.relpath(full, folder)
                if not below.startswith("../") and known[folder].tracks(os.fsencode(below)):
                    found.append(path)
                    break
    finally:
        for repository in known.values():
            repository.close()
    return found


def _git_dir(work_tree: Path) -> Path:
    own = work_tree / ".git"
    if own.is_dir():
        return own
    told = _text(own)
    if not told.startswith("gitdir:"):
        return own  # what is below it cannot be read
    return Path(os.path.normpath(work_tree / told.removeprefix("gitdir:").strip()))


def _text(path: Path, most: int = _SMALL) -> str:
    """Return a small file's text; empty where there is none. Raises Unreadable for a longer one."""
    try:
        with own_files.opened(path) as file:
            content = file.read(most + 1)
    except FileNotFoundError:
        return ""
    if len(content) > most:
        raise Unreadable
    return content.decode("utf-8", "surrogateescape")
