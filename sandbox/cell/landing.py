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
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from . import fs, gitindex, journal
from .applying import Conflict, Identities, Runner, Stuck, first_expected
from .journal import Journal, Op
from .layer import LandingError
from .planning import Fault, check_paths, plan, say
from .standing import bytes_kept, carried_on, changes_of, identities, later_changes, refreshed
from .steps import Walk
from .vault import NAME, UNDO_QUOTA, Vault, checked
from .walk import walk

__all__ = ["Landing", "LandingError", "land", "list_undo", "recover", "stamp", "undo"]


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
    check_paths(walked)
    with _locked(root) as vault:
        _finish_all(vault, fault)
        folder = vault.start(call)
        try:
            try:
                ops = plan(folder, walked, durable=durable, fault=fault)
                say(fault, "journal")
                journal.append(folder, journal.plan(call, ops, time.time()), durable=durable)
            except (OSError, Conflict) as error:
                vault.drop(call)
                return _refused(error, call)
            runner = Runner(vault.root, folder, ops, fault)
            try:
                now = runner.forward([first_expected(op) for op in ops])
            except (OSError, Conflict) as error:
                return _gave_up(vault, call, call, error)
            kept = bytes_kept(ops, back=False)
            done = _Done(ops, now, kept, back=False)
            _complete(vault, folder, call, call, done, fault, durable=durable)
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
        ops, now = carried_on(
            vault.root,
            record.ops,
            record.last.now or [None] * len(record.ops),
            lambda: (other for _, other in vault.kept()),
        )
        now, amended = refreshed(vault.root, ops, now, record.last)
        ops = journal.amend(ops, amended)
        if changed := later_changes(vault.root, ops, now, back=back):
            return Landing("conflict", new_call, tuple(changed), message=_LATER)
        say(fault, "reopen")
        folder = vault.reopen(name)
        try:
            say(fault, "journal")
            line = journal.run(new_call, back=back, time=time.time(), amended=amended)
            try:
                journal.append(folder, line, durable=durable)
            except OSError as error:
                vault.finish(name, name)
                return _refused(error, new_call)
            runner = Runner(vault.root, folder, ops, fault)
            try:
                after = runner.backward(now) if back else runner.forward(now)
            except (OSError, Conflict) as error:
                if not isinstance(error, Stuck):
                    journal.append(
                        folder, journal.void(identities(vault.root, record.ops)), durable=False
                    )
                return _gave_up(vault, name, new_call, error, keep=True)
            kept = bytes_kept(record.ops, back=back)
            done = _Done(ops, after, kept, back=back)
            _complete(vault, folder, name, new_call, done, fault, durable=durable)
        finally:
            os.close(folder)
        evicted = vault.account(kept - record.last.kept, quota)
    changes = tuple(changes_of(record.ops, back=back))
    return Landing("undone", new_call, (), (), tuple(evicted), _evicted(evicted), changes)


def recover(root: str, *, fault: Fault | None = None) -> list[dict[str, Any]]:
    """Finish what a crash cut short; return one dict per landing: call, state, conflicts."""
    if not _has_records(root):
        return []
    with _locked(root) as vault:
        return [result._asdict() for result in _finish_all(vault, fault)]


def list_undo(root: str) -> list[dict[str, Any]]:
    """Return what can be undone, oldest first: call, time (seconds since 1970), paths, bytes."""
    if not _has_records(root):
        return []
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


def _has_records(root: str) -> bool:
    descriptor = fs.open_directory(root)
    try:
        return fs.lstat(descriptor, NAME) is not None
    finally:
        os.close(descriptor)


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


class _Done(NamedTuple):
    """What a run came to."""

    ops: list[Op]
    now: Identities
    kept: int
    back: bool


def _complete(
    vault: Vault,
    folder: int,
    name: str,
    call: str,
    done: _Done,
    fault: Fault | None,
    *,
    durable: bool,
) -> None:
    """Record that a run is complete. A crash from here on only makes `recover` say so again."""
    say(fault, "end")
    with contextlib.suppress(OSError):  # the run is complete; what is left, recovery does
        indexes = gitindex.found(vault.root, done.ops, done.now, back=done.back)
        meanings = gitindex.meanings(indexes)
        journal.append(folder, journal.end(done.now, done.kept, meanings), durable=False)
        if indexes:
            say(fault, "index")
            amended = gitindex.settle(
                vault.root, folder, done.ops, indexes, back=done.back, durable=durable
            )
            say(fault, "settled")
            if amended:
                now = list(done.now)
                for position, which, _, identity in amended:
                    now[position] = now[position] if which == "inner" else identity
                line = journal.end(now, done.kept, meanings, amended)
                journal.append(folder, line, durable=False)
        say(fault, "finish")
        vault.finish(name, call)
    say(fault, "finished")


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
                    journal.append(folder, journal.void(identities(vault.root, ops)), durable=False)
                return _gave_up(vault, name, last.call, error, keep=len(record.runs) > 1)
            kept = bytes_kept(ops, back=last.back)
            found = gitindex.found(vault.root, ops, now, back=last.back)
            line = journal.end(now, kept, gitindex.meanings(found))
            journal.append(folder, line, durable=False)
        vault.finish(name, last.call)
        vault.recount()
        return Landing("undone" if last.back else "landed", last.call)
    finally:
        os.close(folder)


def _read(directory: int, name: str) -> Journal:
    folder = fs.open_directory(name, directory)
    try:
        record = journal.read(folder)
    finally:
        os.close(folder)
    if record is None or record.last.now is None:
        raise LandingError(f"the record of `{name}` is damaged; its files are in `{NAME}/undo`")
    return record


def _evicted(calls: Sequence[str]) -> str:
    if not calls:
        return ""
    names = ", ".join(f"`{call}`" for call in calls)
    return f"no longer undoable, since the quota of before-images is reached: {names}"
