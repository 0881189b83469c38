# SPDX-License-Identifier: Apache-2.0
"""Do what grows with agents' texts off the event loop, one piece of each agent's at a time.

Reading, masking and judging of one agent's texts, however many of its calls there are, so never
keep the loop, nor more than one thread, from anybody else.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from policy.model import ActionPlan
from sandbox.host.latch import BETWEEN

THREADS = 3
QUICK = 400
"""Characters of a text that takes a millisecond to read; a longer one may take a hundred."""
MOST_EXTRA = 16
"""Parameters that we do not know, in an everyday plan."""
SMALL = 8 * 1024
"""Characters or bytes of a text that is quicker looked at than handed over."""

T = TypeVar("T")


def is_quick(plan: ActionPlan) -> bool:
    """Whether reading a plan takes no time: no text in it is longer than everyday ones."""
    params = plan.params
    texts = (params.command, params.content, params.old_string, params.new_string, plan.intent)
    return (
        all(len(text or "") <= QUICK for text in texts)
        and not params.edits
        and len(params.model_extra or ()) <= MOST_EXTRA
    )


class LoopTurns:
    """One turn at a time for each agent; those below it share it."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._wanted: dict[str, int] = {}

    @contextlib.asynccontextmanager
    async def of(self, agent: str) -> AsyncIterator[None]:
        """Wait for the agent's turn, in the order of asking."""
        key = agent.partition(BETWEEN)[0]
        lock = self._locks.setdefault(key, asyncio.Lock())
        self._wanted[key] = self._wanted.get(key, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._wanted[key] -= 1
            if not self._wanted[key]:
                del self._wanted[key], self._locks[key]


class OffLoop:
    """Threads for one supervisor."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="texts")
        self._turns = LoopTurns()
        self._closed = False

    async def do(self, agent: str, work: Callable[[], T]) -> T:
        """Do blocking work in an agent's turn. Cancelled, it goes on to its end first.

        Where no thread takes work any more, it is done at once: what ends while a supervisor ends
        is recorded as well.
        """
        async with self._turns.of(agent):
            if self._closed:
                return work()
            running = asyncio.get_running_loop().run_in_executor(self._pool, work)
            try:
                return await asyncio.shield(running)
            except asyncio.CancelledError:
                await asyncio.wait([running])
                raise

    async def read(self, plan: ActionPlan, work: Callable[[], T]) -> T:
        """Read a plan: at once where that is quick, else as `do` does."""
        return work() if is_quick(plan) else await self.do(plan.agent, work)

    def close(self) -> None:
        """Begin nothing more in threads."""
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)
