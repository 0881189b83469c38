# SPDX-License-Identifier: Apache-2.0
"""The time that a command may take, which stands still while a person is asked on its behalf."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator


class CallClock:
    """Counts the seconds of one command. It stands still for so many seconds at most, altogether:
    whoever wants questions without end does not live without end."""

    def __init__(self, seconds: float, *, stands: float = 0.0) -> None:
        """`stands`: for how many seconds it can stand still."""
        self._left = seconds
        self._stands = stands
        self._end: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._since = 0.0
        self._still = 0

    def start(self, end: Callable[[], None]) -> None:
        """Begin to count; call `end` when the time is over."""
        self._end = end
        self._count()

    def stop(self) -> None:
        """Count no more."""
        self._end = None
        if self._timer is not None:
            self._timer.cancel()

    @contextlib.contextmanager
    def standing_still(self) -> Iterator[None]:
        """Let it stand still while this lasts."""
        if self._still == 0:
            self._left -= self._passed()
        self._still += 1
        self._count()
        try:
            yield
        finally:
            if self._still == 1:
                self._stands -= self._passed()
            self._still -= 1
            self._count()

    def _passed(self) -> float:
        return asyncio.get_running_loop().time() - self._since

    def _count(self) -> None:
        """Set the timer anew: for what is left, and for how long it can stand still before."""
        loop = asyncio.get_running_loop()
        self._since = loop.time()
        if self._timer is not None:
            self._timer.cancel()
        if self._end is not None:
            still = max(0.0, self._stands) if self._still else 0.0
            self._timer = loop.call_later(max(0.0, self._left) + still, self._end)
