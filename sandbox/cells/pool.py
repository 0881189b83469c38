# SPDX-License-Identifier: Apache-2.0
"""The cells of one supervisor: one per agent and set of workspaces, made when first needed.

Also sweeps at the start what a supervisor that ended badly left behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sandbox.cells.cell import Cell
from sandbox.cells.disposable import Disposables, Kind
from sandbox.cells.prepared_views import LoneKeeper, ViewCell
from sandbox.cells.specs import PathsOf, Specs
from sandbox.cells.work import WorkList, waiting
from sandbox.config.settings import AskHosts, Dirs, Lifetime, Settings
from sandbox.containers.endpoints import connect
from sandbox.containers.engine import Engine
from sandbox.containers.images import Images, check_image, names
from sandbox.containers.ledger import ContainerNotes, state_label
from sandbox.containers.plan import LABEL_OWNER
from sandbox.containers.runtimes import default_of, missing, moves_mounts, unenforced
from sandbox.errors import ImageProblem, NotEnforced, SandboxError
from sandbox.host.process_owner import lives, owner_label
from sandbox.projects.toolchains import ToolchainRecord

Key = tuple[str, tuple[str, ...]]
COUNT_SECONDS = 5.0
"""A keeper that does not say in this time what waits for a person is not asked again."""


class CellPool:
    """Gives out cells. Every container in it carries this supervisor's labels."""

    def __init__(
        self,
        engine: Engine,
        images: Images,
        settings: Settings,
        paths: PathsOf,
        labels: Mapping[str, str],
        doors: Path,
        toolchains: ToolchainRecord | None = None,
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._specs = Specs(engine, images, settings, paths, labels, doors, toolchains)
        self._cells: dict[Key, Cell] = {}
        self._starting: dict[Key, asyncio.Lock] = {}
        self._extra: set[Cell] = set()
        self._retired: set[Cell] = set()
        self._doors = doors
        self._disposable = settings.lifetime is Lifetime.DISPOSABLE
        self._disposables = Disposables(self._fresh, self._specs, warm=settings.warm)
        self._disposables.make_room = self._make_room
        self._moves = moves_mounts(settings.runtime or "runc")
        """Whether its keeper can move mounts into a cell that runs."""
        self.on_start: Callable[[Cell], Awaitable[None]] = _nothing
        """Awaited for each cell that has just started, before it gets a call."""
        self.works = WorkList()
        """What goes on: a new keeper waits for what lands in its workspaces."""

    @classmethod
    def connect(
        cls, dirs: Dirs, settings: Settings, paths: PathsOf, labels: Mapping[str, str]
    ) -> CellPool:
        """Reach the engine, check the images, sweep leftovers. Blocking. Raises SandboxError."""
        client = connect()
        wanted = names()
        cell = settings.image or wanted.cell
        for tag in (cell, wanted.keeper):
            if problem := check_image(client, tag):
                raise ImageProblem(problem)
        engine = Engine(client, state_label(dirs), ContainerNotes(dirs))
        settings = _enforceable(settings, engine.info())
        doors = dirs.runtime / "cells" / owner_label().replace(":", "-")
        used = Images(cell=cell, keeper=wanted.keeper)
        toolchains = ToolchainRecord(dirs)
        pool = cls(engine, used, settings, paths, labels, doors, toolchains)
        pool.sweep()
        return pool

    @property
    def engine(self) -> Engine:
        """The engine that the cells run on."""
        return self._engine

    def sweep(self) -> int:
        """Remove containers, views and sockets of supervisors that are gone. Blocking.

        Returns how many containers.
        """
        found = self._engine.containers()
        gone = [one for one in found if not lives(one["Labels"].get(LABEL_OWNER, ""))]
        for one in gone:
            self._engine.remove(one["Id"])
        for volume in self._engine.volumes():
            if not lives((volume["Labels"] or {}).get(LABEL_OWNER, "")):
                self._engine.remove_volume(volume["Name"])
        for folder in self._doors.parent.glob("*"):
            if not lives(folder.name.replace("-", ":")):
                shutil.rmtree(folder, ignore_errors=True)
        return len(gone)

    def living(self) -> list[Cell]:
        """Return the living cells."""
        cells = (*self._cells.values(), *self._extra, *self._retired, *self._disposables.all())
        return [cell for cell in cells if cell.alive]

    async def get(self, agent: str, workspaces: tuple[str, ...]) -> Cell:
        """Return the cell of an agent over these workspaces, started if need be.

        Where cells are disposable, it is a keeper alone: what a person does needs no more.
        """
        key = (agent, workspaces)
        async with self._starting.setdefault(key, asyncio.Lock()):
            cell = self._cells.get(key)
            if cell is not None and cell.alive and not cell.stands():
                await cell.end("another folder stands at the path of its workspace")
            if cell is not None and not await self._specs.fits(cell.spec):
                self._retired.add(cell)  # it hides other files than the policy says now
                cell = None
            if cell is None or not cell.alive:
                if self._disposable:
                    cell = await self._lone_keeper(agent, workspaces)
                else:
                    cell = await self._start(agent, workspaces, network="none")
                self._cells[key] = cell
        return cell

    @contextlib.asynccontextmanager
    async def lease(
        self, agent: str, workspaces: tuple[str, ...], *, write: bool
    ) -> AsyncIterator[Cell]:
        """Give a cell for one call."""
        if not self._disposable:
            yield await self.get(agent, workspaces)
            return
        async with self._disposables.lease(self._kind(agent, workspaces, write=write)) as cell:
            yield cell

    @contextlib.asynccontextmanager
    async def rehearsal(
        self, agent: str, workspaces: tuple[str, ...], *, write: bool
    ) -> AsyncIterator[Cell]:
        """Give a fresh cell, which is thrown away afterwards, however long cells usually live."""
        kind = self._kind(agent, workspaces, write=write)
        async with self._disposables.lease(kind, again=self._disposable) as cell:
            yield cell

    @contextlib.asynccontextmanager
    async def apart(
        self, agent: str, workspaces: tuple[str, ...], home: Mapping[str, str]
    ) -> AsyncIterator[Cell]:
        """Give a new cell to one call that may reach a host, with further files in its home.

        No other call was in it or comes into it, so that its network is this call's alone, whatever
        was left behind elsewhere; it ends with the call. Raises NotEnforced.
        """
        if not self._moves:
            raise NotEnforced(
                f"`runtime: {self._settings.runtime}` has a network of its own, which a keeper "
                "cannot enter: no call can be given a network there"
            )
        spec = await asyncio.to_thread(self._specs.make, agent, workspaces)
        spec.home.update(home)
        cell = await self._started(Cell(self._engine, spec))
        cell.once = True
        self._extra.add(cell)
        try:
            yield cell
        finally:
            await self.end(cell)

    async def background(self, agent: str, workspaces: tuple[str, ...], *, write: bool) -> Cell:
        """Return a new cell for a background call; `end` must follow.

        It shares the network of the agent's own cell, so that this reaches a server in it. Where
        cells are disposable, there is no such cell, and it has a network of its own.
        """
        if self._disposable:
            cell = await self._disposables.take(self._kind(agent, workspaces, write=write))
        else:
            own = await self.get(agent, workspaces)
            cell = await self._start(agent, workspaces, network=f"container:{own.identity}")
            cell.once = True
            self._extra.add(cell)
        return cell

    async def warm(self, agent: str, workspaces: tuple[str, ...]) -> None:
        """Have a cell ready ahead of the first call."""
        if not self._disposable:
            await self.get(agent, workspaces)
        elif filling := self._disposables.fill(self._kind(agent, workspaces, write=True)):
            await asyncio.shield(filling)

    async def end(self, cell: Cell) -> None:
        """End one cell."""
        self._extra.discard(cell)
        self._retired.discard(cell)
        self._disposables.forget(cell)
        self._cells = {key: one for key, one in self._cells.items() if one is not cell}
        await cell.end()

    async def end_idle(self, *, now: float) -> None:
        """End cells that have had no call for longer than the settings allow."""
        for cell in list(self._cells.values()):
            idle = now - cell.used
            if self._is_spare(cell) and idle > self._settings.idle.cell_seconds:
                await self.end(cell)
        for cell in [one for one in self._retired if one.idle]:
            await self.end(cell)
        await self._disposables.end_idle(now=now, seconds=self._settings.idle.cell_seconds)

    async def end_all(self) -> None:
        """End every cell."""
        cells = [*self._cells.values(), *self._extra, *self._retired, *self._disposables.all()]
        held = await _held(cells)
        self._cells.clear()
        self._extra.clear()
        self._retired.clear()
        await self._disposables.end_all()
        await asyncio.gather(*(cell.end() for cell in cells), return_exceptions=True)
        with contextlib.suppress(OSError):  # a cell that is being removed goes through it yet
            self._doors.rmdir()
        if cells and held == 0:
            await asyncio.to_thread(self._engine.remove_volume, self._specs.volume)

    async def _start(self, agent: str, workspaces: tuple[str, ...], *, network: str) -> Cell:
        spec = await asyncio.to_thread(self._specs.make, agent, workspaces, network=network)
        return await self._started(Cell(self._engine, spec))

    async def _lone_keeper(self, agent: str, workspaces: tuple[str, ...]) -> Cell:
        spec = await asyncio.to_thread(self._specs.make, agent, workspaces, place="nowhere")
        return await self._started(LoneKeeper(self._engine, spec))

    async def _fresh(self, kind: Kind) -> Cell:
        place = "cell" if kind.writes is None else "views"
        spec = await asyncio.to_thread(self._specs.make, kind.agent, kind.workspaces, place=place)
        if kind.writes is None:
            return await self._started(Cell(self._engine, spec))
        return await self._started(ViewCell(self._engine, spec, writes=kind.writes))

    async def _started(self, cell: Cell) -> Cell:
        cell.make_room = functools.partial(self._make_room, cell)
        places = cell.spec.workspaces
        with waiting(lambda: self.works.say_landing(places) or "its cell to start"):
            await cell.start()
            await self.on_start(cell)
        return cell

    async def _make_room(self, wanting: Cell | None = None) -> bool:
        """End the cell that was used longest ago, of those that nobody needs; False for none."""
        cells = (*self._cells.values(), *self._retired)
        spare = [
            cell for cell in cells if cell.alive and cell is not wanting and self._is_spare(cell)
        ]
        if not spare:
            return await self._disposables.end_one()
        await self.end(min(spare, key=lambda one: one.used))
        return True

    def _is_spare(self, cell: Cell) -> bool:
        network = f"container:{cell.identity}"
        return cell.idle and not any(extra.spec.network == network for extra in self._extra)

    def _kind(self, agent: str, workspaces: tuple[str, ...], *, write: bool) -> Kind:
        return Kind(agent, workspaces, None if self._moves else write)


async def _held(cells: Sequence[Cell]) -> int | None:
    """Return how many transactions wait for a person, in every cell's; None where nobody knows.

    Asked anew: what a keeper last said may be long ago, and others hold and discard as well.
    """
    for cell in cells:
        with contextlib.suppress(SandboxError, TimeoutError):
            async with asyncio.timeout(COUNT_SECONDS):
                await cell.ask(op="count")
            return cell.held
    return None


async def _nothing(_cell: Cell) -> None:
    """Do nothing."""


def _enforceable(settings: Settings, info: Mapping[str, Any]) -> Settings:
    """Return the settings with the runtime named. Raises NotEnforced for what cannot be held.

    `info` is the engine's answer: which runtimes it has and how they are called.
    """
    runtime = settings.runtime or default_of(info)
    if problem := missing(runtime, info):
        raise NotEnforced(problem)
    if lacks := unenforced(runtime, info):
        raise NotEnforced(f"runtime `{runtime}` does not enforce {' and '.join(lacks)}")
    if settings.network.ask is AskHosts.WAIT and not moves_mounts(runtime):
        raise NotEnforced(
            f"`network.ask: wait` needs a gateway, and `runtime: {runtime}` has a network of its "
            "own, which a keeper cannot enter; leave one of them out"
        )
    if settings.lifetime is Lifetime.RESIDENT and not moves_mounts(runtime):
        raise NotEnforced(
            f"`runtime: {runtime}` does not see mounts that are moved into a running cell; "
            "set `lifetime: disposable` too, or leave the runtime out"
        )
    if settings.runtime is None and runtime in ("runc", "crun"):
        return settings  # the engine's own choice, whichever of the two it is
    return settings.model_copy(update={"runtime": runtime})
