# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C at a terminal: the first cancels the call, a second one soon after stops everything."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from typing import Any

WINDOW_SECONDS = 2.0
"""A second Ctrl-C within this time of the first is a stop."""
LINGER_SECONDS = 0.5
"""How long a call that is cancelled already waits for a second one."""
_SAID = b"\r\nlockgate: cancelling; Ctrl-C again within 2 s stops everything\r\n"


class Interrupts:
    """Counts the interrupts of one command.

    Without a terminal nothing is counted: there a second signal is a program's, not a person's.
    """

    def __init__(self) -> None:
        self._first: float | None = None
        self._twice = False
        self._before: Any = None
        self._counts = (
            threading.current_thread() is threading.main_thread() and os.isatty(0) and os.isatty(2)
        )

    def __enter__(self) -> Interrupts:
        if self._counts:
            self._before = signal.signal(signal.SIGINT, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def again(self) -> bool:
        """Whether a second interrupt came, or comes within a moment."""
        if self._counts and not self._twice and self._first is not None:
            left = self._first + WINDOW_SECONDS - time.monotonic()
            with contextlib.suppress(KeyboardInterrupt):
                time.sleep(max(0.0, min(LINGER_SECONDS, left)))
        return self._twice

    def _take(self, *_: object) -> None:
        now = time.monotonic()
        if self._first is not None and now - self._first <= WINDOW_SECONDS:
            self._twice = True
        else:
            self._first = now
            with contextlib.suppress(OSError):
                os.write(2, _SAID)
        raise KeyboardInterrupt
