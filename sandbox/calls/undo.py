# SPDX-License-Identifier: Apache-2.0
"""Undo what has landed: one call, or the newest ones, and look at what that would do.

An undo is a landing of its own: it has an id, stands in the record, and can be undone in turn. It
is whose who asked for it; what an agent may undo, `gates.undo_judgement` says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from sandbox.audit.call_entry import CallEntry
from sandbox.audit.events.follow_ups import UndoingRecord, UndoneRecord
from sandbox.calls.keepers import Keepers, named
from sandbox.calls.record_fields import recorded
from sandbox.cells import work
from sandbox.errors import BadInput, SandboxError, Stopped
from sandbox.gates import undo_judgement
from sandbox.gates.masked_diff import masked_diff
from sandbox.gates.shown_changes import Shown
from sandbox.host.latch import below
from sandbox.host.login import login
from sandbox.results import UndoReport, UndoResult


class Undoing:
    """Undoes through the keeper of the agent's own cell."""

    def __init__(self, keepers: Keepers, new_id: Callable[[], str], by: str | None) -> None:
        """`by` is the agent that asks; None for a person."""
        self._by = by
        self._keepers = keepers
        self._record = keepers.record
        self._new_id = new_id

    async def undo(self, call_id: str, *, dry_run: bool = False) -> UndoResult:
        """Undo a landed call. Raises BadInput, with the paths, where a later change would be lost.

        With `dry_run` nothing changes; `diff` of the result is what an undo would do.
        """
        entry = await asyncio.to_thread(self._landed, call_id)
        return await self._undo(entry, dry_run=dry_run)

    async def of(self, entry: CallEntry, *, dry_run: bool, newer: set[str]) -> UndoResult:
        """Undo one of several calls; in a dry run, `newer` are paths that would be undone first."""
        return await self._undo(entry, dry_run=dry_run, newer=newer)

    async def undo_last(
        self, count: int, *, dry_run: bool = False, workspace: str | None = None
    ) -> UndoReport:
        """Undo the `count` newest landed calls (in a workspace), newest first, until one cannot be
        undone."""
        entries = await asyncio.to_thread(self._record.store.landed, count, workspace)
        if not entries:
            raise BadInput("no call has landed anything that could be undone")
        done: list[UndoResult] = []
        newer: set[str] = set()
        for position, entry in enumerate(entries):
            try:
                one = await self._undo(entry, dry_run=dry_run, newer=newer)
            except Stopped:
                raise
            except SandboxError as error:
                left = tuple(one.id for one in entries[position:])
                return UndoReport(done=tuple(done), stopped=str(error), left=left)
            done.append(one)
            newer |= {path for view in one.changes for path in (view.path, view.source) if path}
        return UndoReport(done=tuple(done))

    def _landed(self, call_id: str) -> CallEntry:
        store = self._record.store
        entry = store.last_landed() if call_id == "last" else store.call(call_id)
        call = entry.id
        if parts := entry.parts:
            standing = [one for one in map(store.call, parts) if not one.undone_by]
            if len(standing) == 1:
                return standing[0]
            names = ", ".join(f"`{one.id}`" for one in reversed(standing))
            raise BadInput(
                f"call `{call}` landed in parts; undo them one by one: {names}"
                if standing
                else f"call `{call}` landed in parts, and all of them are undone already"
            )
        if not entry.landed:
            raise BadInput(f"call `{call}` has landed nothing that could be undone")
        if entry.undone_by:
            raise BadInput(f"call `{call}` is undone already, by `{entry.undone_by}`")
        return entry

    async def _undo(
        self, entry: CallEntry, *, dry_run: bool, newer: set[str] | None = None
    ) -> UndoResult:
        """Undo one call; in a dry run, `newer` are paths that would be undone before it."""
        await asyncio.to_thread(self._check_owner, entry)
        async with self._keepers.turn(entry, work.Kind.UNDO):
            work.enter(work.Phase.LOOKS)
            return await self._undo_in_turn(entry, dry_run=dry_run, newer=newer)

    async def _undo_in_turn(
        self, entry: CallEntry, *, dry_run: bool, newer: set[str] | None
    ) -> UndoResult:
        call, target = entry.id, entry.last
        cell, workspaces = await self._keepers.of(entry)
        look = await cell.ask({"call": target, "shown": True}, op="outlook")
        shown = await self._keepers.shown(look, workspaces)
        refused = look["refused"]
        if refused and not (dry_run and newer and set(refused) <= newer):
            raise BadInput(_would_lose(call, refused))
        await asyncio.to_thread(self._check_changes, entry, look["changes"], workspaces)
        if dry_run:
            note = "as it stands now, before the newer ones are undone" if refused else ""
            diff = await asyncio.to_thread(masked_diff, look["diff"])
            return UndoResult(
                id="",
                undone=call,
                changes=shown.views,
                changes_total=shown.total,
                diff=diff,
                message=note,
            )
        name = self._new_id()
        about: dict[str, Any] = {
            "call": name,
            "undone": target,
            "of": call,
            "agent": self._by,
            "asked_by": {"agent": self._by} if self._by else {"person": login()},
            "tool": "undo",
            "workspace": workspaces[0],
            "also": list(workspaces[1:]),
            "landed_by": {
                "call": name,
                "person": None if self._by else login(),
                "grant": None,
            },
        }
        await self._keepers.recovery.begin(UndoingRecord(**about))
        work.enter(work.Phase.UNDOES, changes=shown.total)
        wanted = shown.per_workspace(len(workspaces))
        request = {"call": target, "as": name, "digests": wanted, "mark": look["mark"]}
        request["agent"] = self._by or ""
        answer = await self._keepers.carry_out(name, entry, cell, request, op="undo")
        if refused := answer.get("refused"):
            await self._keepers.recovery.given_up(name, "a later change would be lost")
            raise BadInput(_would_lose(call, refused))
        done = await self._keepers.shown(answer, workspaces)
        done = done.with_digests(answer.get("digests", ()))
        await self._note(name, about, done)
        await self._record.keep_diff(name, look["diff"])
        self._record.forgotten(answer.get("evicted", ()))
        return UndoResult(id=name, undone=call, changes=done.views, changes_total=done.total)

    def _check_owner(self, entry: CallEntry) -> None:
        """Raise BadInput where an agent would take back what is not its own."""
        if self._by is None:
            return
        last = self._record.store.call(entry.last)  # what the undo takes back, in fact
        for one in (entry, last):
            whose = undo_judgement.owner(one)
            if whose is None:
                raise BadInput(
                    f"`{one.id}` was undone or landed by a person; taking that back is a "
                    "person's decision"
                )
            if not below(self._by, whose):
                raise BadInput(f"`{one.id}` is not agent `{self._by}`'s to undo")

    def _check_changes(self, entry: CallEntry, raw: Any, workspaces: tuple[str, ...]) -> None:
        """Raise BadInput where an undo would change what is a person's, or bring more along."""
        paths, ledger = self._keepers.paths(workspaces), self._keepers.ledger
        if late := undo_judgement.late(raw, workspaces, paths, ledger):
            raise BadInput(
                f"call `{entry.id}` cannot be undone: {named(late)} would come from a folder "
                "that it moved, and got there later; move that away, or undo what brought it, first"
            )
        if self._by is None:
            return
        again = bool(entry.undone)
        if why := undo_judgement.why_not(raw, workspaces, paths, ledger, again=again):
            raise BadInput(f"undoing `{entry.id}` is a person's decision, since it changes {why}")

    async def _note(self, name: str, about: Mapping[str, Any], done: Shown) -> None:
        await self._record.event(
            UndoneRecord(
                **about,
                landed=True,
                changes=recorded(done.views),
                changes_total=done.total,
            )
        )


def _would_lose(call: str, paths: list[str]) -> str:
    return f"call `{call}` cannot be undone without losing later changes of {named(paths)}"
