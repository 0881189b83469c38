# SPDX-License-Identifier: Apache-2.0
"""What waits for something else says so, and each piece of work says what it is at."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from typing import Any, cast

import pytest

from sandbox.cell import protocol
from sandbox.cells import work
from sandbox.cells.cell import Cell
from sandbox.cells.cell_spec import CellSpec
from sandbox.cells.pair.outcomes import CellLost
from sandbox.cells.transaction import Transaction
from sandbox.cells.turns import Turns
from sandbox.cells.work import ON_DELAY, Kind, Phase, Work, WorkList
from tests.sandbox.fake_cell import FakeCell

BIG = Work(Kind.CALL, "c1", "other", ("/w",), Phase.LANDS, 20_000)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tell at once what is waited for."""
    monkeypatch.setattr(work, "TELL_SECONDS", 0.0)


def as_work(piece: Work, made: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
    """Start a task that is about a piece of work."""

    async def run() -> None:
        with WorkList().listed(piece):
            await made()

    return asyncio.create_task(run(), context=Context())


async def told_while(waits: Awaitable[Any], until: Callable[[], None]) -> list[str]:
    """Return what is told of a wait, which `until` ends once something is told."""
    told: list[str] = []
    something = asyncio.Event()

    def tell(why: str) -> None:
        told.append(why)
        something.set()

    async def run() -> None:
        ON_DELAY.set(tell)
        await waits

    task = asyncio.create_task(run())
    await asyncio.wait_for(something.wait(), 60)
    until()
    await asyncio.wait_for(task, 60)
    return told


def test_whoever_waits_for_a_turn_is_told_whose_it_is() -> None:
    async def trial() -> list[str]:
        turns, over = Turns(), asyncio.Event()

        async def hold() -> None:
            async with turns.take(("/w", "/v")):
                await over.wait()

        async def take() -> None:
            async with turns.take(("/w",)):
                pass

        holder = as_work(BIG, hold)
        await asyncio.sleep(0)
        told = await told_while(take(), over.set)
        await holder
        return told

    assert asyncio.run(trial()) == [
        "it waits for call `c1` of agent `other`, which lands 20,000 changes"
    ]


def test_who_need_not_wait_is_told_nothing() -> None:
    async def trial() -> list[str]:
        told: list[str] = []
        ON_DELAY.set(told.append)
        async with Turns().take(("/w",)):
            await asyncio.sleep(0.01)
        return told

    assert asyncio.run(trial()) == []


def test_a_call_that_waits_for_its_cell_says_so_and_then_runs() -> None:
    async def trial() -> tuple[str, str]:
        cell, inside, over = FakeCell([]), asyncio.Event(), asyncio.Event()
        second = Work(Kind.CALL, "c2", "other", ("/w",))
        states: list[str] = []

        async def first() -> None:
            async with Transaction(cast(Cell, cell), "c1", write=True):
                inside.set()
                await over.wait()

        async def later() -> None:
            async with Transaction(cast(Cell, cell), "c2", write=True):
                states.append(second.state)

        holder = as_work(Work(Kind.CALL, "c1", "other", ("/w",)), first)
        await asyncio.wait_for(inside.wait(), 60)
        waiter = as_work(second, later)
        while not second.reasons:
            await asyncio.sleep(0)
        states.insert(0, second.state)
        over.set()
        await asyncio.wait_for(asyncio.gather(holder, waiter), 60)
        assert cell.inside == []
        return states[0], states[1]

    waits, runs = asyncio.run(trial())
    assert waits == "waits for call `c1` of agent `other`, which runs"
    assert runs == "runs"


def keeper_of(**limits: float) -> tuple[Cell, Callable[[dict[str, Any]], None]]:
    """Return a cell, and what gives it an answer of its keeper."""
    spec = CellSpec("c", "main", ("/w",), cast(Any, None), cast(Any, None), {}, **cast(Any, limits))
    cell = Cell(cast(Any, None), spec)
    decoder = protocol.Decoder()
    return cell, lambda frame: cell._keeper.link.take(decoder, protocol.pack(frame))


def test_the_time_of_a_request_begins_when_those_before_it_are_answered() -> None:
    """A call that opened beside a long landing of the same keeper ended both."""

    async def trial() -> tuple[dict[str, Any], list[str]]:
        cell, answer = keeper_of(look_seconds=0.05, land_seconds=60.0)

        async def land() -> None:
            await cell.ask({"tx": "c1"}, op="land")

        landing = as_work(BIG, land)
        await asyncio.sleep(0)
        looked: list[dict[str, Any]] = []

        async def look() -> None:
            looked.append(await cell.ask(op="look"))

        waits = asyncio.create_task(told_while(look(), lambda: None))
        await asyncio.sleep(0.2)  # four times as long as it may take itself
        assert cell.alive
        answer({"op": "land", "n": 1})
        answer({"op": "look", "n": 2, "changed": True})
        await landing
        told = await waits
        return looked[0], told

    async def alone() -> None:
        cell, _ = keeper_of(look_seconds=0.05, land_seconds=60.0)
        cell._remove = _nothing  # type: ignore[method-assign]
        await cell.ask(op="look")

    async def _nothing() -> None:
        pass

    answer, told = asyncio.run(trial())
    assert answer["changed"]
    assert told[0] == "it waits for call `c1` of agent `other`, which lands 20,000 changes"
    with pytest.raises(CellLost, match=r"did not look within 0\.05 s"):
        asyncio.run(alone())


def test_a_request_that_nobody_waits_for_any_more_is_waited_for_by_those_behind() -> None:
    """The keeper is at it still: a call behind one that was cancelled ended the cell of both."""

    async def trial() -> tuple[bool, dict[str, Any], bool]:
        cell, answer = keeper_of(look_seconds=0.05, land_seconds=60.0)
        landing = asyncio.create_task(cell.ask({"tx": "c1"}, op="land"))
        await asyncio.sleep(0)
        later = asyncio.create_task(cell.ask({"tx": "c2"}, op="land"))  # cancelled as it waits
        await asyncio.sleep(0)
        for one in (landing, later):
            one.cancel()
            await asyncio.wait([one])
        looks = asyncio.create_task(cell.ask(op="look"))
        await asyncio.sleep(0.2)  # four times as long as it may take itself
        alive = cell.alive
        answer({"op": "land", "n": 1})
        answer({"op": "land", "n": 2})
        answer({"op": "look", "n": 3, "changed": True})
        return alive, await looks, cell.idle

    alive, answer, idle = asyncio.run(trial())
    assert alive
    assert answer["changed"]
    assert idle


def test_a_request_that_nobody_waits_for_has_its_time_as_well() -> None:
    async def trial() -> None:
        cell, _ = keeper_of(look_seconds=60.0, land_seconds=0.05)
        cell._remove = _nothing  # type: ignore[method-assign]
        landing = asyncio.create_task(cell.ask({"tx": "c1"}, op="land"))
        await asyncio.sleep(0)
        landing.cancel()
        await asyncio.wait([landing])
        await cell.ask(op="look")

    async def _nothing() -> None:
        pass

    with pytest.raises(CellLost, match=r"did not land within 0\.05 s"):
        asyncio.run(trial())


def test_what_lands_in_other_workspaces_is_not_waited_for() -> None:
    works = WorkList()
    undo = Work(Kind.UNDO, "c3", None, ("/v",), Phase.UNDOES, 1)
    with works.listed(undo):
        said = Context().run(works.say_landing, ("/v", "/x"))
        assert said == "the undo of `c3`, which undoes 1 change"
        assert Context().run(works.say_landing, ("/w",)) == ""
    assert Context().run(works.say_landing, ("/v",)) == ""
