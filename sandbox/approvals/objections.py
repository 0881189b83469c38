# SPDX-License-Identifier: Apache-2.0
"""The seconds in which a person may object, before the changes of a `semi-auto` agent land.

The call waits for them: its agent's next command must see its changes, and a further call in the
same cell must not build upon what may still go away. Whatever ends the call ends the wait too, and
nothing lands then: cancelling it, the end of its cell, a stop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

from sandbox.errors import BadInput

LOOK_SECONDS = 0.2
"""How often it is looked whether all was stopped, which another process may have done."""


ON_WAIT: ContextVar[Callable[[str, float], None]] = ContextVar("on_wait")
"""Told by which call, and for how many seconds, changes wait; the door of a call sets it."""


@dataclass(frozen=True, slots=True)
class Objection:
    """A person's no to changes that were about to land."""

    by: str
    reason: str = ""


@dataclass(slots=True)
class _Wait:
    until: float
    """Seconds since 1970."""
    answer: asyncio.Future[Objection]


class Objections:
    """The calls whose changes wait to land."""

    def __init__(self, check: Callable[[], None]) -> None:
        """`check` raises Stopped once all is stopped."""
        self._check = check
        self._waiting: dict[str, _Wait] = {}
        self._objected: dict[str, asyncio.Event] = {}

    async def wait(self, call: str, seconds: float) -> Objection | None:
        """Wait for an objection; None when nobody objected. Raises Stopped after a stop."""
        if seconds <= 0:
            return None
        loop = asyncio.get_running_loop()
        wait = self._waiting[call] = _Wait(time.time() + seconds, loop.create_future())
        end = loop.time() + seconds
        try:
            while (left := end - loop.time()) > 0:
                await asyncio.wait([wait.answer], timeout=min(left, LOOK_SECONDS))
                self._check()
                if wait.answer.done():
                    return wait.answer.result()
            return None
        finally:
            del self._waiting[call]

    def object(self, call: str, by: str, reason: str = "") -> asyncio.Event | None:
        """Object to a call's changes; return what is set when that call has ended.

        None where they do not wait to land (any more).
        """
        wait = self._waiting.get(call)
        if wait is None or wait.answer.done():
            return None
        wait.answer.set_result(Objection(by, reason))
        return self._objected.setdefault(call, asyncio.Event())

    def ended(self, call: str) -> None:
        """Note that a call has ended."""
        if over := self._objected.pop(call, None):
            over.set()

    def until(self, call: str) -> float | None:
        """Return when a call's changes land, in seconds since 1970; None where none wait."""
        wait = self._waiting.get(call)
        return None if wait is None else wait.until

    def only(self, beginning: str) -> str | None:
        """Return the waiting call whose id begins so; of `last` the newest. Raises BadInput."""
        names = list(self._waiting)
        if beginning == "last":
            return names[-1] if names else None
        found = [name for name in names if beginning and name.startswith(beginning)]
        if len(found) > 1 and beginning not in found:
            raise BadInput(f"`{beginning}` begins {len(found)} call ids; give more of it")
        return beginning if beginning in found else next(iter(found), None)
