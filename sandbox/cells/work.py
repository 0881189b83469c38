# SPDX-License-Identifier: Apache-2.0
"""What goes on in one supervisor, what each piece of it is at, and what it waits for.

A call, an undo or a landing that has to wait for another one says so within a second, and
`lockgate ps` shows it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

TELL_SECONDS = 0.4
"""How long something is waited for in silence. What else it is by then is told after twice as long,
and so on."""
Reason = Callable[[], str]
"""Says what is waited for at this moment, as the end of "it waits for"; empty: nothing."""

ON_DELAY: ContextVar[Callable[[str], None]] = ContextVar("on_delay")
"""Told what a request waits for, and again when that changes; the door of the request sets it."""


class Phase(StrEnum):
    """What a piece of work is at."""

    STARTS = "starts"
    RUNS = "runs"
    LOOKS = "looks at changes"
    LANDS = "lands"
    UNDOES = "undoes"


class Kind(StrEnum):
    """What a piece of work is."""

    CALL = "call"
    LANDING = "landing"
    UNDO = "undo"


@dataclass(eq=False, slots=True)
class Work:
    """A call, or what is done to one that has ended."""

    kind: Kind
    call: str
    """The id of the call that it is, or that it is about."""
    agent: str | None
    """Whose call that is."""
    workspaces: tuple[str, ...]
    phase: Phase = Phase.STARTS
    changes: int | None = None
    """How many paths it changes, once that is known."""
    started: float = field(default_factory=time.time)
    """Seconds since 1970."""
    reasons: list[Reason] = field(default_factory=list)
    """What it waits for, the innermost last."""

    @property
    def waits_for(self) -> str:
        """What it waits for, in words; empty while it waits for nothing."""
        return self.reasons[-1]() if self.reasons else ""

    @property
    def state(self) -> str:
        """What it is at, in words."""
        if waits_for := self.waits_for:
            return f"waits for {waits_for}"
        if self.phase in (Phase.LANDS, Phase.UNDOES) and self.changes is not None:
            return f"{self.phase} {self.changes:,} change{'' if self.changes == 1 else 's'}"
        return str(self.phase)

    @property
    def name(self) -> str:
        """What others call it that wait for it."""
        if self.kind is Kind.CALL:
            return f"call `{self.call}`" + (f" of agent `{self.agent}`" if self.agent else "")
        return f"the {self.kind} of `{self.call}`"

    def as_json(self) -> dict[str, Any]:
        """Return it for a list of what goes on."""
        return {
            "kind": str(self.kind),
            "call": self.call,
            "agent": self.agent,
            "workspaces": list(self.workspaces),
            "state": self.state,
            "changes": self.changes,
            "started": self.started,
        }


_CURRENT: ContextVar[Work] = ContextVar("current_work")


def current() -> Work | None:
    """Return the piece of work that this task is about; None for none."""
    return _CURRENT.get(None)


def enter(phase: Phase, *, changes: int | None = None) -> None:
    """Note what the current piece of work is at from now on."""
    if work := current():
        work.phase = phase
        if changes is not None:
            work.changes = changes


class WorkList:
    """The pieces of work that go on."""

    def __init__(self) -> None:
        self._works: list[Work] = []

    def __iter__(self) -> Iterator[Work]:
        return iter(tuple(self._works))

    def say_landing(self, workspaces: Iterable[str]) -> str:
        """Say what changes files of these workspaces now; empty: nothing does."""
        wanted = frozenset(workspaces)
        changing = (Phase.LANDS, Phase.UNDOES)
        return say_first(
            work
            for work in self._works
            if work.phase in changing and not work.reasons and wanted.intersection(work.workspaces)
        )

    @contextlib.contextmanager
    def listed(self, work: Work) -> Iterator[Work]:
        """List a piece of work, and make it the current one of this task, while this lasts."""
        self._works.append(work)
        token = _CURRENT.set(work)
        try:
            yield work
        finally:
            _CURRENT.reset(token)
            self._works.remove(work)


@contextlib.contextmanager
def waiting(reason: Reason) -> Iterator[None]:
    """Note that the current piece of work waits, while this lasts; tell whoever asked for it."""
    work = current()
    tell = ON_DELAY.get(None)
    teller = _Teller(reason, tell) if tell is not None else None
    if work is not None:
        work.reasons.append(reason)
    try:
        yield
    finally:
        if work is not None:
            work.reasons.remove(reason)
        if teller is not None:
            teller.end()


def say_first(works: Iterable[Work | None]) -> str:
    """Say of the first of these, but the current one, what it is called and what it is at."""
    mine = current()
    for work in works:
        if work is not None and work is not mine:
            at = work.phase if work.reasons else work.state  # one sentence, no chain of them
            return f"{work.name}, which {at}"
    return ""


class _Teller:
    """Tells a reason that lasts, each time that it is another one."""

    def __init__(self, reason: Reason, tell: Callable[[str], None]) -> None:
        self._reason = reason
        self._tell = tell
        self._told = ""
        self._seconds = TELL_SECONDS
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._seconds, self._look)

    def _look(self) -> None:
        reason = self._reason()
        if reason and reason != self._told:
            self._told = reason
            self._tell(f"it waits for {reason}")
            self._seconds *= 2
        self._timer = self._loop.call_later(self._seconds, self._look)

    def end(self) -> None:
        """Tell no more."""
        self._timer.cancel()
