# SPDX-License-Identifier: Apache-2.0
"""The cells of one supervisor: one per agent and set of workspaces, made when first needed.

Also sweeps at the start what a supervisor that ended badly left behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from policy.protected import PathPolicy
from sandbox.cells import Cell, CellSpec
from sandbox.config import Dirs, Lifetime, Settings
from sandbox.endpoints import connect
from sandbox.engine import Engine
from sandbox.errors import BadInput, ImageProblem, NotEnforced, SandboxError
from sandbox.images import Images, check_image, names
from sandbox.owners import lives, owner_label
from sandbox.plan import (
    AGENT_ID,
    LABEL_AGENT,
    LABEL_CELL,
    LABEL_OWNER,
    LABEL_STATE,
    ContainerPlan,
    Resources,
    cell_plan,
    keeper_plan,
)
from sandbox.sweeping_notes import ContainerNotes

Key = tuple[str, tuple[str, ...]]
PathsOf = Callable[[tuple[str, ...]], PathPolicy]
"""Gate 2's rules for workspaces, as they are now."""
MIB = 1024 * 1024
COUNT_SECONDS = 5.0
"""A keeper that does not say in this time what waits for a person is not asked again."""
_OWNERS_DIFFER = "[core]\n\tcheckStat = minimal\n"
"""Git settings where a cell sees other owners than the host: else each call would hash all files
anew and change the index, which keeps the owner of every file."""


def state_label(dirs: Dirs) -> str:
    """Return the label value that marks the containers of a state folder."""
    return hashlib.sha256(os.fsencode(dirs.state)).hexdigest()[:16]


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
    ) -> None:
        self._engine = engine
        self._images = images
        self._settings = settings
        self._paths = paths
        self._cells: dict[Key, Cell] = {}
        self._starting: dict[Key, asyncio.Lock] = {}
        self._extra: set[Cell] = set()
        self._retired: set[Cell] = set()
        self._masked: dict[tuple[str, ...], tuple[PathPolicy, dict[str, list[str]]]] = {}
        self._home = _home_files()
        self._labels = dict(labels)
        self._doors = doors
        self._volume = f"lockgate-layers-{engine.state}"
        self.on_start: Callable[[Cell], Awaitable[None]] = _nothing
        """Awaited for each cell that has just started, before it gets a call."""

    @classmethod
    def connect(
        cls, dirs: Dirs, settings: Settings, paths: PathsOf, labels: Mapping[str, str]
    ) -> CellPool:
        """Reach the engine, check the images, sweep leftovers. Blocking. Raises SandboxError."""
        _refuse_unenforced(settings)
        client = connect()
        wanted = names()
        cell = settings.image or wanted.cell
        for tag in (cell, wanted.keeper):
            if problem := check_image(client, tag):
                raise ImageProblem(problem)
        engine = Engine(client, state_label(dirs), ContainerNotes(dirs))
        doors = dirs.runtime / "cells" / owner_label().replace(":", "-")
        pool = cls(engine, Images(cell=cell, keeper=wanted.keeper), settings, paths, labels, doors)
        pool.sweep()
        return pool

    @property
    def engine(self) -> Engine:
        """The engine that the cells run on."""
        return self._engine

    def sweep(self) -> int:
        """Remove containers and sockets of supervisors that are gone. Blocking.

        Returns how many containers.
        """
        found = self._engine.containers()
        gone = [one for one in found if not lives(one["Labels"].get(LABEL_OWNER, ""))]
        for one in gone:
            self._engine.remove(one["Id"])
        for folder in self._doors.parent.glob("*"):
            if not lives(folder.name.replace("-", ":")):
                shutil.rmtree(folder, ignore_errors=True)
        return len(gone)

    def living(self) -> list[Cell]:
        """Return the living cells."""
        cells = (*self._cells.values(), *self._extra, *self._retired)
        return [cell for cell in cells if cell.alive]

    async def get(self, agent: str, workspaces: tuple[str, ...]) -> Cell:
        """Return the cell of an agent over these workspaces, started if need be."""
        key = (agent, workspaces)
        async with self._starting.setdefault(key, asyncio.Lock()):
            cell = self._cells.get(key)
            if cell is not None and cell.alive and not cell.stands():
                await cell.end("another folder stands at the path of its workspace")
            if cell is not None and cell.spec.setup["patterns"] != self._patterns(workspaces):
                self._retired.add(cell)  # it hides other files than the policy says now
                cell = None
            if cell is None or not cell.alive:
                cell = await self._start(agent, workspaces, network="none")
                self._cells[key] = cell
        return cell

    @contextlib.asynccontextmanager
    async def lease(self, agent: str, workspaces: tuple[str, ...]) -> AsyncIterator[Cell]:
        """Give a cell for one call."""
        yield await self.get(agent, workspaces)

    async def beside(self, cell: Cell) -> Cell:
        """Return a new cell that shares another one's network namespace (for a background call)."""
        network = f"container:{cell.identity}"
        extra = await self._start(cell.spec.agent, cell.spec.workspaces, network=network)
        self._extra.add(extra)
        return extra

    async def end(self, cell: Cell) -> None:
        """End one cell."""
        self._extra.discard(cell)
        self._retired.discard(cell)
        self._cells = {key: one for key, one in self._cells.items() if one is not cell}
        await cell.end()

    async def end_idle(self, *, now: float) -> None:
        """End cells that have had no call for longer than the settings allow."""
        for cell in list(self._cells.values()):
            idle = now - cell.used
            needed = any(
                extra.spec.cell.network == f"container:{cell.identity}" for extra in self._extra
            )
            if not cell.busy and not needed and idle > self._settings.idle.cell_seconds:
                await self.end(cell)
        for cell in [one for one in self._retired if not one.busy]:
            await self.end(cell)

    async def end_all(self) -> None:
        """End every cell."""
        cells = [*self._cells.values(), *self._extra, *self._retired]
        held = await _held(cells)
        self._cells.clear()
        self._extra.clear()
        self._retired.clear()
        await asyncio.gather(*(cell.end() for cell in cells), return_exceptions=True)
        with contextlib.suppress(OSError):  # a cell that is being removed goes through it yet
            self._doors.rmdir()
        if cells and held == 0:
            await asyncio.to_thread(self._engine.remove_volume, self._volume)

    async def _start(self, agent: str, workspaces: tuple[str, ...], *, network: str) -> Cell:
        spec = await asyncio.to_thread(self._spec, agent, workspaces, network)
        cell = Cell(self._engine, spec)
        await cell.start()
        await self.on_start(cell)
        return cell

    def _spec(self, agent: str, workspaces: tuple[str, ...], network: str) -> CellSpec:
        name = f"lockgate-{secrets.token_hex(5)}"
        uid, gid, owners = _owner(workspaces)
        state = self._engine.state
        labels = {
            **self._labels,
            LABEL_STATE: state,
            LABEL_OWNER: owner_label(),
            LABEL_CELL: name,
            LABEL_AGENT: agent,
        }
        local = self._engine.local(os.uname().release)
        door = self._doors / name if local else None
        images = [self._engine.image_id(tag) for tag in (self._images.cell, self._images.keeper)]
        cell = cell_plan(
            name=name,
            image=images[0],
            workspaces=workspaces,
            uid=uid,
            gid=gid,
            labels=labels,
            resources=self._resources(),
            network=network,
            runtime=self._settings.runtime,
        )

        def keeper(identity: str) -> ContainerPlan:
            return keeper_plan(
                name=f"{name}-keeper",
                image=images[1],
                workspaces=workspaces,
                cell=identity,
                volume=self._volume,
                labels=labels,
                maps_owners=bool(owners),
                door=str(door) if door else None,
            )

        setup: dict[str, Any] = {
            "cell": name,
            "workspaces": list(workspaces),
            "uid": uid,
            "gid": gid,
            "owners": owners,
            "patterns": self._patterns(workspaces),
            "place": "cell",
            "local": local,
            "undo_bytes": self._settings.undo_mib * MIB,
        }
        home = dict(self._home)
        if owners:
            home[".gitconfig"] = home.get(".gitconfig", "") + _OWNERS_DIFFER
        return CellSpec(name, agent, workspaces, cell, keeper, setup, door, home)

    def _patterns(self, workspaces: tuple[str, ...]) -> dict[str, list[str]]:
        paths = self._paths(workspaces)
        known = self._masked.get(workspaces)
        if known is None or known[0] is not paths:
            hide, show = paths.mask_expressions()
            pin = paths.pin_expressions()
            above = list(paths.pin_folder_expressions())
            patterns = {"hide": list(hide), "show": list(show), "pin": list(pin), "above": above}
            known = paths, patterns
            self._masked[workspaces] = known
        return known[1]

    def _resources(self) -> Resources:
        wanted = self._settings.cell
        return Resources(
            memory=wanted.memory_mib * MIB,
            cpus=min(wanted.cpus, float(os.cpu_count() or 1)),
            pids=wanted.pids,
            files=wanted.open_files,
            tmp=wanted.tmp_mib * MIB,
            home=2 * wanted.tmp_mib * MIB,
        )


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


def _refuse_unenforced(settings: Settings) -> None:
    """Refuse settings that this version cannot carry out, instead of running with less."""
    if settings.lifetime is not Lifetime.RESIDENT:
        raise NotEnforced("`lifetime: disposable` cannot be carried out yet; set `resident`")
    if settings.runtime not in (None, "runc", "crun"):
        raise NotEnforced(
            f"`runtime: {settings.runtime}` does not see mounts that are moved in later; "
            "set `runc` or `crun`, or leave it out"
        )


def _owner(workspaces: Sequence[str]) -> tuple[int, int, dict[int, int]]:
    """Return uid and gid of the cell's processes, and the owner map (real owner -> in the cell).

    A cell never runs as root: what root owns is shown to it as owned by an ordinary user, through
    an idmapped mount.
    """
    owners = set()
    for path in workspaces:
        try:
            info = Path(path).lstat()
        except OSError as error:
            raise BadInput(f"workspace `{path}`: {error.strerror}") from None
        owners.add((info.st_uid, info.st_gid))
    if len({uid for uid, _ in owners}) > 1:
        raise BadInput(
            f"workspaces {', '.join(f'`{w}`' for w in workspaces)} belong to different users; "
            "use one cell for each"
        )
    uid, gid = sorted(owners)[0]
    if uid == 0:
        return AGENT_ID, AGENT_ID, {0: AGENT_ID}
    return uid, gid or uid, {}


def _home_files() -> dict[str, str]:
    """Return files of the cell's home: the person's name and address for commits, nothing else."""
    import subprocess

    lines = ["[user]"]
    for key in ("name", "email"):
        try:
            done = subprocess.run(
                ["git", "config", "--global", f"user.{key}"],
                capture_output=True,
                text=True,
                timeout=5,
                check=False,
                cwd=Path("/"),
            )
        except (OSError, subprocess.SubprocessError):
            return {}
        value = done.stdout.strip()
        if value and value.isprintable() and '"' not in value and "\\" not in value:
            lines.append(f'\t{key} = "{value}"')
    return {".gitconfig": "\n".join(lines) + "\n"} if len(lines) > 1 else {}
