# SPDX-License-Identifier: Apache-2.0
"""Turn a walk into the operations of a landing, with all new content staged.

The order makes each path valid when its turn comes: what goes away is taken deepest first, under
the paths of before; then what is new is put outermost first, under the paths of after; then content
is exchanged and settings are set in place. Backwards it is as valid.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from .. import fs
from ..overlay import marks
from ..overlay.layer import LandingError
from ..overlay.steps import Swap, Walk
from .format import META, PUT, SWAP, TAKE, Identity, Inner, Op
from .staging import Stage
from .vault import NAME

Fault = Callable[[str], None]


def say(fault: Fault | None, step: str) -> None:
    """Name the next step to a test that may stop here."""
    if fault is not None:
        fault(step)


def plan(
    root: int, folder: int, walked: Walk, agent: str, *, durable: bool, fault: Fault | None
) -> list[Op]:
    """Stage all new content, made by `agent`, and return the operations in their order."""
    moves = {
        change["path"]: change["source"] for change in walked.changes if change["kind"] == "renamed"
    }
    stage = Stage(folder, walked.owners, agent, {**walked.origins, **moves})
    for number, put in enumerate(walked.puts):
        if put.source is None:
            say(fault, f"stage n{number}")
            stage.place(put.node, f"n{number}", put.path)
    for slot, source in stage.moved:
        if not marks.is_all_at(root, source, agent):
            _mark(folder, slot, marks.remove)
    for number, swap in enumerate(walked.swaps):
        say(fault, f"stage s{number}")
        stage.place(swap.node, f"s{number}", swap.path)
        if not stat.S_ISREG(swap.node.status.st_mode):
            continue
        if _was_moved_over(root, swap):
            _mark(folder, f"s{number}", marks.remove)
        elif not marks.is_all_at(root, swap.path, agent):
            _mark(folder, f"s{number}", marks.add_edited)
    if durable:
        say(fault, "sync")
        stage.sync()
    places = {put.source: put.path for put in walked.puts if put.source is not None}
    ops: list[Op] = []
    slots: dict[str, tuple[str, Identity]] = {}
    takes = sorted(walked.takes, key=lambda take: take.path.count("/"), reverse=True)
    for number, take in enumerate(takes):
        slot = f"o{number}"
        slots[take.path] = (slot, take.identity)
        place = places.get(take.path) if take.moved else None
        ops.append(Op(TAKE, take.path, slot, take.identity, inner=take.inner, other=place))
        ops[-1] = ops[-1]._replace(carried=take.carried)
    puts = []
    for number, put in enumerate(walked.puts):
        if put.source is None:
            identity, inner = _staged_identity(folder, f"n{number}")
            puts.append(Op(PUT, put.path, f"n{number}", identity, inner=inner))
        else:
            slot, identity = slots[put.source]
            puts.append(Op(PUT, put.path, slot, identity, other=put.source))
    ops += sorted(puts, key=lambda op: op.path.count("/"))
    for number, swap in enumerate(walked.swaps):
        identity, _ = _staged_identity(folder, f"s{number}")
        ops.append(Op(SWAP, swap.path, f"s{number}", identity, swap.identity))
    for meta in walked.metas:
        path = meta.path or "."
        ops.append(Op(META, path, old=meta.identity, before=meta.before, after=meta.after))
    return ops


def check_paths(walked: Walk) -> None:
    # P12: whatever gate 2 said, a landing never reaches into the records.
    paths = [take.path for take in walked.takes] + [put.path for put in walked.puts]
    paths += [swap.path for swap in walked.swaps] + [meta.path for meta in walked.metas]
    for path in paths:
        if path.split("/", 1)[0].casefold() == NAME:
            raise LandingError(f"`{NAME}` is not changed by landings")


def _was_moved_over(root: int, swap: Swap) -> bool:
    """Whether what is put in a file's place was another file, edited perhaps."""
    origin = fs.origin(swap.node.real)
    return origin is not None and origin != fs.handle(root, swap.path)


def _mark(folder: int, slot: str, how: Callable[[int], None]) -> None:
    descriptor = fs.open_beneath(folder, slot, fs.READ)
    try:
        how(descriptor)
    finally:
        os.close(descriptor)


def _staged_identity(folder: int, slot: str) -> tuple[Identity, Inner | None]:
    status = os.stat(slot, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISDIR(status.st_mode):
        return fs.identity(status), None
    inner = fs.open_directory(slot, folder)
    try:
        return fs.identity(status), {path: fs.identity(found) for path, found in fs.tree(inner)}
    finally:
        os.close(inner)
