# SPDX-License-Identifier: Apache-2.0
"""Undo what has landed: one call, or the newest ones, and look at what that would do.

An undo is a landing of its own: it has an id, stands in the record, and can be undone in turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from sandbox.effects import Shown
from sandbox.errors import BadInput, SandboxError, Stopped
from sandbox.keepers import Keepers, named
from sandbox.masking import mask
from sandbox.people.person import login
from sandbox.records import recorded
from sandbox.results import UndoReport, UndoResult


class Undoing:
    """Undoes through the keeper of the agent's own cell."""

    def __init__(self, keepers: Keepers, new_id: Callable[[], str]) -> None:
        self._keepers = keepers
        self._record = keepers.record
        self._new_id = new_id

    async def undo(self, call_id: str, *, dry_run: bool = False) -> UndoResult:
        """Undo a landed call. Raises BadInput, with the paths, where a later change would be lost.

        With `dry_run` nothing changes; `diff` of the result is what an undo would do.
        """
        entry = await asyncio.to_thread(self._landed, call_id)
        return await self._undo(entry, dry_run=dry_run)

    async def undo_last(self, count: int, *, dry_run: bool = False) -> UndoReport:
        """Undo the `count` newest landed calls, newest first, until one cannot be undone."""
        entries = await asyncio.to_thread(self._record.store.landed, count)
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
                left = tuple(one["id"] for one in entries[position:])
                return UndoReport(done=tuple(done), stopped=str(error), left=left)
            done.append(one)
            newer |= {path for view in one.changes for path in (view.path, view.source) if path}
        return UndoReport(done=tuple(done))

    def _landed(self, call_id: str) -> dict[str, Any]:
        store = self._record.store
        entry = store.last_landed() if call_id == "last" else store.call(call_id)
        call = entry["id"]
        if parts := entry["parts"]:
            standing = [one for one in map(store.call, parts) if not one["undone_by"]]
            if len(standing) == 1:
                return standing[0]
            names = ", ".join(f"`{one['id']}`" for one in reversed(standing))
            raise BadInput(
                f"call `{call}` landed in parts; undo them one by one: {names}"
                if standing
                else f"call `{call}` landed in parts, and all of them are undone already"
            )
        if not entry["landed"]:
            raise BadInput(f"call `{call}` has landed nothing that could be undone")
        if entry["undone_by"]:
            raise BadInput(f"call `{call}` is undone already, by `{entry['undone_by']}`")
        return entry

    async def _undo(
        self, entry: Mapping[str, Any], *, dry_run: bool, newer: set[str] | None = None
    ) -> UndoResult:
        """Undo one call; in a dry run, `newer` are paths that would be undone before it."""
        call, target = entry["id"], entry["last"]
        cell, workspaces = await self._keepers.of(entry)
        look = await cell.ask({"call": target, "shown": True}, op="outlook")
        shown = await self._keepers.shown(look, workspaces)
        refused = look["refused"]
        if refused and not (dry_run and newer and set(refused) <= newer):
            raise BadInput(_would_lose(call, refused))
        if dry_run:
            note = "as it stands now, before the newer ones are undone" if refused else ""
            diff = await asyncio.to_thread(mask, look["diff"])
            return UndoResult(id="", undone=call, changes=shown.views, diff=diff, message=note)
        name = self._new_id()
        about = {
            "undone": target,
            "of": call,
            "agent": entry["agent"],
            "tool": "undo",
            "workspace": workspaces[0],
            "also": list(workspaces[1:]),
            "landed_by": {"call": name, "person": login(), "grant": None},
        }
        await self._keepers.aftermath.begin("undoing", name, **about)
        wanted = shown.per_workspace(len(workspaces))
        request = {"call": target, "as": name, "digests": wanted}
        answer = await self._keepers.carry_out(name, entry, cell, request, op="undo")
        if refused := answer.get("refused"):
            await self._keepers.aftermath.given_up(name, "a later change would be lost")
            raise BadInput(_would_lose(call, refused))
        done = await self._keepers.shown(answer, workspaces)
        done = done.with_digests(answer.get("digests", ()))
        await self._note(name, about, done)
        await self._record.keep_diff(name, look["diff"])
        self._record.forgotten(answer.get("evicted", ()))
        return UndoResult(id=name, undone=call, changes=done.views)

    async def _note(self, name: str, about: Mapping[str, Any], done: Shown) -> None:
        await self._record.event(
            {
                "event": "undone",
                "call": name,
                **about,
                "landed": True,
                "changes": recorded(done.views),
                "changes_total": done.total,
            }
        )


def _would_lose(call: str, paths: list[str]) -> str:
    return f"call `{call}` cannot be undone without losing later changes of {named(paths)}"
