# SPDX-License-Identifier: Apache-2.0
"""A merge that is noted as begun, and takes nothing over.

With `MERGE_HEAD` the next commit becomes a merge, whoever makes it: all that the other side did
counts as merged from then on, and what is not staged of it is given up for good, without a line in
any diff. `git merge` stages what it takes, and until the commit that stays staged. So what the
other side alone changed since both parted must be staged, in its own or a later form: a file that
it changed no longer as it was before, one that it added somewhere, one that it deleted no more.
What both sides changed may be anything.

`git merge -s ours --no-commit` is looked at by a person for that: it gives up all of a side.

Source: git's Documentation/git-merge.txt, "HOW MERGE WORKS" and the strategies.

Runs in the keeper: standard library only, Python 3.9. Reads only.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator

from ..git.index_format import Entry as Staged
from ..git.objects import Entry
from ..git.packs import Odd
from .reach import history, meant, merge_bases
from .sides import Side, staged, tree_of
from .trees import Trees
from .underway import named_objects

_GITLINK, _TREE = 0o160000, 0o040000


def taken_for_merged(old: Side, new: Side, paths: Collection[str]) -> Iterator[tuple[str, str]]:
    """Give each merge that comes and has less staged than a merge would, and each one under way of
    which something is staged no more. Raises Odd."""
    touched = {tree_of(path)[0] for path in paths if tree_of(path)[1] in ("MERGE_HEAD", "index")}
    for folder in sorted(touched):
        path = folder + "MERGE_HEAD"
        known = named_objects(old.files, path)
        for oid in named_objects(new.files, path):
            left = _left_out(new, folder, oid)
            if left is None and oid not in known:
                yield path, "what it names is merged already"
                continue
            before = set(_left_out(old, folder, oid) or ()) if oid in known else set()
            lost = next((one for one in left or () if one not in before), None)
            if lost is not None:
                shown = os.fsdecode(lost)
                at = path if path in paths else folder + "index"
                yield at, f"a merge stages what it takes of `{shown}`, and that is not staged"


def _left_out(side: Side, folder: str, oid: bytes) -> Iterator[bytes] | None:
    """Give the paths of which a merge with a commit would have staged more; None where that commit
    is merged already. Raises Odd."""
    ours = side.refs.resolve(folder + "HEAD")
    theirs = meant(side.objects, oid)
    if not ours or history(side.objects, [ours], {theirs}):
        return None
    index = _Index(side, folder + "index")
    return _untaken(index, ours, theirs, merge_bases(side.objects, ours, theirs))


class _Index:
    """What is staged, also below folders that a sparse index lists as one entry."""

    def __init__(self, side: Side, path: str) -> None:
        entries = staged(side.files, path)
        if entries is None:
            raise Odd(f"`{path}` cannot be read")
        self.trees = Trees(side.objects)
        self.unmerged = {entry.path for entry in entries if entry.stage}
        self.oids = {entry.oid for entry in entries}
        self._merged: dict[bytes, Staged] = {
            entry.path: entry for entry in entries if not entry.stage
        }
        self._folders = {path: one.oid for path, one in self._merged.items() if one.mode == _TREE}

    def at(self, path: bytes) -> Entry | None:
        """Return what is staged of a path; None for nothing."""
        entry = self._merged.get(path)
        if entry is not None:
            return Entry(entry.mode, entry.oid)
        if self._folders:
            at = path.find(b"/")
            while at >= 0:
                top = self._folders.get(path[: at + 1])
                if top is not None:
                    return self.trees.at(top, path[at + 1 :])
                at = path.find(b"/", at + 1)
        return None


def _untaken(index: _Index, ours: bytes, theirs: bytes, bases: Iterable[bytes]) -> Iterator[bytes]:
    """Give the paths that the other side alone changed and that are staged as if it had not."""
    trees = index.trees
    mine, other = (trees.of_commit(one)[0] for one in (ours, theirs))
    tops = [trees.of_commit(base)[0] for base in bases]
    first = tops[0] if tops else None

    def is_theirs_alone(path: bytes, before: Entry | None) -> bool:
        return (
            path not in index.unmerged
            and trees.at(mine, path) == before
            and all(trees.at(top, path) == before for top in tops[1:])
        )

    for path, before, after in trees.differing(first, other):
        if not is_theirs_alone(path, before):
            continue
        now = index.at(path)
        if now == before if before is not None else now is None and after.oid not in index.oids:
            yield path
    if first is None:
        return
    for path, left, lost in trees.differing(other, first):
        is_gone = left is None or left.is_tree
        if is_gone and is_theirs_alone(path, lost) and index.at(path) == lost:
            yield path
