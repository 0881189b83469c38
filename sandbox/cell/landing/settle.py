# SPDX-License-Identifier: Apache-2.0
"""Bring a landing or an undo to its end, or back to its start: what `land` and `undo` share.

Runs in the keeper: standard library only, Python 3.9. What is relied on here (P11) is established
in `landing`.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from .. import fs
from ..git import index as gitindex
from ..journal import format as journal
from ..journal.apply import Conflict, Identities, Runner, Stuck, first_expected
from ..journal.format import Journal, Op
from ..journal.planning import Fault, say
from ..journal.vault import NAME, Vault
from ..overlay.layer import LandingError
from .adopt import take_in
from .stands import bytes_kept, identities

CONFLICT = "the workspace changed while the call ran"


class Landing(NamedTuple):
    """What a landing or an undo came to."""

    state: str
    """`landed`, `undone`, `nothing`; `conflict`, `turned`, `crowded` (nothing was changed)."""
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
    """For an undo: what it changed, or would change."""
    digests: Mapping[str, str] = MappingProxyType({})
    """Of what was asked for: path -> SHA-256 of what stands there now."""
    diff: str = ""
    """For a look at an undo: what it would change, as text."""
    lost: tuple[str, ...] = ()
    """Of the evicted calls those whose going a person must hear of (see `room`)."""
    own: tuple[str, ...] = ()
    """Of what was `crowded`: paths of which it would have kept the last copy itself."""

    @property
    def refused(self) -> tuple[str, ...]:
        """Paths that stood in the way."""
        return self.conflicts


def has_records(root: str) -> bool:
    """Whether anything was ever landed in a workspace."""
    descriptor = fs.open_directory(root)
    try:
        return fs.lstat(descriptor, NAME) is not None
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(root: str) -> Iterator[Vault]:
    """Open and lock the records of a workspace."""
    descriptor = fs.open_directory(root)
    try:
        with Vault(descriptor) as vault:
            take_in(vault)
            yield vault
    finally:
        os.close(descriptor)


class Done(NamedTuple):
    """What a run came to."""

    ops: list[Op]
    now: Identities
    kept: int
    back: bool


def complete(
    vault: Vault,
    folder: int,
    name: str,
    call: str,
    done: Done,
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


def gave_up(vault: Vault, name: str, call: str, error: Exception, *, keep: bool = False) -> Landing:
    """Return the refusal of a run that was reversed. Raises LandingError where it was not."""
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
    return refusal(error, call)


def refusal(error: Exception, call: str) -> Landing:
    """Return a conflict as a result; raise LandingError for anything else that changed nothing."""
    if isinstance(error, Conflict):
        return Landing("conflict", call, error.paths, message=CONFLICT)
    assert isinstance(error, OSError)
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    reason = "the disk is full" if full else str(error)
    raise LandingError(f"nothing was changed: {reason}")


def finish_all(vault: Vault, fault: Fault | None) -> list[Landing]:
    """Finish, or take back, what a crash cut short."""
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
            runner = Runner(vault.root, folder, ops, fault, exact=len(record.runs) == 1)
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
                    journal.append(
                        folder, journal.void(identities(vault.root, ops, expected)), durable=False
                    )
                return gave_up(vault, name, last.call, error, keep=len(record.runs) > 1)
            kept = bytes_kept(folder, ops, back=last.back)
            found = gitindex.found(vault.root, ops, now, back=last.back)
            line = journal.end(now, kept, gitindex.meanings(found))
            journal.append(folder, line, durable=False)
        vault.finish(name, last.call)
        vault.recount()
        return Landing("undone" if last.back else "landed", last.call)
    finally:
        os.close(folder)


def read_record(directory: int, name: str) -> Journal:
    """Return the journal of a complete landing. Raises LandingError for a damaged one."""
    folder = fs.open_directory(name, directory)
    try:
        record = journal.read(folder)
    finally:
        os.close(folder)
    if record is None or record.last.now is None:
        raise LandingError(f"the record of `{name}` is damaged; its files are in `{NAME}/undo`")
    return record


def said_evicted(calls: Sequence[str]) -> str:
    """Say which calls can no longer be undone."""
    if not calls:
        return ""
    names = ", ".join(f"`{call}`" for call in calls)
    return f"no longer undoable, since the quota of before-images is reached: {names}"
