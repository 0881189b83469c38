# SPDX-License-Identifier: Apache-2.0
"""What undoing several records one after the other would leave, as one list of changes.

    pieces_of(vault, calls) -> pieces     calls newest first; nothing is changed
    turned(piece) -> Piece                what was changed, for what would be

Each operation is taken back on paper: a path stands for what a record keeps of it, or for what lies
at a path of the workspace now. Whether each undo would be refused, `undo.outlook` says.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence

from .. import fs
from ..journal.format import META, PUT, SWAP, TAKE, Journal, Op
from ..journal.vault import Vault
from ..overlay.layer import LandingError
from ..overlay.sides import Look, Piece, Side, below, nothing, sha256
from ..overlay.steps import Change, type_name
from .settle import read_record


@contextlib.contextmanager
def pieces_of(vault: Vault, calls: Sequence[str]) -> Iterator[list[Piece]]:
    """Give what taking back these calls, newest first, would change; all stay open meanwhile.

    A call that this workspace keeps nothing of is left out.
    """
    with contextlib.ExitStack() as stack:
        net = _Net(vault.root)
        for call in calls:
            try:
                name = vault.folder_of(call)
                record = read_record(vault.undo, name)
            except (LandingError, OSError):
                continue
            folder = fs.open_directory(name, vault.undo)
            stack.callback(os.close, folder)
            net.take_back(record, folder)
        yield list(net.pieces())


class _Net:
    """The workspace as it would be."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._then: dict[str, Look] = {}
        """Path -> what would stand there."""

    def take_back(self, record: Journal, folder: int) -> None:
        """Take one record back on paper."""
        back = not record.last.back
        ops = record.ops if not back else record.ops[::-1]
        arrives, leaves = (TAKE, PUT) if back else (PUT, TAKE)
        for op in ops:
            if op.other is not None:
                if op.action == leaves:  # the other half says the same
                    self._move(op.path, op.other)
            elif op.action == arrives:
                for path, slot in _listed(op):
                    self._then[path] = below(folder, slot)
            elif op.action == leaves:
                for path, _ in _listed(op):
                    self._then[path] = nothing
            elif op.action == SWAP:
                self._then[op.path] = below(folder, op.slot)
            elif op.action == META:
                self._set(op, back=back)

    def _move(self, now: str, then: str) -> None:
        """Let a folder, or a file, stand at another path."""
        inside = {path for path in self._then if path.startswith(now + "/")} | {now}
        status = fs.lstat(self._root, now)
        if status is not None and stat.S_ISDIR(status.st_mode):
            top = fs.open_beneath(self._root, now)
            try:
                inside |= {f"{now}/{name}" for name, _ in fs.tree(top)}
            finally:
                os.close(top)
        for path in sorted(inside):
            look = self._then.get(path, below(self._root, path))
            self._then[path] = nothing
            self._then[then + path[len(now) :]] = look

    def _set(self, op: Op, *, back: bool) -> None:
        wanted = op.before if back else op.after
        if wanted is None or op.path == ".":
            return
        look = self._then.get(op.path, below(self._root, op.path))
        self._then[op.path] = _with_mode(look, int(wanted[0]))

    def pieces(self) -> Iterator[Piece]:
        """Give what would be another than it is now, by path."""
        for path in sorted(self._then):
            old, new = below(self._root, path), self._then[path]
            before, after = old(), new()
            if before is None and after is None:
                continue
            if before is not None and after is not None and _is_same(before, after):
                continue
            yield Piece(_change(path, before, after), old, new)


def turned(piece: Piece) -> Piece:
    """Return a change the other way round."""
    kind = {"created": "deleted", "deleted": "created"}.get(piece.change["kind"], "modified")
    before = piece.old()
    mode = piece.change["mode"] if before is None else stat.S_IMODE(before.mode)
    return Piece({**piece.change, "kind": kind, "mode": mode}, piece.new, piece.old)


def _listed(op: Op) -> Iterator[tuple[str, str]]:
    yield op.path, op.slot
    for name in sorted(op.inner or {}):
        yield f"{op.path}/{name}", f"{op.slot}/{name}"


def _with_mode(look: Look, mode: int) -> Look:
    def looked() -> Side | None:
        side = look()
        if side is None:
            return None
        values = list(side.status)
        values[0] = stat.S_IFMT(side.mode) | mode
        return side._replace(status=os.stat_result(values))

    return looked


def _is_same(before: Side, after: Side) -> bool:
    if before.mode != after.mode:
        return False
    return stat.S_ISDIR(before.mode) or sha256(before) == sha256(after)


def _change(path: str, before: Side | None, after: Side | None) -> Change:
    kind = "created" if before is None else "deleted" if after is None else "modified"
    side = after or before
    assert side is not None
    mode = stat.S_IMODE(side.mode)
    change: Change = {"path": path, "kind": kind, "type": type_name(side.mode), "conflict": False}
    return {**change, "mode": mode}
