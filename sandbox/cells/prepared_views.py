# SPDX-License-Identifier: Apache-2.0
"""Cells over views that were mounted before they started, and keepers without a cell.

For runtimes with a kernel of their own (gVisor): the keeper mounts a transaction's view in a folder
that it shares with the engine, and the cell is created over it. A transaction is closed only when
the cell is gone, since a running one could write on. INVARIANT (P2, views).
"""

from __future__ import annotations

import asyncio
from typing import Any

from sandbox.cells.cell import Cell, to_its_end
from sandbox.cells.cell_spec import CellSpec
from sandbox.containers.engine import Engine
from sandbox.containers.plan import HOME, READING_HOME, ContainerPlan


class LoneKeeper(Cell):
    """A keeper without a cell: lands, undoes and discards for a person. No call runs in it."""

    async def start(self) -> None:
        """Start the keeper. Raises SandboxError; then nothing is left."""
        try:
            await self._start_keeper(self.spec.keeper(None))
        except BaseException as error:
            await self.end(f"it did not start: {error}")
            raise

    async def _start_keeper(self, plan: ContainerPlan) -> None:
        self._keeper_identity = await self._launch(plan, self._keeper)
        answer = await self.ask(self.spec.setup, op="setup")
        self.hidden = answer["hidden"]
        self._check_sources(answer)


class ViewCell(LoneKeeper):
    """A cell over views, for one call that may write, or for one that may not."""

    def __init__(self, engine: Engine, spec: CellSpec, *, writes: bool) -> None:
        super().__init__(engine, spec)
        self._writes = writes
        self._halted = False
        self._volume = f"{spec.name}-views"

    async def start(self) -> None:
        """Start the keeper, have it mount the views, and start the cell over them."""
        try:
            labels = dict(self.spec.labels)
            views = await to_its_end(lambda: self._engine.make_views(self._volume, labels))
            await self._start_keeper(self.spec.keeper(None, (self._volume, views)))
            await self.ask({"access": "write" if self._writes else "read"}, op="stage")
            shown = [f"{views}/{index}" for index in range(len(self.spec.workspaces))]
            plan = self.spec.cell(shown, writes=self._writes)
            self.identity = await self._launch(plan, self._runner)
            folders = [HOME, READING_HOME]
            self._runner.link.send({"op": "home", "files": self.spec.home, "folders": folders})
        except BaseException as error:
            await self.end(f"it did not start: {error}")
            raise

    async def ask(self, request: dict[str, Any] | None = None, *, op: str) -> dict[str, Any]:
        """Send the keeper a request; before a transaction is closed or dropped, the cell ends."""
        if op in ("close", "drop"):
            await self._end_cell()
        return await super().ask(request, op=op)

    async def _end_cell(self) -> None:
        if self.identity and not self._halted:
            self._runner.link.close()  # on purpose: the keeper goes on
            await asyncio.to_thread(self._engine.halt, self.identity)
            self._halted = True

    async def _remove(self) -> None:
        await super()._remove()
        await asyncio.to_thread(self._engine.remove_volume, self._volume)
