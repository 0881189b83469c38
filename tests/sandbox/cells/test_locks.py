# SPDX-License-Identifier: Apache-2.0
"""Many readers or one writer, in order of arrival, whoever gives up on the way."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.cells.rwlock import ReadWriteLock
from tests.examples import examples


async def settle() -> None:
    """Let everything that can go on go on."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_readers_share_and_a_writer_is_alone() -> None:
    async def work() -> None:
        lock = ReadWriteLock()
        await lock.acquire(write=False)
        await lock.acquire(write=False)
        writer = asyncio.ensure_future(lock.acquire(write=True))
        await settle()
        assert not writer.done()
        lock.release(write=False)
        await settle()
        assert not writer.done()
        lock.release(write=False)
        await settle()
        assert writer.done()
        reader = asyncio.ensure_future(lock.acquire(write=False))
        await settle()
        assert not reader.done()
        lock.release(write=True)
        await reader

    asyncio.run(work())


def test_a_reader_does_not_overtake_a_waiting_writer() -> None:
    async def work() -> list[str]:
        lock, order = ReadWriteLock(), []

        async def take(name: str, *, write: bool) -> None:
            await lock.acquire(write=write)
            order.append(name)

        await lock.acquire(write=False)
        tasks = [
            asyncio.ensure_future(take("writer", write=True)),
            asyncio.ensure_future(take("late reader", write=False)),
        ]
        await settle()
        assert order == []
        lock.release(write=False)
        await settle()
        lock.release(write=True)
        await asyncio.gather(*tasks)
        return order

    assert asyncio.run(work()) == ["writer", "late reader"]


def test_a_writer_that_gives_up_lets_the_readers_behind_it_in() -> None:
    async def work() -> bool:
        lock = ReadWriteLock()
        await lock.acquire(write=False)
        writer = asyncio.ensure_future(lock.acquire(write=True))
        reader = asyncio.ensure_future(lock.acquire(write=False))
        await settle()
        writer.cancel()
        await settle()
        return reader.done()

    assert asyncio.run(work())


def test_a_turn_that_was_given_and_cancelled_at_once_is_given_back() -> None:
    async def work() -> bool:
        lock = ReadWriteLock()
        await lock.acquire(write=True)
        first = asyncio.ensure_future(lock.acquire(write=True))
        second = asyncio.ensure_future(lock.acquire(write=True))
        await settle()
        lock.release(write=True)  # gives the turn to the first ...
        first.cancel()  # ... which is cancelled before it can go on
        await settle()
        return second.done()

    assert asyncio.run(work())


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 3), st.one_of(st.none(), st.integers(0, 5))),
        max_size=12,
    )
)
def test_whatever_happens_no_writer_has_company_and_nobody_waits_for_ever(
    steps: list[tuple[bool, int, int | None]],
) -> None:
    """Each step: writes or reads, for how many turns of the loop, cancelled after how many."""

    async def work() -> None:
        lock = ReadWriteLock()
        inside: list[bool] = []

        async def visit(*, write: bool, turns: int) -> None:
            await lock.acquire(write=write)
            inside.append(write)
            try:
                assert inside == [True] or not any(inside)
                for _ in range(turns):
                    await asyncio.sleep(0)
            finally:
                inside.remove(write)
                lock.release(write=write)

        tasks = []
        for write, turns, patience in steps:
            task = asyncio.ensure_future(visit(write=write, turns=turns))
            tasks.append(task)
            if patience is not None:
                for _ in range(patience):
                    await asyncio.sleep(0)
                task.cancel()
        done = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 120)
        assert not [one for one in done if isinstance(one, AssertionError)]
        await asyncio.wait_for(lock.acquire(write=True), 120)

    asyncio.run(work())
