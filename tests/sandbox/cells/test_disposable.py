# SPDX-License-Identifier: Apache-2.0
"""Disposable cells: each is used once, ready ones are looked at again, none is left."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sandbox.cells.cell import Cell
from sandbox.cells.disposable import Disposables, Kind
from sandbox.cells.pair.outcomes import Unwatchable
from sandbox.errors import SandboxError, Unavailable

KIND = Kind("main", ("/w",), None)
OTHER = Kind("other", ("/w",), None)


class One:
    """A cell that only knows whether it still fits."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.alive = True
        self.there = True
        self.changed = False
        self.once = False
        self.used = 0.0
        self.spec = SimpleNamespace(number=number)

    def stands(self) -> bool:
        """Whether its workspace is where it was."""
        return self.there

    async def ask(self, *, op: str) -> dict[str, Any]:
        """Answer as the keeper does."""
        assert op == "look"
        if not self.alive:
            raise SandboxError("gone")
        return {"changed": self.changed}

    async def end(self, _reason: str) -> None:
        """End."""
        await asyncio.sleep(0)
        self.alive = False


class Stock:
    """Makes cells and remembers them."""

    def __init__(self, *, warm: int) -> None:
        self.made: list[One] = []
        self.problem: SandboxError | None = None
        self.slow = False
        self.unfit: set[int] = set()
        specs = SimpleNamespace(fits=self._fits)
        self.pool = Disposables(self.make, cast(Any, specs), warm=warm)

    async def _fits(self, spec: Any) -> bool:
        return spec.number not in self.unfit

    async def make(self, kind: Kind) -> Cell:
        """Make a cell, unless there is a problem."""
        await asyncio.sleep(30 if self.slow else 0)
        if self.problem is not None:
            raise self.problem
        self.made.append(One(len(self.made)))
        return cast(Cell, self.made[-1])

    async def use(self, kind: Kind = KIND) -> int:
        """Lease a cell; return its number."""
        async with self.pool.lease(kind) as cell:
            return cast(One, cell).number

    async def settled(self) -> None:
        """Let the pool fill up and throw away."""
        for _ in range(50):
            await asyncio.sleep(0)

    @property
    def living(self) -> list[int]:
        """The numbers of the cells that live."""
        return [one.number for one in self.made if one.alive]


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a test's coroutine, with a bound."""
    asyncio.run(asyncio.wait_for(work, 120))


def test_each_call_gets_a_cell_of_its_own() -> None:
    async def work() -> None:
        stock = Stock(warm=0)
        assert [await stock.use() for _ in range(3)] == [0, 1, 2]
        await stock.settled()
        assert stock.living == []

    run(work())


def test_ready_cells_are_used_once_and_replaced() -> None:
    async def work() -> None:
        stock = Stock(warm=2)
        filling = stock.pool.fill(KIND)
        assert filling is not None
        await filling
        assert stock.living == [0, 1]
        assert await stock.use() == 0
        await stock.settled()
        assert stock.living == [1, 2]
        assert [await stock.use(OTHER), await stock.use()] == [3, 1]
        await stock.pool.end_all()
        assert stock.living == []

    run(work())


@pytest.mark.parametrize("how", ["it is lost", "its workspace moved", "a rule", "a new secret"])
def test_a_ready_cell_that_fits_no_more_is_not_used(how: str) -> None:
    async def work() -> None:
        stock = Stock(warm=1)
        await cast(Any, stock.pool.fill(KIND))
        first = stock.made[0]
        first.alive = how != "it is lost"
        first.there = how != "its workspace moved"
        first.changed = how == "a new secret"
        stock.unfit = {0} if how == "a rule" else set()
        assert await stock.use() == 1
        await stock.settled()
        assert 0 not in stock.living
        await stock.pool.end_all()

    run(work())


def test_only_a_cell_that_has_its_call_is_for_one_call() -> None:
    """Else an agent whose budget is spent would have its ready cells end calls to come."""

    async def work() -> None:
        stock = Stock(warm=1)
        await cast(Any, stock.pool.fill(KIND))
        assert not stock.made[0].once
        async with stock.pool.lease(KIND) as cell:
            assert cell.once
        await stock.pool.end_all()

    run(work())


def test_what_keeps_a_cell_from_starting_is_said_by_the_call() -> None:
    async def work() -> None:
        stock = Stock(warm=1)
        stock.problem = Unavailable("no engine")
        await cast(Any, stock.pool.fill(KIND))  # says nothing
        with pytest.raises(Unavailable, match="no engine"):
            await stock.use()
        stock.problem = None
        assert await stock.use() == 0
        await stock.pool.end_all()

    run(work())


def test_ready_cells_end_where_the_kernel_watches_no_more() -> None:
    async def work() -> None:
        stock = Stock(warm=1)
        await cast(Any, stock.pool.fill(KIND))
        other = Kind("other", ("/w",), None)
        stock.problem = Unwatchable("all 128 that a user may have are taken")

        async def room() -> bool:
            stock.problem = None if await stock.pool.end_one() else stock.problem
            return stock.problem is None

        stock.pool.make_room = room
        assert await stock.use(other) == 1
        assert 0 not in stock.living  # the one that stood ready for another agent
        await stock.settled()
        await stock.pool.end_all()
        stock.problem = Unwatchable("all 128 that a user may have are taken")
        with pytest.raises(Unwatchable, match="all 128"):
            await stock.use(other)

    run(work())


def test_cells_made_ready_end_no_others_for_it() -> None:
    async def work() -> None:
        stock = Stock(warm=2)
        await cast(Any, stock.pool.fill(KIND))
        stock.problem = Unwatchable("all 128 that a user may have are taken")
        await cast(Any, stock.pool.fill(Kind("other", ("/w",), None)))
        assert stock.living == [0, 1]

    run(work())


def test_a_cell_is_thrown_away_whatever_came_of_its_call() -> None:
    async def work() -> None:
        stock = Stock(warm=0)
        with pytest.raises(RuntimeError):
            async with stock.pool.lease(KIND):
                raise RuntimeError
        await stock.settled()
        assert stock.living == []

    run(work())


def test_the_end_waits_for_nothing_that_is_being_made() -> None:
    async def work() -> None:
        stock = Stock(warm=1)
        stock.slow = True
        filling = stock.pool.fill(KIND)
        await asyncio.sleep(0)
        await stock.pool.end_all()
        assert filling is not None
        assert filling.cancelled()
        stock.slow = False
        assert await stock.use() == 0  # it can be used again
        await stock.pool.end_all()
        assert stock.living == []

    run(work())


def test_ready_cells_that_nobody_asked_for_end() -> None:
    async def work() -> None:
        stock = Stock(warm=1)
        await cast(Any, stock.pool.fill(KIND))
        await stock.pool.end_idle(now=10.0, seconds=20.0)
        await stock.settled()
        assert stock.living == [0]
        await stock.pool.end_idle(now=30.0, seconds=20.0)
        await stock.settled()
        assert stock.living == []

    run(work())
