# SPDX-License-Identifier: Apache-2.0
"""Cells that are used for one call and thrown away, and a few that stand ready ahead of time.

Nothing of one call is there for the next: not its home, not /tmp, not a process. A ready cell was
never used; before it gets its call, its keeper looks again at what is to be hidden and pinned.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

from sandbox.cells.cell import Cell
from sandbox.cells.room import MakeRoom, with_room
from sandbox.cells.specs import Specs
from sandbox.errors import SandboxError


class Kind(NamedTuple):
    """Which cells can stand in for each other."""

    agent: str
    workspaces: tuple[str, ...]
    writes: bool | None
    """What its views are for; None for a cell that takes either kind of call."""


Make = Callable[[Kind], Awaitable[Cell]]


class Disposables:
    """Leases fresh cells."""

    def __init__(self, make: Make, specs: Specs, *, warm: int) -> None:
        """`warm` cells of each kind that was asked for stand ready."""
        self._make = make
        self._specs = specs
        self._warm = warm
        self._ready: dict[Kind, deque[Cell]] = {}
        self._used: set[Cell] = set()
        self._filling: dict[Kind, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self.make_room: MakeRoom = self.end_one

    def all(self) -> list[Cell]:
        """Return every cell that is ready or used."""
        return [*self._used, *(cell for ready in self._ready.values() for cell in ready)]

    @contextlib.asynccontextmanager
    async def lease(self, kind: Kind, *, again: bool = True) -> AsyncIterator[Cell]:
        """Give a fresh cell for one call, and throw it away after that, whatever came of it.

        Others are made ready if it is likely to be wanted `again`.
        """
        cell = await self.take(kind, again=again)
        try:
            yield cell
        finally:
            self.throw_away(cell)

    async def take(self, kind: Kind, *, again: bool = True) -> Cell:
        """Return a cell that nobody has used. `throw_away` must follow."""
        ready = self._ready.get(kind, deque())
        cell = None
        while ready and cell is None:
            cell = await self._checked(ready.popleft())
        if cell is None:
            cell = await with_room(lambda: self._make(kind), self.make_room)
            self._used.add(cell)
        cell.once = True
        if again:
            self.fill(kind)
        return cell

    def forget(self, cell: Cell) -> None:
        """Know no more of a cell that somebody else ends."""
        self._used.discard(cell)

    def throw_away(self, cell: Cell) -> None:
        """End a cell; the caller does not wait for the engine."""
        self._used.discard(cell)
        ending = cell.end("its call is over")
        task = asyncio.create_task(ending, context=contextvars.Context())  # no call waits for it
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def fill(self, kind: Kind) -> asyncio.Task[None] | None:
        """Have cells of a kind made ready, one after another; None where none are wanted."""
        if not self._warm:
            return None
        task = self._filling.get(kind)
        if task is None or task.done():
            filling = asyncio.create_task(self._fill(kind), context=contextvars.Context())
            task = self._filling[kind] = filling  # no call waits for it
        return task

    async def end_idle(self, *, now: float, seconds: float) -> None:
        """End ready cells that nobody has asked for; the next call of their kind starts anew."""
        for ready in self._ready.values():
            while ready and now - ready[0].used > seconds:
                self.throw_away(ready.popleft())

    async def end_one(self) -> bool:
        """End one ready cell, and wait until it is gone; False where none is ready."""
        ready = max(self._ready.values(), key=len, default=None)
        if not ready:
            return False
        await ready.popleft().end("others need what the kernel watched for it")
        return True

    async def end_all(self) -> None:
        """End every cell and wait until they are gone."""
        filling = [task for task in self._filling.values() if not task.done()]
        self._filling.clear()
        for task in filling:
            task.cancel()
        await asyncio.gather(*filling, return_exceptions=True)
        for cell in self.all():
            self.throw_away(cell)
        self._ready.clear()
        await asyncio.gather(*self._ending, return_exceptions=True)

    async def _fill(self, kind: Kind) -> None:
        ready = self._ready.setdefault(kind, deque())
        # What keeps a cell from starting is said by the call that needs one.
        with contextlib.suppress(SandboxError):
            while len(ready) < self._warm:
                ready.append(await self._make(kind))

    async def _checked(self, cell: Cell) -> Cell | None:
        """Return a ready cell if it still fits; else, or when cancelled, throw it away."""
        self._used.add(cell)
        fits = False
        try:
            fits = await self._fits(cell)
        finally:
            if not fits:
                self.throw_away(cell)
        return cell if fits else None

    async def _fits(self, cell: Cell) -> bool:
        try:
            if not (cell.alive and cell.stands() and await self._specs.fits(cell.spec)):
                return False
            return not (await cell.ask(op="look"))["changed"]
        except SandboxError:
            return False
