# SPDX-License-Identifier: Apache-2.0
"""What an index held ready for a commit, and is nowhere else once it leaves the index.

An entry that is replaced by newer content of its path is everyday work (`git add`). One that
leaves, or is replaced by content that git had already (`git reset`, `git read-tree`), must be in
the work tree, in the index under another name, or in a commit. Of what is replaced it is enough
that the file had it: what a call makes of a file is judged as such, and can be undone.

Runs in the keeper: standard library only, Python 3.9. Reads only.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator

from ..git.files import Coming, within
from ..git.index_format import Entry
from ..git.packs import Odd
from .reach import reached
from .sides import STASH, Side, loose_id, staged, tree_of
from .trees import Trees, blob_at

_GITLINK = 0o160000


class Staged:
    """Compares an index before and after."""

    def __init__(
        self,
        old: Side,
        new: Side,
        path: str,
        coming: Coming,
        work_tree: str | None,
        kept: Iterable[bytes] = (),
    ) -> None:
        """Look at the index at `path`. `kept` are commits beside HEAD that are there afterwards and
        may hold what was staged."""
        self._old, self._new, self._path, self._kept = old, new, path, tuple(kept)
        self._folder = tree_of(path)[0]
        # where the files of linked work trees lie is told outside of what can be read
        known = None if self._folder or work_tree is None else work_tree.rstrip("/")
        self._files = None if known is None else within(coming, known)
        self._before = None if known is None else within(coming.standing, known)

    def losses(self, came: Iterable[str], near: Collection[bytes]) -> Iterator[str]:
        """Give why the index must be looked at. Raises Odd.

        `came` are changed paths; `near` is what changed references and reflogs name.
        """
        before = staged(self._old.files, self._path)
        if not before:
            return  # there was none, or one that only git understands: a split index
        after = staged(self._new.files, self._path)
        if after is None:
            yield "git could no longer read it"
            return
        there = self._new.files.status(self._path) is not None
        if not there and self._new.files.status(self._folder + "HEAD") is not None:
            yield "the index goes away"
            return
        if there and not after and any(self._stands(entry) for entry in before):
            yield "the index is emptied"
            return
        lost = sorted(os.fsdecode(entry.path) for entry in self._lost(before, after, came, near))
        if lost:
            more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
            yield f"what was staged of `{lost[0]}`{more} is nowhere else"

    def _lost(
        self,
        before: Iterable[Entry],
        after: Iterable[Entry],
        came: Iterable[str],
        near: Collection[bytes],
    ) -> list[Entry]:
        now = {entry.path: entry.oid for entry in after if not entry.stage}
        oids = {entry.oid for entry in after}
        staged_ = [
            one
            for one in before
            if one.oid not in oids
            and not one.stage
            and one.mode not in (_GITLINK, 0o040000)
            and not (one.more & 0x2000)  # only meant to be added
        ]
        gone = [one for one in staged_ if one.path not in now]
        gone = [one for one in gone if not self._stands(one)] if gone else []
        replaced = [one for one in staged_ if one.path in now]
        for side in (self._old, self._new):
            gone = list(self._uncommitted(side, gone)) if gone else []
            replaced = list(self._uncommitted(side, replaced)) if replaced else []
        gone += [
            one
            for one in replaced
            if self._old.objects.has(now[one.path])
            and not self._stands(one)
            and not self._stood(one)
        ]
        if gone:
            made = self._made(came, near)
            gone = [one for one in gone if one.oid not in made]
        return gone

    def _stands(self, entry: Entry) -> bool:
        """Whether the file has the content that was staged."""
        if self._files is None:
            return False
        return blob_at(self._files, entry.path, len(entry.oid))[0] == entry.oid

    def _stood(self, entry: Entry) -> bool:
        """Whether the file had the content that was staged before the call."""
        if self._before is None:
            return False
        return blob_at(self._before, entry.path, len(entry.oid))[0] == entry.oid

    def _uncommitted(self, side: Side, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Give what neither the commit that is checked out has, nor a stash."""
        trees = Trees(side.objects)
        tops: list[bytes] = []
        for name in (self._folder + "HEAD", STASH):
            with contextlib.suppress(Odd):
                oid = side.refs.resolve(name)
                if oid:
                    top, parents = trees.of_commit(oid)
                    others = parents[1:] if name == STASH else []
                    tops += [top, *(trees.of_commit(other)[0] for other in others)]
        tops += [trees.of_commit(oid)[0] for oid in self._kept]
        for entry in entries:
            found = (trees.at(top, entry.path) for top in tops)
            if all(one is None or one.oid != entry.oid for one in found):
                yield entry

    def _made(self, came: Iterable[str], near: Collection[bytes]) -> set[bytes]:
        """Return what new commits hold that something leads to; a folder alone holds nothing."""
        new = {oid for oid in map(loose_id, came) if oid}
        return set(reached(self._new.objects, near, new.__contains__))
