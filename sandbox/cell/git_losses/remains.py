# SPDX-License-Identifier: Apache-2.0
"""What remains of a repository's references, reflogs and objects, and what does not.

Each method gives (path in the repository, why it matters). A reference that goes must leave its
object to another reference; one that moves, and a line of a reflog, to a reference or a reflog.

Runs in the keeper: standard library only, Python 3.9. Reads only.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from typing import Any

from ..git.files import Coming, is_folder
from ..git.packs import Odd
from .merges import taken_for_merged
from .names import misleads
from .reach import SLOP_SECONDS, history, holding, meant, tagged
from .refs import Line, Ref, is_name
from .sides import STASH, Sides, ids, indexes, loose_id, pack_of, staged, tree_of
from .staged import Staged
from .stash import is_applied
from .underway import given_up, left_behind, named_objects

Loss = Iterator["tuple[str, str]"]
MOST_REFERENCES = 20_000
"""That come or move in one call, and are looked at."""


class Remains:
    """Compares the two sides of a repository."""

    def __init__(
        self,
        sides: Sides,
        touched: Mapping[str, dict[str, Any]],
        coming: Coming,
        work_tree: str | None,
    ) -> None:
        self._sides = sides
        self._old, self._new = sides.old, sides.new
        self._touched = touched
        self._coming = coming
        self._work_tree = work_tree
        self._files = [path for path, one in touched.items() if one["type"] != "directory"]

    # References

    def references(self) -> Loss:
        """Give references that go, lead nowhere, or leave behind what nothing else holds."""
        for path in self._files:
            if path.startswith("reftable/"):
                yield path, "references in tables cannot be read"
        names = {path for path in self._files if _is_ref(path)}
        if "packed-refs" in self._touched:
            yield from self._packed(names)
        gone: dict[str, bytes] = {}
        moved: dict[str, bytes] = {}
        arrived = 0
        for name in sorted(names):
            before = self._before(name)
            after = self._new.refs.get(name)
            if before == after:
                continue
            if before is not None and before.oid:
                (gone if after is None else moved)[name] = before.oid
            if after is not None:
                arrived += 1
                if arrived > MOST_REFERENCES:
                    raise Odd(f"more than {MOST_REFERENCES} references come or move")
                yield from self._arrived(name, before, after)
        if names:
            yield from self._heads()
            yield from left_behind(
                self._old, self._new, self._touched.keys(), self._new.refs.trees()
            )
        yield from given_up(self._old, self._new, self._files)
        yield from taken_for_merged(self._old, self._new, self._files)
        if gone:
            yield from self._left_behind(gone, self._by_references, "no other reference reaches")
        moved = {name: oid for name, oid in moved.items() if oid not in self._near}
        if moved:
            yield from self._left_behind(moved, self._by_anything, "nothing reaches any more")

    def _before(self, name: str) -> Ref | None:
        try:
            return self._old.refs.get(name)
        except Odd:
            return None  # it led nowhere before

    def _packed(self, names: set[str]) -> Loss:
        old, new = self._old.refs.packed(), self._new.refs.packed()
        for name in old.keys() | new.keys():
            if old.get(name) != new.get(name):
                names.add(name)
        for name, (oid, peeled) in new.items():
            changed = old.get(name) != (oid, peeled)
            if changed and peeled != tagged(self._new.objects, oid):
                yield "packed-refs", f"`{name}` is said to be a tag of something else"

    def _arrived(self, name: str, before: Ref | None, after: Ref) -> Loss:
        """Give what is wrong with a reference that is new, or names something new."""
        is_head = tree_of(name)[1] == "HEAD"
        if not is_name(name):
            yield name, "git takes no such name"
        if after.target:
            remote = name.startswith("refs/remotes/") and name.endswith("/HEAD")
            start = "refs/remotes/" if remote else "refs/heads/"
            if not ((is_head or remote) and after.target.startswith(start)) or not is_name(
                after.target
            ):
                yield name, f"it becomes another name for `{after.target}`"
        else:
            kind = self._new.objects.kind(after.oid)
            if kind is None:
                yield name, f"it names an object that is not there ({after.oid.hex()[:12]})"
            elif kind != b"commit" and (
                is_head or name.startswith("refs/heads/") or not self._means_commit(after.oid)
            ):
                yield name, "it names no commit"
        if before is None and not is_head:
            for why in misleads(name, after, self._old.refs, self._new.refs):
                yield name, why

    def _means_commit(self, oid: bytes) -> bool:
        """Whether a tag means a commit: a folder that no commit holds was compared with nothing."""
        objects = self._new.objects
        return objects.kind(meant(objects, oid)) == b"commit"

    def _heads(self) -> Loss:
        for folder in ("", *self._new.refs.trees()):
            name = folder + "HEAD"
            if self._new.files.status(name) is None:
                if not folder or self._new.files.status(folder + "gitdir") is not None:
                    yield name, "it goes away"
            elif not self._resolves(name) and (
                self._had(name) or (name in self._touched and self._had("HEAD"))
            ):
                yield name, "it leads nowhere"

    def _resolves(self, name: str) -> bool:
        try:
            return bool(self._new.refs.resolve(name))
        except Odd:
            return False

    def _had(self, name: str) -> bool:
        try:
            return bool(self._old.refs.resolve(name))
        except Odd:
            return False

    def _left_behind(self, old: Mapping[str, bytes], holders: set[bytes], said: str) -> Loss:
        lost = self._lost(set(old.values()), holders)
        for name, oid in old.items():
            if oid in lost and not (name == STASH and self._is_applied(oid)):
                yield name, f"{said} {oid.hex()[:12]}, which it named"

    def _lost(self, oids: Collection[bytes], holders: set[bytes]) -> set[bytes]:
        """Return those of some objects that no holder reaches any more, but which were there."""
        wanted = set(oids) - self._cheap
        wanted = {oid for oid in wanted if self._old.objects.has(oid)}
        if not wanted:
            return set()
        return wanted - history(self._new.objects, holders, wanted)

    @cached_property
    def _cheap(self) -> set[bytes]:
        """Return what changed references name now: mostly what is asked for is among it."""
        found = set()
        for path in self._files:
            ref = self._new.refs.get(path) if path.startswith("refs/") else None
            if ref is not None and ref.oid:
                found.add(ref.oid)
        return found

    @cached_property
    def _near(self) -> set[bytes]:
        """Return what changed references and reflogs name now, as after every commit."""
        found = set(self._cheap)
        for path in self._files:
            folder, rest = tree_of(path)
            if rest.startswith("logs/") and self._resolves(folder + rest[len("logs/") :]):
                with contextlib.suppress(Odd):
                    lines, since = self._new.refs.log(path), self._sides.holds_since
                    found |= ids(line for line in lines if self._sides.holds(path, line, since))
        return found

    @cached_property
    def _by_references(self) -> set[bytes]:
        return self._sides.kept()

    @cached_property
    def _by_anything(self) -> set[bytes]:
        return self._by_references | self._sides.kept_by_logs(self._sides.holds_since)

    def _is_applied(self, oid: bytes) -> bool:
        if self._work_tree is None:
            return False
        now = [*sorted(self._cheap), self._new.refs.resolve("HEAD")]
        return is_applied(self._new.objects, oid, self._coming, self._work_tree, filter(None, now))

    # Reflogs

    def reflogs(self) -> Loss:
        """Give reflogs that go or are cut, and lines that leave behind what nothing else holds."""
        for path in sorted(self._files):
            folder, rest = tree_of(path)
            if not rest.startswith("logs/"):
                continue
            lost = self._sides.lost_lines(path)
            if not lost:
                continue
            name = folder + rest[len("logs/") :]
            if name == STASH:
                oids = {line.new for line in lost} - self._near
                if oids and any(
                    not self._is_applied(oid) for oid in self._lost(oids, self._by_anything)
                ):
                    yield path, "a stash goes away that was not applied"
            elif self._is_cut(path, name):
                yield path, f"{len(lost)} lines of what it remembers go away"
            elif (left := ids(lost) - self._near) and self._lost(left, self._as_long_as(lost)):
                yield path, "nothing else remembers what it names"

    def _as_long_as(self, lost: Collection[Line]) -> set[bytes]:
        """Return what references hold, and reflogs about as long as these lines did."""
        since = min(line.time for line in lost) - SLOP_SECONDS
        return self._by_references | self._sides.kept_by_logs(since)

    def _is_cut(self, path: str, name: str) -> bool:
        """Whether a reflog lost lines, and not since its reference was made anew."""
        if self._new.refs.get(name) is None:
            return False
        new = self._new.refs.log(path)
        anew = bool(new) and not any(new[0].old)
        return not anew or new[0].said == self._old.refs.log(path)[0].said

    # Objects

    def objects(self) -> Loss:
        """Give objects that go away though something reaches them."""
        places = self.removed()
        if not places:
            return
        old = self._old
        if is_folder(old.files, "reftable"):
            raise Odd("references in tables cannot be read")
        staging: set[bytes] = set()
        for path in indexes(old):
            entries = staged(old.files, path)
            if entries is None:
                raise Odd(f"`{path}` cannot be read")
            staging |= {entry.oid for entry in entries}
        found = next(iter(staging & places.keys()), None)
        if found is None:
            starts = self._sides.named(old) | self._sides.logged(old) | {*old.refs.noted()}
            found = holding(old.objects, starts, places.keys())
        if found is not None:
            yield places[found], f"it holds {found.hex()[:12]}, which is reached, and goes away"

    def arrivals(self) -> Loss:
        """Give objects that came and are not what their names say.

        For repositories that `git.commits` does not know, since they have another name than `.git`.
        """
        new = self._new.objects
        came = [path for path in self._files if self._new.files.status(path) is not None]
        packs = {pack_of(path): path for path in came if pack_of(path)}
        for path in came:
            if loose_id(path):
                try:
                    new.checked(loose_id(path))
                except Odd as error:
                    yield path, str(error)
        for pack in new.packs() if packs else ():
            if pack.path in packs:
                try:
                    deque(pack.kinds(new.finder(())), maxlen=0)
                except Odd as error:
                    yield packs[pack.path], str(error)

    def removed(self) -> dict[bytes, str]:
        """Return the objects that are nowhere any more, each with its place before."""
        old, new = self._old.objects, self._new.objects
        packs = {pack_of(path): path for path in self._files if pack_of(path)}
        places = {loose_id(path): path for path in self._files if loose_id(path)}
        places = {oid: path for oid, path in places.items() if old.has(oid)}
        for pack in old.packs() if packs else ():
            if pack.path in packs:
                places.update((oid, packs[pack.path]) for oid in pack.names())
        for pack in new.packs() if packs else ():
            if pack.path in packs:
                for oid in pack.names():
                    places.pop(oid, None)
        return {oid: path for oid, path in places.items() if not new.has(oid)}

    # Indexes

    def indexes(self) -> Loss:
        """Give indexes that go, are emptied, or lose what was staged and is nowhere else."""
        for path in self._files:
            if tree_of(path)[1] == "index":
                look = Staged(
                    *(self._old, self._new, path, self._coming, self._work_tree),
                    self._merged_from(tree_of(path)[0]),
                )
                yield from ((path, why) for why in look.losses(self._files, self._near))

    def _merged_from(self, folder: str) -> set[bytes]:
        """Return the commits that a merge under way took from, as far as references reach them."""
        objects = self._new.objects
        named = named_objects(self._old.files, folder + "MERGE_HEAD")
        commits = {meant(objects, oid) for oid in named if objects.has(oid)}
        return history(objects, self._by_references, commits) if commits else set()


def _is_ref(path: str) -> bool:
    rest = tree_of(path)[1]
    return rest == "HEAD" or (rest.startswith("refs/") and not rest.endswith(".lock"))
