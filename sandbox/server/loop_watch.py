# SPDX-License-Identifier: Apache-2.0
"""Notice when the supervisor's event loop stands still, say where, and end on a signal even so.

A thread of the interpreter's own (`faulthandler`) writes the stacks: it needs neither the loop nor
Python's lock, which a long match of a regular expression holds. Only for a process of its own:
timers and signal handlers belong to a process.
"""

from __future__ import annotations

import asyncio
import faulthandler
import signal
import time
from collections.abc import Callable, Sequence
from typing import TextIO

STILL_SECONDS = 2.0
"""A loop that has not come round for so long stands still."""
BEAT_SECONDS = 0.5
END_SECONDS = 5
"""How long a loop has to come to a signal that ends the process; then the kernel ends it."""


class LoopWatch:
    """Looks at the loop that it is started on."""

    def __init__(
        self,
        log: TextIO,
        *,
        seconds: float = STILL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`log` must have a descriptor; stacks are written to that."""
        self._log = log
        self._seconds = seconds
        self._clock = clock
        self._last = clock()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to look."""
        self._last = self._clock()
        self._beat()

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            faulthandler.cancel_dump_traceback_later()

    def _beat(self) -> None:
        now = self._clock()
        still, self._last = now - self._last, now
        if still >= self._seconds:
            said = f"the event loop stood still for {still:.1f} s; what it did stands above\n"
            self._log.write(said)
            self._log.flush()
        faulthandler.dump_traceback_later(self._seconds, file=self._log)
        pause = min(BEAT_SECONDS, self._seconds / 4)
        self._timer = asyncio.get_running_loop().call_later(pause, self._beat)


def end_on(
    numbers: Sequence[signal.Signals], end: Callable[[], None], *, seconds: int = END_SECONDS
) -> None:
    """Have the running loop call `end` on signals; one that does not come to it is ended.

    INVARIANT (P10, "a busy supervisor ends too"): the kernel's alarm needs no Python to run.
    """
    loop = asyncio.get_running_loop()

    def in_time() -> None:
        signal.alarm(0)
        end()

    def take(_number: int, _frame: object) -> None:
        signal.alarm(seconds)
        loop.call_soon_threadsafe(in_time)

    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for number in numbers:
        signal.signal(number, take)
