# SPDX-License-Identifier: Apache-2.0
"""What comes many times in a row is handed on as one: people are told, and not drowned."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

APART_SECONDS = 10.0
"""Between two that a person is told."""


class Burst(Generic[T]):
    """Hands the first on at once, and what comes soon after it together."""

    def __init__(
        self, hand_on: Callable[[Sequence[T]], Awaitable[object]], apart: float = APART_SECONDS
    ) -> None:
        """`hand_on` gets one or several; `apart` is how many seconds lie between two times."""
        self._hand_on = hand_on
        self._apart = apart
        self._waiting: list[T] = []
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    def add(self, one: T) -> None:
        """Take one more, and wait for nothing."""
        self._waiting.append(one)
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._go_on())

    async def close(self) -> None:
        """Hand on what waits, and return when that is done."""
        self._closing.set()
        if self._task is not None:
            await self._task
        self._closing.clear()

    async def _go_on(self) -> None:
        while self._waiting:
            some, self._waiting = self._waiting, []
            await self._hand_on(some)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), self._apart)
