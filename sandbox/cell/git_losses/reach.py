# SPDX-License-Identifier: Apache-2.0
"""Which of git's objects can be reached from others. Reads only, and no more than a budget allows.

    history(store, starts, wanted)   which of `wanted` are among `starts` or behind them in history
    holding(store, starts, lost)     an object of `lost` that `starts` reach, folders and files too
    merge_bases(store, one, other)   where two commits parted

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator

from ..git.objects import Store, commit, tree
from ..git.packs import Odd

MOST_COMMITS = 100_000
"""Commits and tags that are read to find others."""
MOST_OBJECTS = 300_000
"""Commits, tags and trees that are read to find objects that went away."""
MOST_TAGS = 50
"""Tags of tags that are followed to what they mean."""
SLOP_SECONDS = 86_400
"""By how much the clocks of those who made commits may differ."""
_BLOB, _GITLINK, _TREE = b"blob", 0o160000, 0o040000


def history(store: Store, starts: Iterable[bytes], wanted: Collection[bytes]) -> set[bytes]:
    """Return those of `wanted` that are among `starts`, or behind them: parents, a tag's object.

    Newest first. What is older than all that is wanted is not looked behind, so that a commit with
    a false date may be taken for lost, never the other way around. Raises Odd.
    """
    starts = set(starts)
    found = starts & set(wanted)
    missing = set(wanted) - found
    if not missing:
        return found
    oldest = min(_time(store, one) for one in missing) - SLOP_SECONDS
    seen: set[bytes] = set()
    waiting: list[tuple[int, bytes]] = []

    def add(oids: Iterable[bytes]) -> None:
        for oid in oids:
            if oid not in seen:
                seen.add(oid)
                missing.discard(oid)
                time = _time(store, oid)
                if time >= oldest:
                    heapq.heappush(waiting, (-time, oid))

    add(starts)
    while waiting and missing:
        if len(seen) > MOST_COMMITS:
            raise Odd(f"more than {MOST_COMMITS} commits to look through")
        add(_behind(store, heapq.heappop(waiting)[1]))
    return set(wanted) - missing


def merge_bases(store: Store, one: bytes, other: bytes) -> list[bytes]:
    """Return the newest commits that two have in common; none of unrelated ones. Raises Odd.

    Several after criss-cross merges; with false dates also such as lie behind another of them.
    """
    mine, theirs, behind = 1, 2, 4
    marks: dict[bytes, int] = {}
    waiting: list[tuple[int, bytes]] = []
    found: list[bytes] = []

    def mark(oid: bytes, how: int) -> None:
        known = marks.get(oid, 0)
        if known | how != known:
            marks[oid] = known | how
            heapq.heappush(waiting, (-_time(store, oid), oid))

    mark(one, mine)
    mark(other, theirs)
    while any(not marks[oid] & behind for _, oid in waiting):
        if len(marks) > MOST_COMMITS:
            raise Odd(f"more than {MOST_COMMITS} commits to look through")
        oid = heapq.heappop(waiting)[1]
        how = marks[oid]
        if how & (mine | theirs) == mine | theirs:
            if not how & behind and oid not in found:
                found.append(oid)
            how |= behind
        for parent in _behind(store, oid):
            mark(parent, how)
    return [oid for oid in found if not marks[oid] & behind]


def holding(store: Store, starts: Iterable[bytes], lost: Collection[bytes]) -> bytes | None:
    """Return an object of `lost` that is reached from `starts`; None where none is. Raises Odd."""
    for oid in reached(store, starts, lambda _: True):
        if oid in lost:
            return oid
    return None


def reached(
    store: Store, starts: Iterable[bytes], enters: Callable[[bytes], bool]
) -> Iterator[bytes]:
    """Give all that is reached from `starts`; `enters` says what is looked into. Raises Odd.

    What a tree says to be a file is given, and not read.
    """
    waiting = list(starts)
    seen = set(waiting)
    count = 0
    while waiting:
        oid = waiting.pop()
        yield oid
        if not enters(oid):
            continue
        kind = store.kind(oid)
        if kind is None or kind == _BLOB:
            continue  # it was not there before either: a shallow or partial clone
        count += 1
        if count > MOST_OBJECTS:
            raise Odd(f"more than {MOST_OBJECTS} objects to look through")
        inner: list[bytes] = []
        if kind == b"tree":
            for entry in tree(_content(store, oid), store.width).values():
                if entry.mode == _TREE:
                    inner.append(entry.oid)
                elif entry.mode != _GITLINK and entry.oid not in seen:
                    seen.add(entry.oid)
                    yield entry.oid
        elif kind == b"commit":
            top, parents = commit(_content(store, oid))
            inner = [top, *parents]
        else:
            inner = _behind(store, oid)
        waiting += [one for one in inner if one not in seen]
        seen.update(inner)


def tagged(store: Store, oid: bytes) -> bytes:
    """Return the object that a tag means in the end; nothing for what is no tag. Raises Odd."""
    found = b""
    for _ in range(MOST_TAGS):
        if store.kind(found or oid) != b"tag":
            return found
        found = _behind(store, found or oid)[0]
    raise Odd(f"more than {MOST_TAGS} tags of tags")


def meant(store: Store, oid: bytes) -> bytes:
    """Return the object that a name means: what its tag is of, or itself. Raises Odd."""
    return tagged(store, oid) or oid


def _behind(store: Store, oid: bytes) -> list[bytes]:
    """Return the parents of a commit, the object of a tag; nothing of others."""
    kind = store.kind(oid)
    if kind == b"commit":
        return commit(_content(store, oid))[1]
    if kind != b"tag":
        return []
    word, _, value = _content(store, oid).partition(b"\n")[0].partition(b" ")
    try:
        found = bytes.fromhex(value.decode("ascii"))
    except ValueError:
        found = b""
    if word != b"object" or len(found) != store.width:
        raise Odd("a tag that cannot be read")
    return [found]


def _time(store: Store, oid: bytes) -> int:
    """Return a commit's time; of a tag, and of what cannot be told, one that is never too old."""
    newest = 1 << 62
    if store.kind(oid) != b"commit":
        return newest
    for line in _content(store, oid).split(b"\n"):
        if line.startswith(b"committer "):
            word = line.split(b" ")[-2:-1]
            return int(word[0]) if word and word[0].isdigit() and len(word[0]) < 19 else newest
        if not line:
            break
    return newest


def _content(store: Store, oid: bytes) -> bytes:
    found = store.read(oid)
    if found is None:
        raise Odd(f"object {oid.hex()} is missing")
    return found[1]
