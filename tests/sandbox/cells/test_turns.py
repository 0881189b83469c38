# SPDX-License-Identifier: Apache-2.0
"""Calls land in a workspace one after the other, in the order in which they asked."""

from __future__ import annotations

import asyncio
import contextlib

from sandbox.cells.turns import Turns


async def _let_go_on() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


class Trial:
    """Takes turns by name, and knows who has one."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.inside: list[str] = []
        self.order: list[str] = []
        self._leave: dict[str, asyncio.Event] = {}

    async def ask(self, name: str, *workspaces: str) -> asyncio.Task[None]:
        """Ask for a turn and return the task that waits for it, then keeps it."""
        self._leave[name] = asyncio.Event()

        async def work() -> None:
            async with self.turns.take(workspaces):
                self.inside.append(name)
                self.order.append(name)
                try:
                    await self._leave[name].wait()
                finally:
                    self.inside.remove(name)

        task = asyncio.ensure_future(work())
        await _let_go_on()
        return task

    async def leave(self, name: str) -> None:
        """End somebody's turn."""
        self._leave[name].set()
        await _let_go_on()


def test_in_one_workspace_they_come_one_by_one_as_they_asked() -> None:
    async def work() -> list[str]:
        trial = Trial()
        for name in ("a", "b", "c"):
            await trial.ask(name, "/w")
            assert trial.inside == ["a"]
        await trial.leave("a")
        assert trial.inside == ["b"]
        await trial.leave("b")
        await trial.leave("c")
        return trial.order

    assert asyncio.run(work()) == ["a", "b", "c"]


def test_other_workspaces_are_not_waited_for() -> None:
    async def work() -> None:
        trial = Trial()
        await trial.ask("a", "/w")
        await trial.ask("b", "/x")
        assert trial.inside == ["a", "b"]
        await trial.ask("both", "/x", "/w", "/x")
        await trial.leave("b")
        assert trial.inside == ["a"]
        await trial.leave("a")
        assert trial.inside == ["both"]
        await trial.leave("both")

    asyncio.run(work())


def test_no_order_of_workspaces_makes_two_wait_for_each_other() -> None:
    async def work() -> list[str]:
        trial = Trial()
        await trial.ask("a", "/w", "/x")
        await trial.ask("b", "/x", "/w")
        await trial.leave("a")
        await trial.leave("b")
        return trial.order

    assert asyncio.run(work()) == ["a", "b"]


def test_who_is_cancelled_gives_the_turn_back() -> None:
    async def work() -> list[str]:
        trial = Trial()
        first = await trial.ask("a", "/w")
        second = await trial.ask("b", "/w")
        await trial.ask("c", "/w")
        for task in (second, first):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await _let_go_on()
        assert trial.inside == ["c"]
        await trial.leave("c")
        return trial.order

    assert asyncio.run(work()) == ["a", "c"]
