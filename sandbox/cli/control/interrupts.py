# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C at a terminal: the first cancels the call, a second one soon after stops everything.

A stop that has begun is carried out: no key takes it back. Imports nothing heavy.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` without the enumerations
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WINDOW_SECONDS = 2.0
"""A second Ctrl-C within this time of the first is a stop."""
LOOK_SECONDS = 0.02
_SAID = b"\r\nlockgate: cancelling; Ctrl-C again within 2 s stops everything\r\n"


def keep_going() -> None:
    """Let neither a key nor the end of the terminal end this command from now on."""
    for number in (_signal.SIGINT, _signal.SIGQUIT, _signal.SIGTSTP, _signal.SIGHUP):
        try:
            _signal.signal(number, _signal.SIG_IGN)
        except ValueError:  # not the thread that signals come to
            return


class Interrupts:
    """Counts the interrupts of one command.

    Without a terminal nothing is counted: there a second signal is a program's, not a person's.
    """

    def __init__(self) -> None:
        self._first: float | None = None
        self._twice = False
        self._raises = True
        self._before: Any = None
        self._counts = os.isatty(0) and os.isatty(2)

    def __enter__(self) -> Interrupts:
        if self._counts:
            try:
                self._before = _signal.signal(_signal.SIGINT, self._take)
            except ValueError:  # not the thread that signals come to
                self._counts = False
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            _signal.signal(_signal.SIGINT, self._before)

    def again(self) -> bool:
        """Whether a second interrupt came, or comes before its time is over.

        A call is cancelled sooner than a finger falls, so what was promised is waited for.
        """
        while self._counts and not self._twice and self._first is not None:
            left = self._first + WINDOW_SECONDS - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(left, LOOK_SECONDS))
        return self._twice

    def cancelled(self) -> None:
        """Take the interrupt that comes of the first one; a second one raises no more."""
        self._raises = False

    def _take(self, *_: object) -> None:
        now = time.monotonic()
        if self._first is not None and now - self._first <= WINDOW_SECONDS:
            self._twice = True
        else:
            self._first = now
            try:  # noqa: SIM105 - contextlib costs a millisecond
                os.write(2, _SAID)
            except OSError:
                pass
        if self._raises:
            raise KeyboardInterrupt
