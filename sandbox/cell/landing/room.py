# SPDX-License-Identifier: Apache-2.0
"""Which before-images go when the quota is reached, and which must not without a person's word.

    needed(vault, ops, agent, quota) -> Room     before a landing
    make(vault, change, quota, agent) -> Room    after it: removes what goes
    clear(vault, coming, quota, agent) -> Room   before an agent's own edit: removes what goes

INVARIANT (P12, room): of each path the newest content that a person had, and the newest that
another agent made, is outside of any agent's quota. What an agent itself made goes first: its own
records, the oldest first; then those of other agents that hold nothing of that kind; then, named
aloud, what has been kept for `AGED_SECONDS`. A landing that would drive out more is not made.

Runs in the keeper: standard library only, Python 3.9. The records are read only where there is no
room.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .. import fs
from ..journal import own_edits
from ..journal.format import PUT, SWAP, TAKE, Journal, Op
from ..journal.vault import Vault
from ..overlay import marks
from .stands import occupied

AGED_SECONDS = 7 * 86_400
"""After which the last copy of something may go: a person has had that long to notice."""
_OWN, _OTHERS, _AGED, _LAST = range(4)
_ANYBODY = "anybody"
Images = list["tuple[str, str | None]"]
"""Paths, and the sign of the agent that made what lies there; None for a person."""


class Room(NamedTuple):
    """What went, or would go, for new before-images."""

    evicted: list[str]
    """Calls that can no longer be undone."""
    lost: list[str]
    """Of these, those that held the last copy of something, or were another agent's."""
    last: list[str]
    """Paths of which the last copy would go that nobody has had time to miss."""
    own: list[str]
    """Of a landing that is to come: the paths of which it would itself keep the last copy."""


class _Kept(NamedTuple):
    name: str
    sign: str
    time: float
    size: int
    images: Images


def needed(vault: Vault, ops: list[Op], agent: str, quota: int, *, plain: bool) -> Room:
    """Say what a landing that is about to carry out `ops` would drive out: `last` counts.

    `plain`: what it replaces itself can be made anew, and need not be kept.
    """
    coming = sum(_size(vault.root, op) for op in ops)
    if vault.total() + coming <= quota:
        return Room([], [], [], [])
    images = [image for op in ops for image in _replaced(vault.root, op)]
    ours = _Kept("", marks.sign(agent), time.time(), coming, images)
    made = _Made()
    earlier = list(_kept(vault, made))
    images = [(path, sign or made.by(vault.root, path)) for path, sign in images]
    ours = ours._replace(images=[] if plain else images)
    kept = [*earlier, ours]
    room = _going(kept, sum(one.size for one in kept), quota, agent)
    room.own.extend(path for path, _ in _others(ours._replace(images=images)))
    return room


def clear(vault: Vault, coming: int, quota: int, agent: str) -> Room:
    """Remove what has to go for `coming` bytes that an agent's own tool replaces next.

    Edits of tools that run still take up room as well. Where the last copy of something would go
    (`last`), nothing is removed.
    """
    kept = list(_kept(vault, _Made()))
    total = sum(one.size for one in kept)
    wanted = total + _waiting(vault) + coming
    room = _going(kept, wanted, quota, agent)
    sizes = {one.name: one.size for one in kept}
    enough = wanted - sum(sizes[name] for name in room.evicted) <= quota
    if room.last or not enough:
        return Room([], [], room.last or ["."], [])
    for name in room.evicted:
        vault.forget(name)
        total -= sizes[name]
    vault.note_total(total)
    return room


def _waiting(vault: Vault) -> int:
    edits = vault.edits()
    if edits is None:
        return 0
    try:
        return own_edits.waiting(edits)
    finally:
        os.close(edits)


def make(vault: Vault, change: int, quota: int, agent: str, plain: str = "") -> Room:
    """Note that `change` more bytes are kept, and remove what has to go for it.

    `plain` is a landing of which all that is kept can be made anew.
    """
    total = max(0, vault.total() + change)
    room = Room([], [], [], [])
    if total > quota:
        found = _kept(vault, _Made())
        kept = [one._replace(images=[]) if one.name == plain else one for one in found]
        total = sum(one.size for one in kept)
        room = _going(kept, total, quota, agent)
        sizes = {one.name: one.size for one in kept}
        for name in room.evicted:
            vault.forget(name)
            total -= sizes[name]
    vault.note_total(total)
    return room


def _going(kept: Sequence[_Kept], total: int, quota: int, agent: str) -> Room:
    newest: dict[tuple[str, str | None], str] = {}
    for one in kept:
        newest.update(((path, maker), one.name) for path, maker in _others(one))
    found = []
    for position, one in enumerate(kept):
        last = [path for path, maker in _others(one) if newest[path, maker] == one.name]
        if last:
            kind = _AGED if time.time() - one.time > AGED_SECONDS else _LAST
        else:
            kind = _OWN if one.sign == marks.sign(agent) else _OTHERS
        found.append((kind, position, one, last))
    room = Room([], [], [], [])
    for kind, _, one, last in sorted(found, key=lambda row: row[:2]):
        if total <= quota:
            break
        if not one.size:
            continue
        total -= one.size
        room.evicted.append(one.name)
        if kind != _OWN:
            room.lost.append(one.name)
        if kind == _LAST:
            room.last.extend(last)
    return room


def _others(one: _Kept) -> Images:
    """Return those of a record's before-images that its own agent did not make."""
    return [(path, maker) for path, maker in one.images if not maker or maker != one.sign]


class _Made:
    """What agents' own tools left on the host, where no mark can be put on a file (see `adopt`).

    INVARIANT (P12, made): it is its agent's, not a person's, so that no agent makes its own content
    the newest that a person is taken to have had, and drives out what they really had. What such a
    tool replaced may be anybody's: it counts as a last copy, however often the file was edited, so
    that the records that say what was left stay as long.
    """

    def __init__(self) -> None:
        self._by: dict[tuple[int, ...], str] = {}

    def add(self, record: Journal) -> None:
        """Note what an edit left."""
        for op in record.ops if record.copies is not None and record.sign else ():
            for identity in (
                op.identity if op.action != TAKE else None,
                *(op.inner or {}).values(),
            ):
                if identity is not None:
                    self._by[tuple(identity[:3])] = record.sign

    def by(self, root: int, path: str) -> str | None:
        """Return the sign of the agent whose tool left what lies at a path; None for all else."""
        status = fs.lstat(root, path) if self._by else None
        return None if status is None else self._by.get(tuple(fs.identity(status)[:3]))


def _kept(vault: Vault, made: _Made) -> Iterable[_Kept]:
    """Give the complete landings, oldest first; `made` learns what edits left."""
    for name, record in vault.kept():
        last = record.last
        folder = fs.open_directory(name, vault.undo)
        try:
            images = list(_images(folder, record, made))
        finally:
            os.close(folder)
        made.add(record)
        yield _Kept(name, record.sign, last.time, last.kept, images)


def _images(folder: int, record: Journal, made: _Made) -> Iterable[tuple[str, str | None]]:
    back = record.last.back
    leaves = PUT if back else TAKE
    for op in record.ops:
        if op.action != SWAP and (op.action != leaves or op.other is not None):
            continue
        for inner in ("", *(f"/{name}" for name in op.inner or ())):
            place = f"/proc/self/fd/{folder}/{op.slot}{inner}"
            if os.path.islink(place) or not os.path.isdir(place):  # that holds nothing by itself
                edited = f"{_ANYBODY} {record.call}" if record.copies is not None else None
                maker = edited or marks.of(place) or made.by(folder, op.slot + inner)
                yield op.path + inner, maker


def _size(root: int, op: Op) -> int:
    """Return the bytes that an operation will take out of the workspace."""
    if op.action not in (SWAP, TAKE) or op.other is not None:
        return 0
    old = op.old if op.action == SWAP else op.identity
    total = occupied(root, op.path, old[1]) if old else 0
    for name, held in (op.inner or {}).items():
        total += occupied(root, f"{op.path}/{name}", held[1])
    return total


def _replaced(root: int, op: Op) -> Iterable[tuple[str, str | None]]:
    if op.action not in (SWAP, TAKE) or op.other is not None:
        return
    for inner in ("", *(f"/{name}" for name in op.inner or ())):
        status = fs.lstat(root, op.path + inner)
        if status is None or not stat.S_ISDIR(status.st_mode):
            yield op.path + inner, maker(root, op.path + inner)


def maker(root: int, path: str) -> str | None:
    """Return the sign of the agent that made what lies at a path; None for a person, or nothing."""
    try:
        descriptor = fs.open_beneath(root, path, fs.READ)
    except OSError:  # a link, or nothing
        return None
    try:
        return marks.of(descriptor)
    finally:
        os.close(descriptor)
