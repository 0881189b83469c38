# SPDX-License-Identifier: Apache-2.0
"""Commits that a call made: which protected files do they hold with another content?

What gate 2 judges are files. A commit can hold another content of one than the work tree has
(built past the index, or with a changed index), and shows it when somebody checks it out. So every
commit that is new in the layer is compared with its parents. A protected path counts where the
commit's object is neither that of a parent nor what stands in the real work tree: that is what a
person made of it. Objects are looked at when they come, not when a name is given to them.

Runs in the keeper: standard library only, Python 3.9. Reads only; no git is run.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from .. import fs
from .entries import Contents, Entries
from .files import OnDisk, is_repository, width_of, within
from .objects import Entry, Store, commit, tree
from .packs import HASHES, Budget, Odd
from .work_trees import prefixes

MOST_COMMITS = 2_000
"""New commits that are looked at in one call."""
MOST_TREES = 50_000
"""Trees that are read for it."""
MOST_OTHERS = 20_000
"""Paths that are not named and are told of."""
MOST_HASHED = 64 << 20
"""Bytes of a protected file; a larger one counts as another content."""

_UNREADABLE = (Odd, OSError, struct.error, zlib.error, ValueError, IndexError, RecursionError)
"""What hostile objects can lead to."""

Names = Callable[[str], bool]
"""Whether a path of the workspace is one that somebody looks at."""


def note_commits(
    changes: Iterable[dict[str, Any]],
    root: str,
    upper: str,
    named: Names,
    contents: Contents | None = None,
) -> None:
    """Mark, per repository, one of the changes that brought objects: `commits`, what they hold.

    Each is a path of the workspace that a new commit holds otherwise. Where that cannot be found
    out, `commits_odd` says why. `commits_others` are paths that are not `named`, since what git on
    the host is configured to obey is not known here; `commits_cut` says that there are more.
    `commits_entries` are links, submodules, and the files that `contents` wants, with their texts.
    """
    changes = list(changes)
    for change in changes:
        if _replaces(change, root, upper):
            change["commits_odd"] = "`refs/replace` makes git take other objects for those named"
    for folder, change in _arrivals(changes).items():
        look = _Look(folder, root, upper, named, contents or Contents())
        try:
            found = sorted(look.paths())
        except _UNREADABLE as error:
            change["commits_odd"] = str(error) or type(error).__name__
        else:
            if found:
                change["commits"] = found
            note_others(change, look.others)
            note_told(change, look.entries)


def note_others(change: dict[str, Any], others: Collection[str]) -> None:
    """Note the paths that are not named and that a commit, or an index, holds otherwise."""
    if others:
        change["commits_others"] = sorted(others)[:MOST_OTHERS]
    if len(others) > MOST_OTHERS:
        change["commits_cut"] = True


def note_told(change: dict[str, Any], entries: Entries) -> None:
    """Note what gate 2 judges of a commit, or an index, as it judges files."""
    if told := entries.listed():
        change["commits_entries"] = told


def _arrivals(changes: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the objects folders that got something, each with the first change that says so."""
    found: dict[str, Any] = {}
    for change in changes:
        folder, tail = _split(change["path"], change.get("git_folders", ()))
        if not folder or change["kind"] == "deleted" or change["type"] != "file":
            continue
        if change["kind"] != "renamed":
            found.setdefault(folder, change)
        elif (
            change.get("modified")
            or tail != (_split(change["source"], change.get("git_sources", ()))[1])
        ):
            change["commits_odd"] = "git moves no file in among its objects"
    return found


def _split(path: str, folders: Sequence[str]) -> tuple[str, str]:
    """Return a repository's objects folder and the rest of a path in it; empty outside of one.

    `folders` are the git folders that it is known to lie in, whatever their names.
    """
    parts = path.split("/")
    known = ["/".join(parts[: parts.index(".git") + 1])] if ".git" in parts else []
    for git in (*reversed(folders), *known):
        start = "" if git == "." else git + "/"
        rest = path[len(start) :].split("/")
        if "objects" in rest[:-1]:
            place = len(rest) - rest[::-1].index("objects")  # the last: a submodule may be so named
            return start + "/".join(rest[:place]), "/".join(rest[place:])
    return "", ""


def _replaces(change: Mapping[str, Any], root: str, upper: str) -> bool:
    """Whether a list of packed references replaces objects and did not before."""
    if not f"/{change['path']}".endswith("/packed-refs") or change["kind"] == "deleted":
        return False
    new, old = (_content(top, change["path"]) for top in (upper, root))
    return b" refs/replace/" in new and b" refs/replace/" not in old


def _content(top: str, path: str) -> bytes:
    directory = fs.open_directory(top)
    try:
        descriptor = fs.open_beneath(directory, path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return b""
    finally:
        os.close(directory)
    with open(descriptor, "rb") as file:
        return file.read()


class _Look:
    """Looks through what one repository's objects folder got."""

    def __init__(
        self, folder: str, root: str, upper: str, named: Names, contents: Contents
    ) -> None:
        self._folder = folder
        self._root = root
        self._upper = upper
        self._named = named
        self.others: set[str] = set()
        """Paths that are not named, and that a new commit holds with a content of its own."""
        self.entries = Entries(contents, lambda entry: self._read(entry.oid, b"blob"))
        self._trees = 0
        self._cache: dict[bytes, dict[bytes, Entry]] = {}

    def paths(self) -> set[str]:
        """Return the named paths that a new commit holds with a content of its own."""
        with contextlib.ExitStack() as stack:
            top = fs.open_directory(self._root)
            stack.callback(os.close, top)
            self._top = top
            layer = fs.open_directory(self._upper)
            stack.callback(os.close, layer)
            budget = Budget()
            git = self._folder.rpartition("/")[0] or "."
            self._prefixes = prefixes(git, OnDisk(top))
            width = width_of((OnDisk(layer), OnDisk(top)), self._folder.rpartition("/")[0])
            self._width = width
            self._new = Store(OnDisk(layer, self._folder), width, budget)
            stack.callback(self._new.close)
            self._old = Store(OnDisk(top, self._folder), width, budget)
            stack.callback(self._old.close)
            around = [*self._around(git, OnDisk(top), budget)]
            for store in around:
                stack.callback(store.close)
            found: set[str] = set()
            count = 0
            for oid in self._commits():
                if any(store.has(oid) for store in around):
                    continue
                count += 1
                if count > MOST_COMMITS:
                    raise Odd(f"more than {MOST_COMMITS} new commits")
                found |= set(self._of_commit(oid))
            return found

    def _around(self, git: str, files: OnDisk, budget: Budget) -> Iterator[Store]:
        """Give the objects of the real repositories that a folder lies in the work trees of.

        What a clone of one, or a push from it, brings is not new: it was looked at there.
        """
        parts = git.split("/")
        for count in range(len(parts)):
            one = "/".join([*parts[:count], ".git"])
            if one != git and is_repository(files, one) and width_of((files,), one) == self._width:
                yield Store(within(files, f"{one}/objects"), self._width, budget)

    def _commits(self) -> Iterator[bytes]:
        """Give the new commits; all that is new must be what its name says.

        Or an object of that name could stand in for one that the real repository has.
        """
        for oid, kind in self._arrived():
            if kind == b"commit" and not self._old.has(oid):
                yield oid

    def _arrived(self) -> Iterator[tuple[bytes, bytes]]:
        for oid in self._new.loose():
            yield oid, self._new.checked(oid)
        for pack in self._new.packs():
            yield from pack.kinds(self._new.finder((self._old,)))

    def _read(self, oid: bytes, kind: bytes) -> bytes:
        for store, other in ((self._new, self._old), (self._old, self._new)):
            found = store.read(oid, (other,))
            if found is not None:
                if found[0] != kind:
                    raise Odd(f"object {oid.hex()} is no {kind.decode()}")
                return found[1]
        raise Odd(f"object {oid.hex()} is missing")

    def _tree(self, oid: bytes | None) -> dict[bytes, Entry]:
        if oid is None:
            return {}
        if oid not in self._cache:
            self._trees += 1
            if self._trees > MOST_TREES:
                raise Odd(f"more than {MOST_TREES} folders differ")
            self._cache[oid] = tree(self._read(oid, b"tree"), self._new.width)
        return self._cache[oid]

    def _of_commit(self, oid: bytes) -> Iterator[str]:
        top, parents = commit(self._read(oid, b"commit"))
        before = [commit(self._read(parent, b"commit"))[0] for parent in parents]
        yield from self._differing(b"", Entry(0o040000, top), [Entry(0o040000, t) for t in before])

    def _differing(
        self, path: bytes, mine: Entry | None, theirs: list[Entry | None]
    ) -> Iterator[str]:
        """Give the named paths below `path` that are as in none of `theirs`, nor in the files."""
        if mine in theirs:
            return
        if not (mine is not None and mine.is_tree) and not any(t and t.is_tree for t in theirs):
            yield from self._counting(os.fsdecode(path), mine, theirs)
            return
        own = self._tree(mine.oid if mine is not None and mine.is_tree else None)
        others = [self._tree(t.oid if t is not None and t.is_tree else None) for t in theirs]
        prefix = path + b"/" if path else b""
        for name_ in sorted(set(own).union(*others)):
            yield from self._differing(
                prefix + name_, own.get(name_), [other.get(name_) for other in others]
            )

    def _counting(self, path: str, mine: Entry | None, theirs: list[Entry | None]) -> Iterator[str]:
        names = [prefix + path for prefix in self._prefixes]
        counts = [name for name in names if self._named(name)]
        stand = (self._stands(name, mine) for name in names)
        if all(stand) if mine is None else any(stand):
            return
        if counts:
            yield counts[0]
            return
        self.entries.note(names, mine, theirs)
        if len(self.others) <= MOST_OTHERS:
            self.others.update(names)

    def _stands(self, path: str, entry: Entry | None) -> bool:
        """Whether the real file is what a commit holds: absent, or of this content."""
        status = fs.lstat(self._top, path)
        if entry is None or status is None:
            return entry is None and status is None
        if stat.S_ISLNK(status.st_mode):
            content = os.fsencode(fs.readlink(self._top, path))
        elif stat.S_ISREG(status.st_mode) and status.st_size <= MOST_HASHED:
            flags = os.O_RDONLY | os.O_NONBLOCK
            with open(fs.open_beneath(self._top, path, flags), "rb") as file:
                content = file.read()
        else:
            return False
        if stat.S_ISLNK(status.st_mode) != (entry.mode == 0o120000):
            return False
        digest = HASHES[self._new.width](b"blob %d\0" % len(content) + content).digest()
        return bool(digest == entry.oid)
