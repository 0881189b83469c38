# SPDX-License-Identifier: Apache-2.0
"""Land a transaction in the real workspace, undo a landing, recover after a crash.

    land(root: str, upper: str, changes: Walk | list[dict], call: str,
         owners: Mapping[int, int] | None = None, *, force: bool = False, durable: bool = True,
         quota: int = UNDO_QUOTA, fault: Callable[[str], None] | None = None) -> Landing
    undo(root: str, call: str, new_call: str, *, durable: bool = True,
         quota: int = UNDO_QUOTA, fault: Callable[[str], None] | None = None) -> Landing
    recover(root: str, *, fault: Callable[[str], None] | None = None) -> list[dict]
    list_undo(root: str) -> list[dict]
    stamp(root: str) -> int

INVARIANT (P11, land): everything is staged under `.lockgate/landing/CALL/` in the workspace, and
the journal with the complete list of operations is on disk, before the first real path changes.
Each operation is one atomic rename or exchange. A crash at any point is finished, or taken back,
by `recover`, which every keeper runs when it starts and every landing when it finds one unfinished.

INVARIANT (P12, undo): what a landing replaced or deleted lies under `.lockgate/undo/CALL/` until
the quota drives it out; undoing runs the same operations backwards, refuses where a path is no
longer as it was landed, and can itself be undone.

Runs in the keeper: standard library only, Python 3.9. Decides nothing: gate 2 said what may land.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from . import fs, journal
from .applying import Conflict, Identities, Runner, Stuck, differing, first_expected, matches
from .journal import META, PUT, SWAP, TAKE, Identity, Inner, Journal, Op
from .staging import Stage
from .steps import Walk
from .vault import NAME, UNDO_QUOTA, LandingError, Vault, checked
from .walk import walk

__all__ = ["Landing", "LandingError", "land", "list_undo", "recover", "stamp", "undo"]

Fault = Callable[[str], None]
"""Called with the name of each step before it is done; tests raise from it."""


class Landing(NamedTuple):
    """What a landing or an undo came to."""

    state: str
    """`landed`, `undone`, `nothing`, or `conflict` (then nothing was changed)."""
    call: str
    conflicts: tuple[str, ...] = ()
    """Paths of the workspace that are not as they were when the changes were listed; for an undo,
    paths where a later change would be lost."""
    left_out: tuple[str, ...] = ()
    """Special files that did not land, and files that landed without their set-id bits."""
    evicted: tuple[str, ...] = ()
    """Calls that can no longer be undone, since the quota was reached."""
    message: str = ""
    changes: tuple[dict[str, Any], ...] = ()
    """For an undo: what it changed."""

    @property
    def refused(self) -> tuple[str, ...]:
        """Paths that stood in the way."""
        return self.conflicts


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
    fault: Fault | None = None,
) -> Landing:
    """Apply a layer to the workspace, whole or not at all.

    `changes` is what `walk` gave; a plain list (from JSON) makes the layer be walked again and must
    be what comes out. `force` lands over paths that changed while the call ran, as listed in
    `changes`; what changed after that is a conflict even so. Raises LandingError (a full disk, a
    name that may not be changed), then nothing was changed unless the message says otherwise.
    """
    checked(call)
    walked = changes if isinstance(changes, Walk) else _walked_again(root, upper, changes, owners)
    if walked.conflicts and not force:
        return Landing("conflict", call, tuple(walked.conflicts), message=_CONFLICT)
    if walked.empty:
        return Landing("nothing", call, left_out=tuple(walked.left_out))
    _check_paths(walked)
    with _locked(root) as vault:
        _finish_all(vault, fault)
        folder = vault.start(call)
        try:
            try:
                ops = _staged(folder, walked, durable=durable, fault=fault)
                _say(fault, "journal")
                journal.append(folder, journal.plan(call, ops, time.time()), durable=durable)
            except (OSError, Conflict) as error:
                vault.drop(call)
                return _refused(error, call)
            runner = Runner(vault.root, folder, ops, fault)
            try:
                now = runner.forward([first_expected(op) for op in ops])
            except (OSError, Conflict) as error:
                return _gave_up(vault, call, call, error)
            kept = _bytes_kept(ops, back=False)
            _complete(vault, folder, call, call, now, kept, fault)
        finally:
            os.close(folder)
        evicted = vault.account(kept, quota)
    return Landing("landed", call, (), tuple(walked.left_out), tuple(evicted), _evicted(evicted))


def undo(
    root: str,
    call: str,
    new_call: str,
    *,
    durable: bool = True,
    quota: int = UNDO_QUOTA,
    fault: Fault | None = None,
) -> Landing:
    """Take back what `call` landed, or undid; the undo is recorded as `new_call`.

    Refuses, naming the paths, where a later change would be lost. Raises LandingError where nothing
    is kept of the call, or where it was undone already.
    """
    checked(new_call)
    with _locked(root) as vault:
        _finish_all(vault, fault)
        name = vault.folder_of(call)
        if fs.lstat(vault.undo, new_call) is not None:
            raise LandingError(f"`{new_call}` is recorded already")
        record = _read(vault.undo, name)
        if record.last.call != call:
            raise LandingError(f"`{call}` was taken back by `{record.last.call}`; undo that")
        back = not record.last.back
        now = record.last.now or [None] * len(record.ops)
        if changed := _later_changes(vault.root, record.ops, now, back=back):
            return Landing("conflict", new_call, tuple(changed), message=_LATER)
        _say(fault, "reopen")
        folder = vault.reopen(name)
        try:
            _say(fault, "journal")
            line = journal.run(new_call, back=back, time=time.time())
            try:
                journal.append(folder, line, durable=durable)
            except OSError as error:
                vault.finish(name, name)
                return _refused(error, new_call)
            runner = Runner(vault.root, folder, record.ops, fault)
            try:
                after = runner.backward(now) if back else runner.forward(now)
            except (OSError, Conflict) as error:
                if not isinstance(error, Stuck):
                    journal.append(
                        folder, journal.void(_now(vault.root, record.ops)), durable=False
                    )
                return _gave_up(vault, name, new_call, error, keep=True)
            kept = _bytes_kept(record.ops, back=back)
            _complete(vault, folder, name, new_call, after, kept, fault)
        finally:
            os.close(folder)
        evicted = vault.account(kept - record.last.kept, quota)
    changes = tuple(_changes(record.ops, back=back))
    return Landing("undone", new_call, (), (), tuple(evicted), _evicted(evicted), changes)


def recover(root: str, *, fault: Fault | None = None) -> list[dict[str, Any]]:
    """Finish what a crash cut short; return one dict per landing: call, state, conflicts."""
    descriptor = fs.open_directory(root)
    try:
        if fs.lstat(descriptor, NAME) is None:
            return []
    finally:
        os.close(descriptor)
    with _locked(root) as vault:
        return [result._asdict() for result in _finish_all(vault, fault)]


def list_undo(root: str) -> list[dict[str, Any]]:
    """Return what can be undone, oldest first: call, time (seconds since 1970), paths, bytes."""
    descriptor = fs.open_directory(root)
    try:
        if fs.lstat(descriptor, NAME) is None:
            return []
    finally:
        os.close(descriptor)
    with _locked(root) as vault:
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


def stamp(root: str) -> int:
    """Return a fresh ctime of the workspace's file system, in nanoseconds."""
    descriptor = fs.open_directory(root)
    try:
        return _fresh(descriptor)
    finally:
        os.close(descriptor)


# Parts


_CONFLICT = "the workspace changed while the call ran"
_LATER = "a later change would be lost"


def _fresh(root: int) -> int:
    try:
        unnamed = os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=root)
    except OSError:  # a file system without unnamed files
        with Vault(root) as vault:
            status = vault.touch()
        return status.st_ctime_ns
    try:
        return os.fstat(unnamed).st_ctime_ns
    finally:
        os.close(unnamed)


@contextlib.contextmanager
def _locked(root: str) -> Iterator[Vault]:
    descriptor = fs.open_directory(root)
    try:
        with Vault(descriptor) as vault:
            yield vault
    finally:
        os.close(descriptor)


def _say(fault: Fault | None, step: str) -> None:
    if fault is not None:
        fault(step)


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


def _staged(folder: int, walked: Walk, *, durable: bool, fault: Fault | None) -> list[Op]:
    """Stage all new content and return the operations in their order."""
    stage = Stage(folder, walked.owners)
    for number, put in enumerate(walked.puts):
        if put.source is None:
            _say(fault, f"stage n{number}")
            stage.place(put.node, f"n{number}")
    for number, swap in enumerate(walked.swaps):
        _say(fault, f"stage s{number}")
        stage.place(swap.node, f"s{number}")
    if durable:
        _say(fault, "sync")
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


def _check_paths(walked: Walk) -> None:
    # P12: whatever gate 2 said, a landing never reaches into the records.
    paths = [take.path for take in walked.takes] + [put.path for put in walked.puts]
    paths += [swap.path for swap in walked.swaps] + [meta.path for meta in walked.metas]
    for path in paths:
        if path.split("/", 1)[0].casefold() == NAME:
            raise LandingError(f"`{NAME}` is not changed by landings")


def _staged_identity(folder: int, slot: str) -> tuple[Identity, Inner | None]:
    status = os.stat(slot, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISDIR(status.st_mode):
        return fs.identity(status), None
    inner = fs.open_directory(slot, folder)
    try:
        return fs.identity(status), {path: fs.identity(found) for path, found in fs.tree(inner)}
    finally:
        os.close(inner)


def _complete(
    vault: Vault,
    folder: int,
    name: str,
    call: str,
    now: Identities,
    kept: int,
    fault: Fault | None,
) -> None:
    """Record that a run is complete. A crash from here on only makes `recover` say so again."""
    _say(fault, "end")
    journal.append(folder, journal.end(now, kept), durable=False)
    _say(fault, "finish")
    vault.finish(name, call)
    _say(fault, "finished")


def _gave_up(
    vault: Vault, name: str, call: str, error: Exception, *, keep: bool = False
) -> Landing:
    if isinstance(error, Stuck):
        vault.set_aside(name)
        names = ", ".join(f"`{path}`" for path in error.paths)
        raise LandingError(
            f"{names} could not be put back as before; all of it is kept in `{vault.aside(name)}`"
        )
    if keep:
        vault.finish(name, name)
    else:
        vault.drop(name)
    return _refused(error, call)


def _refused(error: Exception, call: str) -> Landing:
    if isinstance(error, Conflict):
        return Landing("conflict", call, error.paths, message=_CONFLICT)
    assert isinstance(error, OSError)
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    reason = "the disk is full" if full else str(error)
    raise LandingError(f"nothing was changed: {reason}")


def _finish_all(vault: Vault, fault: Fault | None) -> list[Landing]:
    return [_finish(vault, name, fault) for name in vault.unfinished()]


def _finish(vault: Vault, name: str, fault: Fault | None) -> Landing:
    """Bring one unfinished landing to its end, or back to its start."""
    folder = fs.open_directory(name, vault.landing)
    try:
        record = journal.read(folder)
        if record is None:
            vault.drop(name)  # only staged: no real path was touched
            return Landing("nothing", name)
        last = record.last
        ops = record.ops
        if last.now is None:
            runner = Runner(vault.root, folder, ops, fault)
            stands = runner.progress()
            before = record.runs[-2].now if len(record.runs) > 1 else None
            expected = before or [first_expected(op) for op in ops]
            try:
                if last.back:
                    now = runner.backward(expected, stands)
                else:
                    now = runner.forward(expected, stands)
            except (OSError, Conflict) as error:
                if len(record.runs) > 1 and not isinstance(error, Stuck):
                    journal.append(folder, journal.void(_now(vault.root, ops)), durable=False)
                return _gave_up(vault, name, last.call, error, keep=len(record.runs) > 1)
            kept = _bytes_kept(ops, back=last.back)
            journal.append(folder, journal.end(now, kept), durable=False)
            vault.account(kept, UNDO_QUOTA)
        vault.finish(name, last.call)
        return Landing("undone" if last.back else "landed", last.call)
    finally:
        os.close(folder)


def _now(root: int, ops: list[Op]) -> Identities:
    found: Identities = []
    for op in ops:
        status = fs.lstat(root, "" if op.path == "." else op.path)
        found.append(None if status is None else fs.identity(status))
    return found


def _later_changes(
    root: int, ops: list[Op], now: Sequence[Identity | None], *, back: bool
) -> list[str]:
    """Return the paths that are no longer as the last run left them."""
    arrives, leaves = (TAKE, PUT) if back else (PUT, TAKE)
    placed = {op.path for op in ops if op.action == leaves}
    changed: list[str] = []
    for position, op in enumerate(ops):
        status = fs.lstat(root, "" if op.path == "." else op.path)
        expected = now[position]
        if op.action == arrives:
            if status is not None and not _covered(op.path, placed):
                changed.append(op.path)
        elif expected is None or status is None:
            if expected is not None and op.action == leaves:
                changed.append(op.path)
        elif not matches(fs.identity(status), expected):
            changed.append(op.path)
        elif op.inner is not None and op.action == leaves:
            found = _listing(root, op.path)
            news = differing(op.path, op.inner, found)
            changed += [path for path in news if not _covered(path, placed - {op.path})]
    return sorted(set(changed))


def _covered(path: str, placed: set[str]) -> bool:
    """Whether a path is one of `placed`, or lies in one."""
    parts = path.split("/")
    return any("/".join(parts[: n + 1]) in placed for n in range(len(parts)))


def _listing(root: int, path: str) -> Inner:
    descriptor = fs.open_beneath(root, path)
    try:
        return {name: fs.identity(status) for name, status in fs.tree(descriptor)}
    finally:
        os.close(descriptor)


def _read(directory: int, name: str) -> Journal:
    folder = fs.open_directory(name, directory)
    try:
        record = journal.read(folder)
    finally:
        os.close(folder)
    if record is None or record.last.now is None:
        raise LandingError(f"the record of `{name}` is damaged; its files are in `{NAME}/undo`")
    return record


def _bytes_kept(ops: list[Op], *, back: bool) -> int:
    """Return the size of what lies in the folder after a run."""
    total = 0
    for op in ops:
        if op.action == SWAP:
            lying = op.identity if back else op.old
        elif op.action == (PUT if back else TAKE) and op.other is None:
            lying = op.identity
        else:
            continue
        total += max(0, lying[1]) if lying else 0
        total += sum(max(0, held[1]) for held in (op.inner or {}).values())
    return total


def _changes(ops: list[Op], *, back: bool) -> Iterator[dict[str, Any]]:
    """Say what a run changed, as `walk` would."""
    for op in ops:
        if op.other is not None:
            if op.action == TAKE:
                old, new = (op.other, op.path) if back else (op.path, op.other)
                yield _change(new, "renamed", op.identity, source=old)
        elif op.action in (TAKE, PUT):
            kind = "created" if (op.action == TAKE) == back else "deleted"
            yield _change(op.path, kind, op.identity)
            for name, held in sorted((op.inner or {}).items()):
                yield _change(f"{op.path}/{name}", kind, held)
        else:
            yield _change(
                op.path, "modified" if op.action == SWAP else "meta", op.identity or op.old
            )


def _change(path: str, kind: str, identity: Identity | None, **more: str) -> dict[str, Any]:
    form = stat.S_IFREG if identity is None else identity[4]
    names = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink"}
    return {
        "path": path,
        "kind": kind,
        "type": names.get(form, "special"),
        "conflict": False,
        **more,
    }


def _evicted(calls: Sequence[str]) -> str:
    if not calls:
        return ""
    names = ", ".join(f"`{call}`" for call in calls)
    return f"no longer undoable, since the quota of before-images is reached: {names}"
