# SPDX-License-Identifier: Apache-2.0
"""What a run backwards or forwards over a complete landing changes, and what it puts where.

Looked at before the run, when what it will put in place still lies in the landing's folder. Paths
are those after the run; of what goes away, those before it, as `walk` gives them.

Runs in the keeper: standard library only, Python 3.9. Changes nothing.
"""

from __future__ import annotations

import functools
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from .. import fs
from ..journal.format import META, PUT, SWAP, TAKE, Op
from ..overlay.layer import above
from ..overlay.sides import Look, Piece, below, nothing
from ..overlay.steps import Change, type_name


def of_run(root: int, folder: int, ops: list[Op], *, back: bool) -> list[Piece]:
    """Return what a run changes, sorted by path; both descriptors must stay open."""
    return sorted(
        _Outlook(root, folder, ops, back=back).pieces(),
        key=lambda piece: (piece.change["path"], piece.change["kind"]),
    )


class _Outlook:
    def __init__(self, root: int, folder: int, ops: list[Op], *, back: bool) -> None:
        self._root = root
        self._folder = folder
        self._ops = ops
        self._back = back
        moved = [op for op in ops if op.action == TAKE and op.other is not None]
        self._ends = {
            (str(op.other) if back else op.path): (op.path if back else str(op.other))
            for op in moved
        }
        """Where each moved directory lies now -> where it will lie."""
        self._starts = {then: now for now, then in self._ends.items()}
        self._carried_then = {op.path: op.carried or {} for op in moved}
        """For each moved directory, by its path before the landing, what it took along."""

    def pieces(self) -> Iterator[Piece]:
        arrives, leaves = (TAKE, PUT) if self._back else (PUT, TAKE)
        for op in self._ops:
            if op.other is not None:
                continue
            if op.action == arrives:
                yield from self._arriving(op)
            elif op.action == leaves:
                yield from self._leaving(op)
        inside = self._carried()
        for op in self._ops:
            if op.action == SWAP or (op.action == META and _counts(op)):
                yield self._changed(op, inside)
        for now, (path, status) in inside.items():
            more = {"late": True} if self._came_later(now, path, status) else {}
            yield Piece(
                _change(path, "renamed", status, source=now, **more),
                below(self._root, now),
                below(self._root, now),
            )

    def _arriving(self, op: Op) -> Iterator[Piece]:
        for place, slot in self._listed(op):
            status = fs.lstat(self._folder, slot)
            if status is not None:
                yield Piece(_change(place, "created", status), nothing, below(self._folder, slot))

    def _leaving(self, op: Op) -> Iterator[Piece]:
        for place, _ in self._listed(op):
            status = fs.lstat(self._root, place)
            if status is not None:
                yield Piece(_change(place, "deleted", status), below(self._root, place), nothing)

    @staticmethod
    def _listed(op: Op) -> Iterator[tuple[str, str]]:
        yield op.path, op.slot
        for name in sorted(op.inner or {}):
            yield f"{op.path}/{name}", f"{op.slot}/{name}"

    def _changed(self, op: Op, inside: dict[str, tuple[str, os.stat_result]]) -> Piece:
        """Return the piece of an exchange or of settings; a moved file leaves `inside`."""
        now, then = self._places(op.path)
        status = fs.lstat(self._root, "" if now == "." else now)
        old = below(self._root, now)
        new: Look = below(self._folder, op.slot) if op.action == SWAP else old
        after = op.before if self._back else op.after
        found = fs.lstat(self._folder, op.slot) if op.action == SWAP else status
        kind = "modified" if op.action == SWAP else "meta"
        moved = inside.pop(now, None)
        more: dict[str, Any] = {}
        if moved is not None:
            kind, more = "renamed", {"source": now, "modified": True}
        change = _change(then, kind, found, **more)
        if op.action == META and after is not None:
            change["mode"] = after[0]
        return Piece(change, old, new)

    def _places(self, path: str) -> tuple[str, str]:
        """Return where an object lies now and where it will lie.

        Exchanges and settings name the place that an object has after the landing.
        """
        if self._back:
            return path, _mapped(path, self._ends)
        return _mapped(path, self._starts), path

    def _carried(self) -> dict[str, tuple[str, os.stat_result]]:
        """Return what moves along: where it is now -> (where it will be, status)."""
        leaves = PUT if self._back else TAKE
        away = {op.path for op in self._ops if op.other is None and op.action == leaves}
        found: dict[str, tuple[str, os.stat_result]] = {}
        for now, then in self._ends.items():
            status = fs.lstat(self._root, now)
            if status is None or not stat.S_ISDIR(status.st_mode):
                continue
            found[now] = (then, status)
            # What moves or goes by itself is listed by itself, with all it holds.
            apart = functools.partial(self._apart, now, away)
            descriptor = fs.open_beneath(self._root, now)
            try:
                for name, inner in fs.tree(descriptor, skipped=apart):
                    found[f"{now}/{name}"] = (f"{then}/{name}", inner)
            finally:
                os.close(descriptor)
        return found

    def _came_later(self, now: str, then: str, status: os.stat_result) -> bool:
        """Whether something lies in a moved directory that it did not take along, or another.

        A ctime may be younger for an undo of ours in between, which brings the same back.
        """
        path = then if self._back else now
        top = next((one for one in (path, *above(path)) if one in self._carried_then), None)
        if top is None or top == path:
            return False
        known = self._carried_then[top].get(path[len(top) + 1 :])
        found = fs.identity(status)
        return known is None or known[:3] != found[:3] or known[4] != found[4]

    def _apart(self, top: str, away: Collection[str], name: str) -> bool:
        path = f"{top}/{name}"
        return path in self._ends or path in away


def _counts(op: Op) -> bool:
    """Whether settings differ in more than a time."""
    old, new = op.before or [], op.after or []
    return old[:3] != new[:3] or old[4:] != new[4:]


def _mapped(path: str, moves: Mapping[str, str]) -> str:
    """Return a path after moves; of directories within each other the inner one counts."""
    for start in (path, *above(path)):
        if start in moves:
            return moves[start] + path[len(start) :]
    return path


def _change(path: str, kind: str, status: os.stat_result | None, **more: Any) -> Change:
    mode = stat.S_IFREG if status is None else status.st_mode
    change: Change = {"path": path, "kind": kind, "type": type_name(mode), "conflict": False}
    if status is not None:
        change["mode"] = stat.S_IMODE(status.st_mode)
        if not stat.S_ISDIR(mode) and status.st_size:
            change["size"] = status.st_size
    change.update(more)
    return change
