# SPDX-License-Identifier: Apache-2.0
"""The copy-on-write layer of one call, from opening to landing, holding or throwing away.

One writing call or many reading calls (which share one read-only view) are open in a cell at a
time. Whatever is not landed or held when the block ends is thrown away. INVARIANT (P2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, TypeVar

from sandbox.cells import work
from sandbox.cells.cell import Cell
from sandbox.cells.observation import Watched
from sandbox.cells.room import with_room
from sandbox.errors import SandboxError

T = TypeVar("T")


async def uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """Finish a piece of work even if the caller is cancelled meanwhile; then be cancelled."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


class Transaction:
    """An open transaction; use as `async with`."""

    def __init__(self, cell: Cell, name: str, *, write: bool) -> None:
        self.cell = cell
        self.name = name
        self.write = write
        self.empty = True
        """Once closed: whether there is nothing to land, not even a time of a file."""
        self.changes: list[list[dict[str, Any]]] = []
        """Once closed: what it changes, per workspace, as it was listed last."""
        self.turned = False
        """Whether others landed since that was listed, so that it was listed anew, to be judged."""
        self.watched = Watched()
        """Once closed: what the observer saw."""
        self.evicted: tuple[str, ...] = ()
        """Once landed: calls that can no longer be undone, since the quota is reached."""
        self.lost: tuple[str, ...] = ()
        """Of these, those that held the last copy of something, or were another agent's."""
        self.crowded: tuple[str, ...] = ()
        """Paths of which the last copy would go if it landed, so that it did not."""
        self.own: tuple[str, ...] = ()
        """Paths of which it would then keep the last copy itself."""
        self._settled = False
        self._work: work.Work | None = None

    async def __aenter__(self) -> Transaction:
        inside = self.cell.inside
        with work.waiting(lambda: work.say_first(inside)):
            await self.cell.lock.acquire(write=self.write)
        if mine := work.current():
            inside.append(mine)
        self._work = mine
        self.cell.busy += 1
        try:
            await uninterrupted(self._open())
        except BaseException:
            await uninterrupted(self._leave())
            raise
        work.enter(work.Phase.RUNS)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await uninterrupted(self._leave())

    async def _open(self) -> None:
        if self.write:
            request = {"tx": self.name, "access": "write"}
            await with_room(lambda: self.cell.ask(request, op="open"), self.cell.make_room)
            return
        async with self.cell.opening:
            if self.cell.readers == 0:
                await self.cell.ask({"tx": self.name, "access": "read"}, op="open")
                self.cell.reading = self.name
            self.cell.readers += 1

    async def _leave(self) -> None:
        try:
            if self.write:
                if not self._settled and self.cell.alive:
                    await self.cell.ask({"tx": self.name}, op="drop")
            else:
                async with self.cell.opening:
                    await self._leave_reading()
        except SandboxError as error:
            await self.cell.end(f"a transaction could not be ended: {error}")
        finally:
            self.cell.busy -= 1
            if self._work is not None:
                self.cell.inside.remove(self._work)
            self.cell.used = asyncio.get_running_loop().time()
            self.cell.lock.release(write=self.write)

    async def _leave_reading(self) -> None:
        if self.cell.readers == 0:  # the view could not be opened
            return
        self.cell.readers -= 1
        if self.cell.readers == 0 and self.cell.alive:
            # Not waited for: the keeper does what it is asked in order, so the next call opens
            # after this; if it fails, the cell ends.
            self.cell.tell({"tx": self.cell.reading}, op="close")

    async def close(self) -> tuple[list[list[dict[str, Any]]], str]:
        """Detach the layer; return its changes per workspace, and their diff as text."""
        work.enter(work.Phase.LOOKS)
        answer = await uninterrupted(self.cell.ask({"tx": self.name}, op="close"))
        self.empty = answer["empty"]
        self.watched = Watched.of(answer)
        self.changes = answer["changes"]
        return self.changes, answer["diff"]

    async def digests(self, wanted: list[list[str]]) -> list[dict[str, str]]:
        """Return, per workspace, the SHA-256 of what the changes leave at some paths."""
        answer = await uninterrupted(
            self.cell.ask({"tx": self.name, "digests": wanted}, op="digests")
        )
        return list(answer["digests"])

    async def land(self, *, plain: bool = False) -> list[str]:
        """Apply the changes; return the paths that conflict (then nothing was applied).

        Nor was anything where it is `turned` or `crowded`. `plain`: what it replaces can be made
        anew, so that no copy of it need be kept.
        """
        request = {"tx": self.name, **({"plain": True} if plain else {})}
        work.enter(work.Phase.LANDS, changes=sum(map(len, self.changes)))
        answer = await uninterrupted(self.cell.ask(request, op="land"))
        self.crowded = tuple(answer.get("crowded", ()))
        self.own = tuple(answer.get("own", ()))
        self.turned = bool(answer.get("turned"))
        if self.turned:
            self.changes, self.empty = answer["changes"], answer["empty"]
        self._settled = not (answer["conflicts"] or self.turned or self.crowded)
        self.evicted = tuple(answer.get("evicted", ()))
        self.lost = tuple(answer.get("lost", ()))
        return list(answer["conflicts"])

    async def hold(self) -> None:
        """Keep the layer for a person."""
        await uninterrupted(self.cell.ask({"tx": self.name}, op="hold"))
        self._settled = True
