# SPDX-License-Identifier: Apache-2.0
"""What a complete landing left behind: is it still so, and how much is kept?

Runs in the keeper: standard library only, Python 3.9. Changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence

from .. import fs
from ..git import index as gitindex
from ..journal.apply import Identities, differing, matches
from ..journal.format import PUT, SWAP, TAKE, Amendment, Identity, Inner, Journal, Op, Run
from ..overlay.layer import lies_in

LARGE = 1 << 20
"""Bytes of a file from which on it is looked up what it takes up."""


def identities(root: int, ops: list[Op], before: Sequence[Identity | None]) -> Identities:
    """Return the identity of what lies at each operation's path now, after a run was reversed.

    `before` are those from before that run, which stand where it is another object by now: what
    somebody else put there must not be taken for ours.
    """
    found: Identities = []
    for op, old in zip(ops, before):
        fresh = _restamped(root, op.path, old)
        found.append(old if fresh is None else fresh)
    return found


def carried_on(
    root: int,
    ops: list[Op],
    now: Sequence[Identity | None],
    others: Callable[[], Iterable[list[Journal]]],
) -> tuple[list[Op], list[Identity | None]]:
    """Take over what our own later runs did to the same paths.

    Undoing a later call puts a file back as it was, but with a new ctime; undoing an agent's own
    edit puts a copy there (see `adopt`). It counts as unchanged where a record of ours says that it
    left exactly this object there; nobody else's change is covered. `others` gives ever more of the
    records. It is only asked when something is another object, or has another ctime, and no longer
    than that is so: more records explain more, and never less.
    """
    carried = ops, list(now)
    if not _holds_another(root, *carried):
        return carried
    for records in others():
        carried = _explained(root, ops, now, records)
        if not _holds_another(root, *carried):
            break
    return carried


def _holds_another(root: int, ops: list[Op], now: Sequence[Identity | None]) -> bool:
    places = [(op.path, now[position]) for position, op in enumerate(ops)]
    places += [(f"{op.path}/{name}", what) for op in ops for name, what in (op.inner or {}).items()]
    return any(_is_another(root, path, what) for path, what in places)


def _explained(
    root: int, ops: list[Op], now: Sequence[Identity | None], records: list[Journal]
) -> tuple[list[Op], list[Identity | None]]:
    copied = _Copied(root, records)
    found = [
        _restamped(root, op.path, now[position]) or copied.instead(op.path, now[position])
        for position, op in enumerate(ops)
    ]
    inner = [
        {
            name: _restamped(root, f"{op.path}/{name}", held)
            or copied.instead(f"{op.path}/{name}", held)
            for name, held in (op.inner or {}).items()
        }
        for op in ops
    ]
    ours = {
        (op.path, tuple(identity))
        for record in records
        for op, identity in zip(record.ops, record.last.now or ())
        if identity is not None
    }
    new_now = [
        fresh if fresh and (op.path, tuple(fresh)) in ours else old
        for op, fresh, old in zip(ops, found, now)
    ]
    new_ops = [
        op
        if op.inner is None
        else op._replace(
            inner={
                name: fresh if fresh and (f"{op.path}/{name}", tuple(fresh)) in ours else held
                for (name, held), fresh in zip(op.inner.items(), names.values())
            }
        )
        for op, names in zip(ops, inner)
    ]
    return new_ops, new_now


def _is_another(root: int, path: str, expected: Identity | None) -> bool:
    status = None if expected is None else fs.lstat(root, "" if path == "." else path)
    if expected is None or status is None:
        return False
    return not matches(fs.identity(status), expected)


class _Copied:
    """Copies that stand where the undo of an agent's own edit put them."""

    def __init__(self, root: int, records: Iterable[Journal]) -> None:
        self._root = root
        self._of: dict[tuple[str, tuple[int, ...]], Identity] = {}
        """Path and identity of a copy -> identity of what it is a copy of."""
        for record in records:
            for op, identity in zip(record.ops, record.last.now or ()):
                was = (record.copies or {}).get(op.path)
                if record.last.back and was is not None and identity is not None:
                    self._of[op.path, tuple(identity)] = was

    def instead(self, path: str, expected: Identity | None) -> Identity | None:
        """Return what stands at a path if it is a copy of the expected object, or one of that."""
        status = None if expected is None or not self._of else fs.lstat(self._root, path)
        if expected is None or status is None:
            return None
        found = fs.identity(status)
        was = self._of.get((path, tuple(found)))
        seen = 0
        while was is not None and not matches(was, expected) and seen <= len(self._of):
            was, seen = self._of.get((path, tuple(was))), seen + 1
        return found if was is not None and matches(was, expected) else None


def refreshed(
    root: int, ops: list[Op], now: Sequence[Identity | None], last: Run
) -> tuple[list[Identity | None], list[Amendment]]:
    """Accept git indexes that were written again and mean the same: git refreshed stat data.

    Return the identities at each path, and the amendments to the operations.
    """
    new_now = list(now)
    amended: list[Amendment] = []
    for place in gitindex.places(ops, back=last.back) if last.indexes else ():
        expected = place.expected(ops, now)
        seen = gitindex.look(root, place.path) if expected is not None else None
        if seen is None or expected is None:
            continue
        identity = fs.identity(seen[0])
        recorded = (last.indexes or {}).get(place.path)
        if matches(identity, expected) or gitindex.meaning(seen[1]) != recorded:
            continue
        if place.name is None:
            new_now[place.position] = identity
        amended.append(place.amendment(ops[place.position], identity, back=last.back))
    return new_now, amended


def _restamped(root: int, path: str, expected: Identity | None) -> Identity | None:
    """Return what lies at a path if it is the expected object with another ctime."""
    status = None if expected is None else fs.lstat(root, "" if path == "." else path)
    if expected is None or status is None:
        return None
    found = fs.identity(status)
    same = found[:3] == expected[:3] and found[4] == expected[4]
    return found if same and expected[3] not in (0, found[3]) else None


def later_changes(
    root: int, ops: list[Op], now: Sequence[Identity | None], *, back: bool
) -> list[str]:
    """Return the paths that are no longer as the last run left them."""
    arrives, leaves = (TAKE, PUT) if back else (PUT, TAKE)
    placed = {op.path for op in ops if op.action == leaves}
    awaited = set() if back else {op.path for op in ops if op.action == arrives}
    changed: list[str] = []
    for position, op in enumerate(ops):
        if op.action not in (arrives, leaves) and lies_in(op.path, awaited):
            continue  # what it changes still lies elsewhere; it is compared when it has arrived
        status = fs.lstat(root, "" if op.path == "." else op.path)
        expected = now[position]
        if op.action == arrives:
            if status is not None and not lies_in(op.path, placed):
                changed.append(op.path)
        elif expected is None or status is None:
            if expected is not None and op.action == leaves:
                changed.append(op.path)
        elif not matches(fs.identity(status), expected):
            changed.append(op.path)
        elif op.inner is not None and op.action == leaves:
            found = _listing(root, op.path)
            news = differing(op.path, op.inner, found)
            others = placed - {op.path}
            changed += [path for path in news if not lies_in(path, others)]
    return sorted(set(changed))


def _listing(root: int, path: str) -> Inner:
    descriptor = fs.open_beneath(root, path)
    try:
        return {name: fs.identity(status) for name, status in fs.tree(descriptor)}
    finally:
        os.close(descriptor)


def bytes_kept(folder: int, ops: list[Op], *, back: bool) -> int:
    """Return what the objects that lie in a landing's folder after a run take up, in bytes.

    Of large files that is what they occupy: a sparse file may be longer than the disk.
    """
    total = 0
    for op in ops:
        if op.action == SWAP:
            lying = op.identity if back else op.old
        elif op.action == (PUT if back else TAKE) and op.other is None:
            lying = op.identity
        else:
            continue
        total += occupied(folder, op.slot, lying[1]) if lying else 0
        total += sum(
            occupied(folder, f"{op.slot}/{name}", held[1])
            for name, held in (op.inner or {}).items()
        )
    return total


def occupied(folder: int, path: str, size: int) -> int:
    """Return the bytes that a file takes up, of a size that is known; 0 for a folder."""
    if size < LARGE:  # a folder's is negative
        return max(0, size)
    status = fs.lstat(folder, path)
    return size if status is None else min(size, status.st_blocks * 512)
