# SPDX-License-Identifier: Apache-2.0
"""What a supervisor does by itself about stops: notice the latch, and finish what nobody sweeps.

A latch that was set by hand (`touch STOP`), or whose setter has died, is carried out here. Also
notes which processes agents have, and forgets agents that have ended.
"""

from __future__ import annotations

import asyncio
import sys
import time
import traceback
from collections.abc import Awaitable, Callable

from sandbox.agents.registry import Registry
from sandbox.errors import SandboxError
from sandbox.host.latch import Latch, LatchInfo
from sandbox.processes.table import Host

LOOK_SECONDS = 0.25
SAMPLE_EVERY = 4
"""Processes of agents are noted at every so many looks."""
FORGET_EVERY = 40
PATIENCE_SECONDS = 15.0
"""A stop takes less. Whoever has not carried it out by then hangs, or was halted."""

OnStop = Callable[[LatchInfo], Awaitable[None]]


class StopWatch:
    """Looks at the latches while its supervisor lives."""

    def __init__(
        self,
        latch: Latch,
        registry: Registry,
        on_stop: OnStop,
        *,
        also: Callable[[], Awaitable[None]] | None = None,
        host: Host | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`also` is done at every look."""
        self._clock = clock
        self._latch = latch
        self._registry = registry
        self._on_stop = on_stop
        self._also = also
        self._host = host or Host()
        self._handled: set[LatchInfo] = set()
        self._waited: dict[LatchInfo, float] = {}
        """Stops that somebody else carries out, and when they were first seen."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look."""
        self._task = asyncio.create_task(self._run())

    def close(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()

    def handles(self, agent: str | None) -> None:
        """Say that a stop is carried out already by whoever calls."""
        if (info := self._latch.read(agent)) is not None:
            self._handled.add(info)

    async def look(self) -> None:
        """Carry out the stops that nobody carries out."""
        found = self._latch.in_force()
        self._handled &= set(found)
        self._waited = {info: since for info, since in self._waited.items() if info in found}
        for info in found:
            if info in self._handled or info.paused or info.swept or self._is_carried_out(info):
                continue
            self._handled.add(info)
            await self._on_stop(info)

    def _is_carried_out(self, info: LatchInfo) -> bool:
        """Whether the process that set a latch still lives, and may be trusted to sweep."""
        if info.pid <= 0 or self._host.process(info.pid) is None:
            return False
        now = self._clock()
        return now - self._waited.setdefault(info, now) < PATIENCE_SECONDS

    async def _run(self) -> None:
        count = 0
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            count += 1
            try:
                await self.look()
                if self._also is not None:
                    await self._also()
                if count % SAMPLE_EVERY == 0 and not self._registry.empty:
                    await asyncio.to_thread(self._registry.note_seen)
                if count % FORGET_EVERY == 0 and not self._registry.empty:
                    await asyncio.to_thread(self._registry.drop_ended)
            except (SandboxError, OSError):
                traceback.print_exc()
                sys.stderr.flush()
