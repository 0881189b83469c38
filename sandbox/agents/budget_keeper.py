# SPDX-License-Identifier: Apache-2.0
"""Keep a supervisor's agents within their budgets: count calls, and pause or stop who is beyond."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sandbox.agents.budgets import Budgets, BudgetUse, Exceeded
from sandbox.audit.events.agents import BudgetRecord
from sandbox.audit.events.record import AuditRecord
from sandbox.config.budgets import BudgetSettings, Then
from sandbox.errors import SandboxError, Stopped
from sandbox.host.latch import Latch
from sandbox.results import CallResult, Ending

REFUSED = (Ending.DENIED, Ending.NOT_APPROVED)

Record = Callable[[AuditRecord], Awaitable[None]]
Stopping = Callable[[str, str], Awaitable[Any]]
"""Stops an agent: reason, agent."""
EndRunning = Callable[[str], None]


class BudgetKeeper:
    """The budgets of one supervisor."""

    def __init__(
        self,
        settings: BudgetSettings,
        latch: Latch,
        *,
        record: Record,
        stop: Stopping,
        end_running: EndRunning,
    ) -> None:
        """`end_running` ends what an agent's calls run; they are judged as any that was ended."""
        self._budgets = Budgets(settings)
        self._latch = latch
        self._record = record
        self._stop = stop
        self._end_running = end_running
        self._tasks: set[asyncio.Task[Any]] = set()

    async def counted(self, agent: str, call: Callable[[], Awaitable[CallResult]]) -> CallResult:
        """Make a call within the budgets. Raises Stopped where they are used up."""
        exceeded = self._budgets.begin(agent, now=time.time())
        if exceeded is not None:
            await self._act(exceeded)
            self._latch.check(agent)
        try:
            result = await call()
        except Stopped:
            raise
        except SandboxError:
            await self._ended(agent, BudgetUse(failed=True))
            raise
        await self._ended(agent, _use(result))
        return result

    @contextlib.contextmanager
    def running(self, agent: str) -> Iterator[None]:
        """Count the time that this takes as running time of an agent."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._budgets.ran(agent, time.monotonic() - began)

    def uses(self) -> dict[str, list[str]]:
        """Return what each agent has used of its budgets, in words."""
        return self._budgets.uses()

    async def look(self, running: Iterable[Mapping[str, Any]]) -> None:
        """Act on running time that is used up by calls that still run."""
        calls = [(str(one["agent"]), float(one["started"])) for one in running]
        for exceeded in self._budgets.tick(calls, now=time.time()):
            await self._act(exceeded)
            self._end_running(exceeded.agent)

    async def _ended(self, agent: str, use: BudgetUse) -> None:
        exceeded = self._budgets.end(agent, use, now=time.time())
        if exceeded is not None:
            await self._act(exceeded)

    async def _act(self, exceeded: Exceeded) -> None:
        """Pause or stop an agent; nothing of it begins any more when this returns."""
        pause = exceeded.then is Then.PAUSE
        until = exceeded.until if pause else None
        self._latch.set(exceeded.why, agent=exceeded.agent, until=until)
        await self._record(
            BudgetRecord(
                event="paused" if pause else "stopping",
                agent=exceeded.agent,
                reason=exceeded.why,
                until=until,
            )
        )
        if not pause:  # not waited for: what is to be ended may be this very call
            task = asyncio.ensure_future(self._stop(exceeded.why, exceeded.agent))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


def _use(result: CallResult) -> BudgetUse:
    refused = result.ending in REFUSED
    return BudgetUse(
        failed=not refused and result.ending is not Ending.RUNNING and result.exit_status != 0,
        denied=refused,
        output_bytes=_size(result.stdout, result.stdout_file)
        + _size(result.stderr, result.stderr_file),
        changed_bytes=result.changes_size,
    )


def _size(text: str, whole: str | None) -> int:
    """Return how much a call wrote: the file holds all of it where the text was cut."""
    if whole is not None:
        with contextlib.suppress(OSError):
            return Path(whole).stat().st_size
    return len(text.encode("utf-8", "replace"))
