# SPDX-License-Identifier: Apache-2.0
"""Land a transaction in the real workspace, undo a landing, recover after a crash.

    land(root: str, upper: str, changes: Walk | list[dict], call: str,
         owners: Mapping[int, int] | None = None, *, force: bool = False, durable: bool = True,
         quota: int = UNDO_QUOTA, fault: Callable[[str], None] | None = None) -> Landing
    undo(...), retract(...), outlook(...)   see `undo`
    recover(root: str, *, fault: Callable[[str], None] | None = None) -> list[dict]
    list_undo(root: str) -> list[dict]
    turn(root: str) -> int
    stamp(root: str) -> int

INVARIANT (P11, land): everything is staged under `.lockgate/landing/CALL/` in the workspace, and
the journal with the complete list of operations is on disk, before the first real path changes.
Each operation is one atomic rename or exchange. A crash at any point is finished, or taken back,
by `recover`, which every keeper runs when it starts and every landing when it finds one unfinished.

INVARIANT (P12, undo): what a landing replaced or deleted lies under `.lockgate/undo/CALL/` until
the quota drives it out; undoing (see `undo`) runs the same operations backwards.

Runs in the keeper: standard library only, Python 3.9. Decides nothing: gate 2 said what may land.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from .. import fs
from ..journal import format as journal
from ..journal.apply import Conflict, Runner, first_expected
from ..journal.planning import Fault, check_paths, plan, say
from ..journal.vault import NAME, UNDO_QUOTA, Vault, checked, turn_of
from ..overlay import marks
from ..overlay.layer import LandingError
from ..overlay.steps import Walk
from ..overlay.walk import walk
from . import room
from .contents import arriving
from .settle import (
    CONFLICT,
    Done,
    Landing,
    complete,
    finish_all,
    gave_up,
    has_records,
    locked,
    refusal,
    said_evicted,
)
from .stands import bytes_kept
from .taken import overruled
from .undo import mark_of, outlook, retract, undo

__all__ = [
    "Landing",
    "LandingError",
    "land",
    "list_undo",
    "mark_of",
    "outlook",
    "recover",
    "retract",
    "stamp",
    "turn",
    "undo",
]

TICK, MOST_TICKS = 0.001, 20
"""Seconds between two looks at a clock that stands still, and looks; one set back goes on later."""


def land(
    root: str,
    upper: str,
    changes: Walk | Sequence[Mapping[str, Any]],
    call: str,
    owners: Mapping[int, int] | None = None,
    *,
    force: bool = False,
    durable: bool = True,
    quota: int = UNDO_QUOTA,
    at: int | None = None,
    agent: str = "",
    spare: bool = False,
    plain: bool = False,
    fault: Fault | None = None,
) -> Landing:
    """Apply a layer to the workspace, whole or not at all.

    `changes` is what `walk` gave; a plain list (from JSON) makes the layer be walked again and must
    be what comes out. `force` lands over paths that changed while the call ran, as listed in
    `changes`; what changed after that is a conflict even so. `at` is the `turn` at which the
    changes were judged: where something else landed since, nothing is done (`turned`). What lands
    is marked as made by `agent`; with `spare`, nothing is done either where the last copy of
    something would go for its before-images (`crowded`, the paths are `conflicts`), which need not
    be kept themselves where what it replaces is `plain`: it can be made anew. Raises
    LandingError (a full disk, a name that may not be changed), then nothing was changed unless the
    message says otherwise.
    """
    checked(call)
    walked = changes if isinstance(changes, Walk) else _walked_again(root, upper, changes, owners)
    if walked.conflicts and not force:
        return Landing("conflict", call, tuple(walked.conflicts), message=CONFLICT)
    if walked.empty:
        return Landing("nothing", call, left_out=tuple(walked.left_out))
    check_paths(walked)
    with locked(root) as vault:
        finish_all(vault, fault)
        if at is not None and vault.turn() != at:
            return Landing("turned", call)
        if not force and (paths := overruled(vault, walked)):
            return Landing("conflict", call, tuple(paths), message=CONFLICT)
        folder = vault.start(call)
        try:
            try:
                ops = plan(vault.root, folder, walked, agent, durable=durable, fault=fault)
                if spare:
                    need = room.needed(vault, ops, agent, quota, plain=plain)
                    if need.last:
                        vault.drop(call)
                        return Landing("crowded", call, tuple(need.last), own=tuple(need.own))
                say(fault, "journal")
                held = arriving(folder, vault.root, ops, back=False)
                sign = marks.sign(agent)
                begun = journal.plan(call, ops, time.time(), sign, contents=held)
                journal.append(folder, begun, durable=durable)
            except (OSError, Conflict) as error:
                vault.drop(call)
                return refusal(error, call)
            runner = Runner(vault.root, folder, ops, fault, forced=force)
            try:
                now = runner.forward([first_expected(op) for op in ops])
            except (OSError, Conflict) as error:
                return gave_up(vault, call, call, error)
            kept = bytes_kept(folder, ops, back=False)
            done = Done(ops, now, kept, back=False)
            complete(vault, folder, call, call, done, fault, durable=durable)
        finally:
            os.close(folder)
        gone = room.make(vault, kept, quota, agent, call if plain else "")
    return Landing(
        "landed",
        call,
        (),
        tuple(walked.left_out),
        tuple(gone.evicted),
        said_evicted(gone.evicted),
        lost=tuple(dict.fromkeys((*gone.lost, *({call} & {*gone.evicted})))),
    )


def recover(root: str, *, fault: Fault | None = None) -> list[dict[str, Any]]:
    """Finish what a crash cut short; return one dict per landing: call, state, conflicts."""
    if not has_records(root):
        return []
    with locked(root) as vault:
        done = finish_all(vault, fault)
    # fit for JSON: a read-only mapping is not
    return [{**result._asdict(), "digests": dict(result.digests)} for result in done]


def list_undo(root: str) -> list[dict[str, Any]]:
    """Return what can be undone, oldest first: call, time (seconds since 1970), paths, bytes."""
    if not has_records(root):
        return []
    with locked(root) as vault:
        return [
            {
                "call": record.last.call,
                "of": record.call,
                "time": record.last.time,
                "paths": sorted({op.path for op in record.ops}),
                "bytes": record.last.kept,
            }
            for _, record in vault.kept()
            if record.last.now is not None
        ]


def turn(root: str) -> int:
    """Return a number that is another one as soon as anything lands or is undone here."""
    top = fs.open_directory(root)
    try:
        lock = fs.open_beneath(top, f"{NAME}/lock", os.O_RDONLY)
    except OSError as error:
        if error.errno not in fs.ABSENT:
            raise
        return 0
    finally:
        os.close(top)
    try:
        return turn_of(lock)
    finally:
        os.close(lock)


def stamp(root: str) -> int:
    """Return a fresh ctime of the workspace's file system, in nanoseconds.

    INVARIANT (P11, stamp): whatever changes later has this ctime or a later one, and what landings
    have changed has an earlier one. Clocks of file systems stand still for some milliseconds; so
    where one has not moved on since the last landing, this waits until it does.
    """
    descriptor = fs.open_directory(root)
    try:
        landed = fs.lstat(descriptor, f"{NAME}/undo")
        for _ in range(MOST_TICKS):
            now = _fresh(descriptor)
            if landed is None or now > landed.st_mtime_ns:
                break
            time.sleep(TICK)
        return now
    finally:
        os.close(descriptor)


# Parts


def _fresh(root: int) -> int:
    try:
        unnamed = os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=root)
    except OSError:  # a file system without unnamed files
        with Vault(root) as vault:
            status = vault.touch()
        return status.st_ctime_ns
    try:
        # From Linux 6.13 on, what was looked at gets an exact time when it changes.
        os.fstat(unnamed)
        os.utime(unnamed)
        return os.fstat(unnamed).st_ctime_ns
    finally:
        os.close(unnamed)


def _walked_again(
    root: str,
    upper: str,
    changes: Sequence[Mapping[str, Any]],
    owners: Mapping[int, int] | None,
) -> Walk:
    walked = walk(upper, root, owners=owners)
    wanted = sorted((c["path"], c["kind"]) for c in changes)
    if sorted((c["path"], c["kind"]) for c in walked.changes) != wanted:
        raise LandingError("the workspace changed since the changes were judged; look again")
    return walked
