# SPDX-License-Identifier: Apache-2.0
"""Where the kernel watches no more for a user, idle cells end for those that are used."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from policy.protected.paths import PathPolicy
from sandbox.cells.cell import Cell
from sandbox.cells.pair.outcomes import Unwatchable
from sandbox.cells.pool import CellPool
from sandbox.cells.transaction import Transaction
from sandbox.config.settings import Settings
from sandbox.containers.images import Images
from tests.sandbox.fake_cell import FakeCell

SAID = "it cannot be watched: all 128 that a user may have are taken"


@dataclass(eq=False)
class One(FakeCell):
    """A cell that takes one of a few places when it opens its first layer."""

    places: set[str] = field(default_factory=set)
    most: int = 1
    network: str = "none"
    __hash__ = object.__hash__

    def __post_init__(self) -> None:
        self.identity = self.name
        self.spec = SimpleNamespace(network=self.network, agent=self.name)

    @property
    def idle(self) -> bool:
        """Whether no transaction is open."""
        return not self.busy

    async def ask(self, request: dict[str, Any] | None = None, *, op: str) -> dict[str, Any]:
        """Answer as a keeper does whose observer finds no place."""
        if op == "open" and len(self.places | {self.name}) > self.most:
            raise Unwatchable(SAID)
        if op == "open":
            self.places.add(self.name)
        return await super().ask(request, op=op)

    async def end(self, reason: str = "it was ended") -> None:
        """Give its place back."""
        self.places.discard(self.name)
        await super().end(reason)


class Cells:
    """A pool with cells in it, which share a few places."""

    def __init__(self, root: Path, *names: str, most: int) -> None:
        self.places: set[str] = set()
        self.pool = CellPool(
            cast(Any, SimpleNamespace(state="state")),
            Images("cell", "keeper"),
            Settings(),
            lambda _: PathPolicy.default(),
            {},
            root / "doors",
        )
        self.cells = [One([], name, places=self.places, most=most) for name in names]
        for cell in self.cells:
            self.put(cell)

    def put(self, cell: One) -> None:
        """Put a cell into the pool."""
        one = cast(Cell, cell)
        self.pool._cells[cell.name, ("/w",)] = one
        cell.make_room = lambda: self.pool._make_room(one)

    def open(self, number: int) -> Transaction:
        """Return a writing transaction in a cell."""
        return Transaction(cast(Cell, self.cells[number]), f"t{number}", write=True)

    @property
    def living(self) -> list[str]:
        """Names of the cells that live."""
        return [cell.name for cell in self.cells if cell.alive]


def test_the_cell_that_was_used_longest_ago_ends_for_another(tmp_path: Path) -> None:
    async def work() -> None:
        cells = Cells(tmp_path, "a", "b", "c", most=2)
        for number, used in ((0, 2.0), (1, 1.0)):
            async with cells.open(number):
                pass
            cells.cells[number].used = used
        async with cells.open(2):
            assert cells.living == ["a", "c"]

    asyncio.run(work())


def test_a_call_is_refused_with_a_line_where_no_cell_is_idle(tmp_path: Path) -> None:
    async def work() -> None:
        cells = Cells(tmp_path, "a", "b", most=1)
        async with cells.open(0):
            with pytest.raises(Unwatchable, match="all 128 that a user may have"):
                await cells.open(1).__aenter__()
            assert cells.living == ["a", "b"]
        async with cells.open(1):  # the first is idle now
            assert cells.living == ["b"]

    asyncio.run(work())


def test_a_cell_whose_network_is_used_is_not_idle(tmp_path: Path) -> None:
    async def work() -> None:
        cells = Cells(tmp_path, "a", "b", most=1)
        async with cells.open(0):
            pass
        server = One([], "server", network="container:a", places=set(), most=9)
        cells.pool._extra.add(cast(Cell, server))
        with pytest.raises(Unwatchable):
            await cells.open(1).__aenter__()
        cells.pool._extra.clear()
        async with cells.open(1):
            assert cells.living == ["b"]

    asyncio.run(work())
