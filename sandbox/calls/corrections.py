# SPDX-License-Identifier: Apache-2.0
"""A person's word on calls that are over or about to land: undo, land, discard, object.

Mending is possible while all is stopped, too; no cell stays running then.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from sandbox.approvals.objections import Objections
from sandbox.calls.edits.keeping import EditKeeping
from sandbox.calls.edits.several import Chosen, Several
from sandbox.calls.flow.learning import Learning
from sandbox.calls.held import Held
from sandbox.calls.held_results import result_of
from sandbox.calls.keepers import Keepers
from sandbox.calls.recorder import Recorder
from sandbox.calls.undo import Undoing
from sandbox.errors import BadInput
from sandbox.host.latch import Latch, mending
from sandbox.host.login import login
from sandbox.results import CallResult, ChangedReport, HeldCall, HeldLook, UndoReport, UndoResult


class Corrections:
    """What people undo, land, throw away and object to, through one supervisor."""

    def __init__(
        self,
        record: Recorder,
        latch: Latch,
        objections: Objections,
        learning: Learning,
        *,
        new_id: Callable[[], str],
        keepers: Callable[[], Awaitable[Keepers]],
        end_cells: Callable[[], Awaitable[None]],
        edits: EditKeeping,
    ) -> None:
        """`keepers` reaches the keepers of now; `end_cells` ends what was started for mending."""
        self._record = record
        self._latch = latch
        self._objections = objections
        self._learning = learning
        self._new_id = new_id
        self._keepers = keepers
        self._end_cells = end_cells
        self._edits = edits
        self._mending = asyncio.Lock()

    async def undo(self, call_id: str, *, dry_run: bool, by: str | None) -> UndoResult:
        """Undo a landed call, for agent `by` or (None) a person. Raises BadInput with the paths
        where a later change would be lost, and where it is not the asker's to undo."""
        async with self._mended():
            undoing = Undoing(await self._reached(), self._new_id, by)
            if why := await self._edits.why_open(call_id):
                raise BadInput(why)
            result = await undoing.undo(call_id, dry_run=dry_run)
        if not dry_run:
            await self._learn(result.undone)
        return result

    async def undo_last(self, count: int, *, dry_run: bool, workspace: str | None) -> UndoReport:
        """Undo the newest landed calls, newest first, until one cannot be undone."""
        async with self._mended():
            undoing = Undoing(await self._reached(), self._new_id, None)
            report = await undoing.undo_last(count, dry_run=dry_run, workspace=workspace)
        for undo_result in () if dry_run else report.done:
            await self._learn(undo_result.undone)
        return report

    async def changed(self, chosen: Chosen) -> ChangedReport:
        """Return what the chosen calls changed, all in all, as far as it stands."""
        async with self._mended():
            return await self._several(await self._reached()).changed(chosen)

    async def undo_chosen(self, chosen: Chosen, *, dry_run: bool) -> UndoReport:
        """Undo what stands of the chosen calls, newest first; what cannot be undone is named."""
        async with self._mended():
            report = await self._several(await self._reached()).undo(chosen, dry_run=dry_run)
        for undo_result in () if dry_run else report.done:
            await self._learn(undo_result.undone)
        return report

    async def held(self) -> tuple[HeldCall, ...]:
        """Return what waits for a person to land or discard it, newest first."""
        async with self._mended():
            return await Held(await self._reached()).waiting()

    async def look_held(self, call_id: str) -> HeldLook:
        """Look at a held transaction as things stand, for a person: it is what was shown then."""
        async with self._mended():
            return await Held(await self._reached()).look(call_id)

    async def land(
        self, call_id: str, paths: Sequence[str], *, force: bool, digest: str | None
    ) -> CallResult:
        """Land a held transaction, or some of its paths. Raises Stopped while all is stopped."""
        self._latch.check()
        return await Held(await self._reached()).land(call_id, paths, force=force, digest=digest)

    async def discard(self, call_id: str) -> CallResult:
        """Throw away a held transaction, or what waits to land."""
        waits = self._objections.only(call_id) if call_id != "last" else None
        if waits is not None:
            return await self.object(waits, "")
        async with self._mended():
            return await Held(await self._reached()).discard(call_id)

    async def object(self, call_id: str, reason: str) -> CallResult:
        """Object to a call whose changes wait to land: they are thrown away."""
        waits = self._objections.only(call_id)
        over = self._objections.object(waits, login(), reason) if waits else None
        if waits is None or over is None:
            raise BadInput(f"no call `{call_id}` waits to land; `lockgate ps` lists those that do")
        await over.wait()
        await self._record.flush()
        return result_of(await asyncio.to_thread(self._record.store.call, waits))

    def _several(self, keepers: Keepers) -> Several:
        return Several(keepers, Undoing(keepers, self._new_id, None), self._edits)

    async def _reached(self) -> Keepers:
        await self._edits.settle()
        await self._record.flush()  # a call that has just ended must be found
        return await self._keepers()

    async def _learn(self, call_id: str) -> None:
        entry = await asyncio.to_thread(self._record.store.call, call_id)
        if entry.tool != "undo":
            workspaces = entry.workspaces
            await self._learning.from_undo(entry.agent or "main", workspaces)

    @contextlib.asynccontextmanager
    async def _mended(self) -> AsyncIterator[None]:
        if self._latch.read() is None:
            yield
            return
        async with self._mending:
            with mending():
                yield
            await self._end_cells()
