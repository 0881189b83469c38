# SPDX-License-Identifier: Apache-2.0
"""A fair reader-writer lock for asyncio: many readers or one writer, in order of arrival."""

from __future__ import annotations

import asyncio
from collections import deque


class ReadWriteLock:
    """Many reading calls or one writing call of a cell at a time."""

    def __init__(self) -> None:
        self._readers = 0
        self._writing = False
        self._waiting: deque[tuple[bool, asyncio.Future[None]]] = deque()

    async def acquire(self, *, write: bool) -> None:
        """Wait for a turn."""
        if not self._waiting and self._free(write=write):
            self._take(write=write)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((write, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release(write=write)
            else:
                self._waiting.remove((write, turn))
                self._wake()
            raise

    def release(self, *, write: bool) -> None:
        """Give the turn back."""
        if write:
            self._writing = False
        else:
            self._readers -= 1
        self._wake()

    def _free(self, *, write: bool) -> bool:
        return not self._writing and not (write and self._readers)

    def _take(self, *, write: bool) -> None:
        if write:
            self._writing = True
        else:
            self._readers += 1

    def _wake(self) -> None:
        while self._waiting and self._free(write=self._waiting[0][0]):
            write, turn = self._waiting.popleft()
            if turn.cancelled():
                continue
            self._take(write=write)
            turn.set_result(None)
