# SPDX-License-Identifier: Apache-2.0
"""Reach the keeper that can act on a recorded call: that of the agent's own cell.

Shared by what a person does afterwards (`held`, `undo`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from policy.protected.paths import PathPolicy
from sandbox.agents.declared import DEFAULT
from sandbox.audit.call_entry import CallEntry
from sandbox.calls.recorder import Recorder
from sandbox.calls.recovery import Recovery
from sandbox.cells.cell import Cell
from sandbox.cells.pair.outcomes import CellLost
from sandbox.cells.pool import CellPool
from sandbox.cells.turns import Turns
from sandbox.cells.work import Kind, Work, WorkList
from sandbox.errors import BadInput, SandboxError
from sandbox.gates.shown_changes import Shown, shown_of
from sandbox.workspaces.ignore_ledger import Ledger
from sandbox.workspaces.replaced_ledger import ReplacedLedger

NAMED = 10
"""Paths that one message names."""


class Keepers:
    """The keepers of one supervisor, its record, and what it knows of workspaces."""

    def __init__(
        self,
        record: Recorder,
        pool: CellPool,
        checked: Callable[[Sequence[str]], tuple[str, ...]],
        paths: Callable[[tuple[str, ...]], PathPolicy],
        recovery: Recovery,
        ledger: Ledger,
        replaced: ReplacedLedger,
        turns: Turns,
        works: WorkList,
        known: Callable[[], tuple[str, ...]],
    ) -> None:
        """`known` gives the registered workspaces."""
        self.record = record
        self.pool = pool
        self.recovery = recovery
        self.ledger = ledger
        self.replaced = replaced
        self._checked = checked
        self._paths = paths
        self._turns = turns
        self._works = works
        self._known = known

    async def of(self, entry: CallEntry) -> tuple[Cell, tuple[str, ...]]:
        """Return a cell whose keeper has the workspaces of a call, and these workspaces."""
        workspaces = self._checked(entry.workspaces)
        return await self.pool.get(entry.agent or DEFAULT, workspaces), workspaces

    async def of_layer(self, entry: CallEntry) -> Cell:
        """Return a cell whose keeper sees the layer that is held of a call.

        Every keeper does; one of another workspace where the call's own is registered no more.
        Raises BadInput where none is.
        """
        try:
            return (await self.of(entry))[0]
        except BadInput:
            living, known = self.any_living(), self._known()
            if living is None and not known:
                raise
            return living or await self.pool.get(DEFAULT, known[:1])

    @contextlib.asynccontextmanager
    async def turn(self, entry: CallEntry, kind: Kind) -> AsyncIterator[None]:
        """Keep calls from landing in the workspaces of a recorded call, of which `kind` is made.

        So what is looked at first is the same when it lands, but for what happens outside.
        """
        work = Work(kind, entry.id, entry.agent, entry.workspaces)
        with self._works.listed(work):
            _, workspaces = await self.of(entry)  # a cell that must be started holds nobody up
            async with self._turns.take(workspaces):
                yield

    def any_living(self) -> Cell | None:
        """Return some living cell, whose keeper sees all that is held; None for none."""
        return next(iter(self.pool.living()), None)

    def paths(self, workspaces: tuple[str, ...]) -> PathPolicy:
        """Return what counts in these workspaces."""
        return self._paths(workspaces)

    async def shown(
        self, answer: Mapping[str, Any], workspaces: tuple[str, ...], key: str = "changes"
    ) -> Shown:
        """Return the raw changes in a keeper's answer for people."""
        paths = self._paths(workspaces)
        shown = await asyncio.to_thread(shown_of, answer[key], workspaces, paths)
        return replace(shown, total=max(shown.total, answer.get("total", {}).get(key, 0)))

    async def carry_out(
        self, name: str, entry: CallEntry, cell: Cell, request: dict[str, Any], *, op: str
    ) -> dict[str, Any]:
        """Have a keeper land or undo as `name`; where it dies over that, find out what became."""
        try:
            return await cell.ask(request, op=op)
        except CellLost as lost:

            async def again() -> Cell:
                return (await self.of(entry))[0]

            state, changes = await self.recovery.after_loss(name, lost, again)
            if state != "landed":
                await self.recovery.given_up(name, str(lost))
                raise
            return {"changes": changes}
        except SandboxError as error:
            await self.recovery.given_up(name, str(error))
            raise


def named(paths: Sequence[str]) -> str:
    """Return paths for a message."""
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return ", ".join(f"`{path}`" for path in paths[:NAMED]) + more
