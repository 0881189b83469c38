# SPDX-License-Identifier: Apache-2.0
"""Take back what a landing did, or what an undo took back.

    undo(root: str, call: str, new_call: str, *, digests: Sequence[str] = (), durable: bool = True,
         quota: int = UNDO_QUOTA, fault: Callable[[str], None] | None = None) -> Landing
    retract(root: str, name: str, *, fault: Callable[[str], None] | None = None) -> Landing
    outlook(root: str, call: str, hides: Callable[[str], bool], *, shown: bool, ...) -> Landing

INVARIANT (P12, undo): what a landing replaced or deleted lies under `.lockgate/undo/CALL/` until
the quota drives it out; undoing runs the same operations backwards, refuses where a path is no
longer as it was landed, and can itself be undone.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence

from .. import fs
from ..git_losses import undo as gitundo
from ..journal import format as journal
from ..journal.apply import Conflict, Runner, Stuck
from ..journal.format import SWAP, Content, Identity, Journal
from ..journal.planning import Fault, say
from ..journal.vault import UNDO_QUOTA, Vault, checked
from ..overlay import diffs
from ..overlay.diffs import Hides
from ..overlay.layer import LandingError
from ..overlay.sides import Piece
from ..overlay.sides import digests as digested
from ..overlay.steps import Change
from . import room
from .contents import amended, arriving, stands
from .outlook import of_run
from .settle import (
    Done,
    Landing,
    complete,
    finish_all,
    gave_up,
    locked,
    read_record,
    refusal,
    said_evicted,
)
from .stands import bytes_kept, carried_on, identities, later_changes, refreshed

LATER = "a later change would be lost"


def undo(
    root: str,
    call: str,
    new_call: str,
    *,
    digests: Sequence[str] = (),
    mark: str | None = None,
    agent: str = "",
    durable: bool = True,
    quota: int = UNDO_QUOTA,
    fault: Fault | None = None,
) -> Landing:
    """Take back what `call` landed, or undid; the undo is recorded as `new_call`.

    Refuses, naming the paths, where a later change would be lost. Raises LandingError where nothing
    is kept of the call, or where it was undone already. `digests` are the paths of changes whose
    content is to be told as it is put in place. `mark` is that of the `outlook` that was judged:
    where something else would change by now, nothing is done (LandingError). `agent` asks for it.
    """
    checked(new_call)
    with locked(root) as vault:
        finish_all(vault, fault)
        if fs.lstat(vault.undo, new_call) is not None:
            raise LandingError(f"`{new_call}` is recorded already")
        run = _Run(vault, call)
        if run.changed:
            return Landing("conflict", new_call, tuple(run.changed), message=LATER)
        changes, digest = run.outlook(digests)
        if mark is not None and mark_of(changes) != mark:
            raise LandingError("the workspace changed since that was looked at; ask again")
        name, record, back, ops = run.name, run.record, run.back, run.ops
        say(fault, "reopen")
        folder = vault.reopen(name)
        try:
            say(fault, "journal")
            held = arriving(folder, vault.root, ops, back=back)
            line = journal.run(
                new_call, back=back, time=time.time(), amended=run.amended, contents=held
            )
            try:
                journal.append(folder, line, durable=durable)
            except OSError as error:
                vault.finish(name, name)
                return refusal(error, new_call)
            runner = Runner(vault.root, folder, ops, fault, exact=False)
            try:
                after = runner.backward(run.now) if back else runner.forward(run.now)
            except (OSError, Conflict) as error:
                if not isinstance(error, Stuck):
                    journal.append(
                        folder,
                        journal.void(identities(vault.root, record.ops, run.now)),
                        durable=False,
                    )
                return gave_up(vault, name, new_call, error, keep=True)
            kept = bytes_kept(folder, record.ops, back=back)
            done = Done(ops, after, kept, back=back)
            complete(vault, folder, name, new_call, done, fault, durable=durable)
        finally:
            os.close(folder)
        gone = room.make(vault, kept - record.last.kept, quota, agent)
    message = said_evicted(gone.evicted)
    done_all = Landing("undone", new_call, (), (), tuple(gone.evicted), message, changes, digest)
    return done_all._replace(lost=tuple(gone.lost))


def retract(root: str, name: str, *, fault: Fault | None = None) -> Landing:
    """Undo what `name` landed or undid, so that the records are as if it had never been.

    For what failed in another workspace: it may be tried again under the same name. Does the rest
    where a crash cut that short. A `conflict` changes nothing.
    """
    back = f"{name}-back"
    done = Landing("undone", back)
    with locked(root) as vault:
        finish_all(vault, fault)
        stands = read_record(vault.undo, vault.folder_of(name)).last.call == name
    if stands:
        done = undo(root, name, back, fault=fault)
    if done.conflicts:
        return done
    with locked(root) as vault:
        folder = vault.folder_of(name)
        runs = read_record(vault.undo, folder).runs
        say(fault, "retract")
        if runs[-1].call == back and folder == name:
            vault.forget(folder)
        elif runs[-1].call == back:
            descriptor = fs.open_directory(folder, vault.undo)
            try:
                line = journal.void(runs.pop().now or [], runs=2)
                journal.append(descriptor, line, durable=True)
            finally:
                os.close(descriptor)
            runs.pop()
            say(fault, "retracted")
        if folder != name and name not in {run.call for run in runs}:
            for alias in (name, back):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(alias, dir_fd=vault.undo)
        vault.recount()
    return done


def outlook(
    root: str,
    call: str,
    hides: Hides,
    counts: Hides = lambda _: False,
    *,
    shown: bool,
    fault: Fault | None = None,
) -> Landing:
    """Return what an undo of `call` would do, without doing it: `conflict` or `undone`.

    The paths in the way are `conflicts`; with `shown`, `diff` is the text of the changes. Raises
    LandingError as `undo` does.
    """
    with locked(root) as vault:
        finish_all(vault, fault)
        run = _Run(vault, call)
        with run.pieces() as pieces:
            changes = tuple(piece.change for piece in pieces)
            text = diffs.text(pieces, hides, counts) if shown else ""
    state = "conflict" if run.changed else "undone"
    return Landing(state, call, tuple(run.changed), changes=changes, diff=text)


def mark_of(changes: Sequence[Change] | Sequence[Sequence[Change]]) -> str:
    """Return what tells lists of changes from any others: SHA-256, in hex."""
    return hashlib.sha256(json.dumps(list(changes), sort_keys=True).encode()).hexdigest()


def _placed(record: Journal) -> Iterator[str]:
    """Give the paths that a landing changed."""
    for op in record.ops:
        yield op.path
        for name in op.inner or {}:
            yield f"{op.path}/{name}"


class _Run:
    """The run that would take a landing or an undo back, as things stand."""

    def __init__(self, vault: Vault, call: str) -> None:
        self._vault = vault
        self.name = vault.folder_of(call)
        self.record = read_record(vault.undo, self.name)
        last = self.record.last
        if last.call != call:
            raise LandingError(f"`{call}` was taken back by `{last.call}`; undo that")
        self.back = not last.back
        ops, now = carried_on(
            vault.root,
            self.record.ops,
            last.now or [None] * len(self.record.ops),
            vault.growing,
        )
        self.now, self.amended = refreshed(vault.root, ops, now, last)
        self.ops = journal.amend(ops, self.amended)
        self.changed = later_changes(vault.root, self.ops, self.now, back=self.back)
        """Paths where a later change would be lost."""
        if self.changed and last.contents:
            self._compare_contents(last.contents, last.time)
        if self.changed and self.back:
            self._take_over()
        if not self.changed and gitundo.concerns(self.ops):
            with self.pieces() as pieces:
                self.changed = gitundo.needed(vault.root, pieces, time.time())

    def _compare_contents(self, contents: Mapping[str, Content], since: float) -> None:
        """Count as unchanged what holds what the last run left there, by whatever object.

        Where a later landing stands on the path, the same content is that landing's.
        """
        root = self._vault.root
        found = [
            (path, identity)
            for path in self.changed
            if path in contents and (identity := stands(root, path, contents[path]))
        ]
        if not found:
            return
        later = {
            place
            for _, other in self._vault.kept()
            if other.last.time > since and not other.last.back and other.call != self.record.call
            for place in _placed(other)
        }
        for path, identity in found:
            if path in later:
                continue
            position, amendments = amended(self.ops, path, identity, back=self.back)
            if position is not None:
                self.now[position] = identity
            self.amended += amendments
        self.ops = journal.amend(self.ops, self.amended)
        self.changed = later_changes(root, self.ops, self.now, back=self.back)

    def _take_over(self) -> None:
        """Count as unchanged what the same agent made there since, in landings whose records went.

        Else an agent could write twice, have the second record driven out, and so make the first
        one final. What a person, or a landing that is kept, left there is a later change as ever.
        """
        root = self._vault.root
        own: dict[int, Identity] = {}
        for position, op in enumerate(self.ops if self.record.sign else ()):
            status = fs.lstat(root, op.path) if op.path in self.changed else None
            if op.action != SWAP or status is None:
                continue
            if room.maker(root, op.path) == self.record.sign:
                own[position] = fs.identity(status)
        if not own:
            return
        kept = {
            (op.path, tuple(identity))
            for _, other in self._vault.kept()
            for op, identity in zip(other.ops, other.last.now or ())
            if identity is not None
        }
        for position, identity in own.items():
            if (self.ops[position].path, tuple(identity)) not in kept:
                self.now[position] = identity
                self.amended.append([position, "identity", None, identity])
        self.ops = journal.amend(self.ops, self.amended)
        self.changed = later_changes(root, self.ops, self.now, back=self.back)

    @contextlib.contextmanager
    def pieces(self) -> Iterator[list[Piece]]:
        """Give what the run would change, with its two sides."""
        folder = fs.open_directory(self.name, self._vault.undo)
        try:
            yield of_run(self._vault.root, folder, self.ops, back=self.back)
        finally:
            os.close(folder)

    def outlook(self, wanted: Sequence[str]) -> tuple[tuple[Change, ...], dict[str, str]]:
        """Return what the run will change, and the digests of what will stand at some paths."""
        with self.pieces() as pieces:
            return tuple(piece.change for piece in pieces), digested(pieces, wanted)
