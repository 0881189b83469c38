# SPDX-License-Identifier: Apache-2.0
"""A cell and a pool in memory: they run nothing, note everything, and answer as real ones do.

`tests/contract` holds the behaviours that a fake and a real cell share.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, cast

from sandbox.cells.cell import Cell
from sandbox.cells.pair.outcomes import CellLost, Exit, KeeperRefused
from sandbox.cells.room import MakeRoom
from sandbox.cells.rwlock import ReadWriteLock
from sandbox.cells.work import Work

CREATED = {"path": "new.txt", "kind": "created", "type": "file", "size": 2, "mode": 0o644}
WAIVER = {"path": ".devkit-waiver.yml", "kind": "created", "type": "file", "size": 2, "mode": 0o644}
DELETED = {"path": "README.md", "kind": "deleted", "type": "file"}


@dataclass
class Script:
    """What a command does in the fake."""

    status: int = 0
    stdout: bytes = b""
    changes: tuple[dict[str, Any], ...] = ()


SCRIPTS = {
    "true": Script(),
    "exit 3": Script(3),
    "echo out": Script(stdout=b"out\n"),
    "echo x > new.txt": Script(changes=(CREATED,)),
    "echo x > .devkit-waiver.yml": Script(changes=(WAIVER,)),
    "rm README.md": Script(changes=(DELETED,)),
}


async def _no_room() -> bool:
    return False


@dataclass
class FakeCell:
    """Notes requests in `log`; a command does what SCRIPTS says, `wait` waits for `release`."""

    log: list[str]
    name: str = "fake"
    lock: ReadWriteLock = field(default_factory=ReadWriteLock)
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    readers: int = 0
    reading: str | None = None
    busy: int = 0
    inside: list[Work] = field(default_factory=list)
    used: float = 0.0
    alive: bool = True
    conflicts: list[str] = field(default_factory=list)
    fails: str = ""
    """The keeper's request that fails."""
    release: asyncio.Event = field(default_factory=asyncio.Event)
    open: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    make_room: MakeRoom = _no_room

    async def ask(self, request: dict[str, Any] | None = None, *, op: str) -> dict[str, Any]:
        """Answer as the keeper does."""
        if not self.alive:
            raise CellLost(f"cell `{self.name}` is gone: it was ended; nothing landed")
        request = request or {}
        what = f"{op} {request['access']}" if op == "open" else op
        self.log.append(what)
        await asyncio.sleep(0)
        if op == self.fails:
            raise KeeperRefused(op, "a test", failed=False)
        name = request.get("tx", "")
        if op == "open":
            self.open[name] = []
            return {}
        if op in ("close", "land", "hold") and name not in self.open:
            raise KeeperRefused(op, f"unknown transaction or field '{name}'", failed=False)
        if op == "close":
            return {"changes": [self.open[name]], "empty": not self.open[name], "diff": ""}
        if op == "land":
            if not self.conflicts:
                del self.open[name]
            return {"conflicts": self.conflicts}
        if op == "digests":
            return {"digests": [dict.fromkeys(paths, "0" * 64) for paths in request["digests"]]}
        self.open.pop(name, None)
        return {}

    def tell(self, request: dict[str, Any], *, op: str) -> None:
        """Note a request whose answer nobody waits for."""
        self.log.append(op)
        self.open.pop(request["tx"], None)

    async def run(
        self,
        request: dict[str, Any],
        *,
        on_output: Callable[[int, bytes], None],
        seconds: float,
        most_bytes: int,
        stdin: AsyncIterator[bytes] | None = None,
        room: object = None,
    ) -> Exit:
        """Do what the script of the command says."""
        if not self.alive:
            raise CellLost(f"cell `{self.name}` is gone: it was ended; nothing landed")
        command = request["argv"][-1]
        self.log.append(f"run {command}")
        if command == "wait":
            await self.release.wait()
        script = SCRIPTS.get(command, Script())
        if script.stdout:
            on_output(1, script.stdout)
        for changes in self.open.values():
            changes.extend(script.changes)
        return Exit(script.status, None, oom=False, error=None, ended=None)

    async def end(self, reason: str = "it was ended") -> None:
        """End it."""
        self.log.append(f"end: {reason}")
        self.alive = False


@dataclass
class FakePool:
    """Gives out one fake cell."""

    cell: FakeCell

    async def get(self, agent: str, workspaces: tuple[str, ...]) -> Cell:
        """Return the cell."""
        self.cell.log.append("cell")
        return cast(Cell, self.cell)

    @contextlib.asynccontextmanager
    async def lease(
        self, agent: str, workspaces: tuple[str, ...], *, write: bool
    ) -> AsyncIterator[Cell]:
        """Give the cell for one call."""
        yield await self.get(agent, workspaces)

    async def end_all(self) -> None:
        """End it."""
        await self.cell.end()
