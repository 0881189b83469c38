# SPDX-License-Identifier: Apache-2.0
"""Does an index list another content of a file that somebody looks at, than HEAD and the file?

A person's next commit takes what the index lists, and `git checkout -- .` puts it into the work
tree. So entries that a call changed are judged as a commit's are: such a path may be listed as it
was before, as HEAD has it (whose commit is looked at when it comes), or as the file is.

Runs in the keeper: standard library only, Python 3.9. Changes nothing but the list of changes.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .. import fs
from ..git.commits import MOST_OTHERS, note_others
from ..git.entries import Contents, Entries
from ..git.files import Coming, Files, OnDisk, within
from ..git.index_format import Entry
from ..git.objects import Entry as TreeEntry
from ..git.packs import HASHES, Odd
from ..git.work_trees import linked_prefix, prefixes
from .sides import Side, Sides, staged
from .trees import Trees, blob_at

_UNREADABLE = (Odd, OSError, struct.error, zlib.error, ValueError, IndexError, RecursionError)
_TREE, _LINK = 0o040000, 0o120000

Names = Callable[[str], bool]
"""Whether a path of the workspace is one that somebody looks at."""


def note_entries(
    changes: Iterable[dict[str, Any]],
    root: str,
    upper: str,
    named: Names,
    contents: Contents | None = None,
) -> None:
    """Mark each change of an index with the paths that it lists otherwise: `commits`.

    Goes by what `note_folders` said. Where that cannot be found out, `commits_odd` says why.
    Paths that are not named, links and texts are told of as by `note_commits`.
    """
    changes = list(changes)
    wanted = [one for one in changes if _is_index(one)]
    if not wanted:
        return
    with contextlib.ExitStack() as stack:
        top, layer = fs.open_directory(root), fs.open_directory(upper)
        stack.callback(os.close, top)
        stack.callback(os.close, layer)
        coming = Coming(top, changes, lambda path: (layer, path))
        for change in wanted:
            names = _Names(named, contents or Contents())
            try:
                found = sorted(set(_found(change, OnDisk(top), coming, names)))
            except _UNREADABLE as error:
                change["commits_odd"] = str(error) or type(error).__name__
            else:
                if found:
                    change["commits"] = found
                note_others(change, names.others)
                if names.told:
                    change["commits_entries"] = names.told


class _Names:
    """What is asked of paths, and what is told of those that are not named."""

    def __init__(self, named: Names, contents: Contents) -> None:
        self.named = named
        self.contents = contents
        self.others: set[str] = set()
        self.told: list[dict[str, Any]] = []


def _is_index(change: dict[str, Any]) -> bool:
    folders = change.get("git_folders")
    if not folders or change["type"] != "file" or change["kind"] in ("deleted", "meta"):
        return False
    return bool(change["path"] == ("index" if folders[-1] == "." else f"{folders[-1]}/index"))


def _found(
    change: dict[str, Any], now_there: Files, coming: Coming, names: _Names
) -> Iterator[str]:
    """Give the named paths that an index lists otherwise; `names` gets what is told of others."""
    git = change["git_folders"][-1]
    parts = git.split("/")
    linked = len(parts) > 1 and parts[-2] == "worktrees"
    common = "/".join(parts[:-2]) or "." if linked else git
    here = f"worktrees/{parts[-1]}/" if linked else ""
    starts = prefixes(common, now_there)
    if linked and (own := linked_prefix(git, coming)) is not None:
        starts = [own]
    folder = "" if common == "." else common
    sides = Sides(within(now_there, folder), within(coming, folder), 0.0)
    try:
        before = staged(sides.old.files, f"{here}index") or []
        after = staged(sides.new.files, f"{here}index")
        if after is None:
            return  # held as an index that nobody can read
        look = _Look(sides.new, f"{here}HEAD", starts, coming, names)
        known = {(one.path, one.stage, one.mode, one.oid) for one in before}
        for entry in after:
            if (entry.path, entry.stage, entry.mode, entry.oid) not in known:
                yield from look.of_entry(entry)
        for path in {one.path for one in before} - {one.path for one in after}:
            yield from look.of_path(path, None)
        names.told = look.entries.listed()
    finally:
        sides.close()


class _Look:
    """Compares entries with HEAD, and with the files as they will be."""

    def __init__(
        self,
        side: Side,
        head: str,
        starts: list[str],
        files: Coming,
        asked: _Names,
    ) -> None:
        self._side = side
        self._head = head
        self._starts = starts
        self._files = files
        self._named = asked.named
        self._others = asked.others
        self._trees = Trees(side.objects)
        self.entries = Entries(asked.contents, self._text)
        self._tops: list[bytes] | None = None

    def of_entry(self, entry: Entry) -> Iterator[str]:
        """Give the paths that an entry lists otherwise; it may stand for a whole folder."""
        if entry.mode != _TREE:
            yield from self.of_path(entry.path, entry)
            return
        path = entry.path.rstrip(b"/")
        stands = [one for top in self._committed() for one in [self._trees.at(top, path)] if one]
        below = stands[0].oid if stands and stands[0].is_tree else None
        for inner, _, one in self._trees.differing(below, entry.oid):
            yield from self.of_path(path + b"/" + inner, one)

    def of_path(self, path: bytes, entry: Any) -> Iterator[str]:
        """Give the name of a path that somebody looks at and that is listed, or left out, so."""
        names = [start + os.fsdecode(path) for start in self._starts]
        counts = [name for name in names if self._named(name)]
        before = [self._trees.at(top, path) for top in self._committed()]
        for held in before:
            if (held and (held.mode, held.oid)) == (entry and (entry.mode, entry.oid)):
                return
        if entry is None:
            stand = all(self._files.status(name) is None for name in names)
        else:
            stand = any(self._stands(name, entry) for name in names)
        if stand:
            return
        if counts:
            yield counts[0]
            return
        mine = None if entry is None else TreeEntry(entry.mode, entry.oid)
        self.entries.note(names, mine, before)
        if len(self._others) <= MOST_OTHERS:
            self._others.update(names)

    def _text(self, entry: TreeEntry) -> bytes:
        """Return the content of a file; `git add -N` lists an empty one that is not there."""
        if entry.oid == HASHES[len(entry.oid)](b"blob 0\0").digest():
            return b""
        return self._trees.text(entry)

    def _stands(self, name: str, entry: Any) -> bool:
        """Whether the file, or the link, that will be there is the one that is listed."""
        if entry.mode != _LINK:
            return bool(blob_at(self._files, os.fsencode(name), len(entry.oid))[0] == entry.oid)
        target = self._files.link(name)
        if target is None:
            return False
        digest = HASHES[len(entry.oid)](b"blob %d\0" % len(target) + target).digest()
        return bool(digest == entry.oid)

    def _committed(self) -> list[bytes]:
        """Return the tree of HEAD; none where it leads nowhere."""
        if self._tops is None:
            oid = self._side.refs.resolve(self._head)
            there = bool(oid) and self._side.objects.kind(oid) == b"commit"
            self._tops = [self._trees.of_commit(oid)[0]] if there else []
        return self._tops
