# SPDX-License-Identifier: Apache-2.0
"""What one supervisor has running: cells, calls, calls in the background; and how they end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import time
import traceback
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from sandbox.agents.budget_keeper import BudgetKeeper
from sandbox.agents.registry import Registry
from sandbox.audit.events.follow_ups import OutputsDroppedRecord
from sandbox.audit.retention import Retention
from sandbox.calls.flow.background import Background
from sandbox.calls.flow.call import Call
from sandbox.calls.flow.open_ports import OpenPorts
from sandbox.calls.flow.parts import Parts
from sandbox.cells.cell import Cell
from sandbox.cells.pool import CellPool
from sandbox.cells.work import Kind, Work
from sandbox.errors import SandboxError
from sandbox.host.latch import LatchInfo, below
from sandbox.results import StopReport
from sandbox.stopping.latch_watch import StopWatch
from sandbox.stopping.stop import stop_all

_REAP_SECONDS = 15.0
_END_SECONDS = 0.5
"""How long a stop waits until the engine has removed what runs no more."""


class LiveState:
    """The cells and calls of one supervisor, the budgets they keep to, and the stop that ends
    them."""

    def __init__(self, parts: Parts, labels: Mapping[str, str]) -> None:
        """`labels` are put on every container. Performs no I/O."""
        self._parts = parts
        self._labels = labels
        self.pool: CellPool | None = None
        """None until something needs a cell."""
        self.background = Background()
        self.ports = OpenPorts(parts.record, parts.latch.check)
        self.budgets = BudgetKeeper(
            parts.settings.budgets,
            parts.latch,
            record=parts.record.event,
            stop=self.stop,
            end_running=self._end_running,
        )
        self._watch = StopWatch(
            parts.latch,
            Registry(parts.dirs),
            self._carry_out,
            also=lambda: self.budgets.look(self._running.values()),
        )
        store = parts.record.store
        self._retention = Retention(
            store.folders,
            parts.settings.outputs_mib << 20,
            lambda: [entry.id for entry in store.held()],
        )
        self._connecting = asyncio.Lock()
        self._running: dict[str, dict[str, Any]] = {}
        self._bound: dict[str, frozenset[str]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._reaper: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to watch for idle cells, stops that others set, and budgets that are used up."""
        self._reaper = asyncio.create_task(self._reap())
        self._watch.start()

    async def close(self) -> None:
        """Stop watching, and cancel the calls in the background; cells live on."""
        if self._reaper is not None:
            self._reaper.cancel()
        self._watch.close()
        await self.background.close()

    # -- cells

    async def connected(self) -> CellPool:
        """Return the cells, having reached the engine. Raises SandboxError."""
        async with self._connecting:
            if self.pool is None:
                self.pool = await asyncio.to_thread(
                    CellPool.connect,
                    self._parts.dirs,
                    self._parts.settings,
                    self._parts.policies.paths,
                    self._labels,
                )
                self.pool.on_start = self._parts.recovery.settle
                self.pool.works = self._parts.works
        return self.pool

    @contextlib.asynccontextmanager
    async def lease(self, call: Call) -> AsyncIterator[Cell]:
        """Give a call a cell for the time that it runs; where it may reach a host, one of its own.

        Its decision must be on disk then: a way out is open before its command runs.
        """
        pool = await self.connected()
        network, questions = call.decision.rights.network, call.questions
        if call.has_outlet:
            ask = questions.ask if questions is not None else None
            opened = self._parts.outlets.open(
                pool, call.id, call.plan.agent, call.workspaces, network, ask
            )
            async with opened as outlet:
                call.connect(outlet)
                yield outlet.cell
            return
        async with pool.lease(call.plan.agent, call.workspaces, write=call.writes) as cell:
            yield cell

    def cells(self) -> list[dict[str, Any]]:
        """Return the living cells."""
        return [
            {
                "name": cell.name,
                "agent": cell.spec.agent,
                "workspaces": list(cell.spec.workspaces),
                "started": cell.started,
                "busy": cell.busy,
                "hidden": [path for paths in cell.hidden for path in paths],
            }
            for cell in (self.pool.living() if self.pool else ())
        ]

    async def end_cells(self) -> None:
        """End every cell; nothing of what runs there lands."""
        if self.pool is not None:
            await self.pool.end_all()

    # -- calls

    @contextlib.contextmanager
    def listed(self, call: Call, *, background: bool = False) -> Iterator[None]:
        """List a call as running, and count its time, while this lasts."""
        work = Work(Kind.CALL, call.id, call.plan.agent, call.workspaces)
        self._running[call.id] = {
            "id": call.id,
            "agent": call.plan.agent,
            "tool": call.plan.tool,
            "command": call.plan.params.command or call.plan.params.file_path or "",
            "workspace": call.plan.workspace,
            "started": time.time(),
            "background": background,
        }
        self._bound[call.id] = frozenset(os.path.realpath(one.path) for one in call.scripts)
        try:
            with self.budgets.running(call.plan.agent), self._parts.works.listed(work):
                yield
        finally:
            self._running.pop(call.id, None)
            self._bound.pop(call.id, None)
            self._parts.objections.ended(call.id)

    @property
    def binds(self) -> bool:
        """Whether a call runs that a person approved with files that it runs."""
        return any(self._bound.values())

    def bound(self, paths: frozenset[str]) -> str:
        """Say which running call was approved with one of some files, which therefore stays as it
        is until the call ends; empty where none was."""
        for call, files in self._bound.items():
            if both := sorted(files & paths):
                return (
                    f"denied: call `{call}`, which a person approved, runs `{both[0]}`; try again "
                    "when it has ended"
                )
        return ""

    def running(self) -> list[dict[str, Any]]:
        """Return the calls that run now; of one that waits to land, in how many seconds it does."""
        now = time.time()
        works = {work.call: work for work in self._parts.works if work.kind is Kind.CALL}
        found = []
        for call, entry in self._running.items():
            until, ports = self._parts.objections.until(call), self.ports.list_open(call)
            lands = {"lands_in": max(0.0, until - now)} if until else {}
            state = {"state": works[call].state}
            found.append({**entry, **state, **lands, **({"ports": ports} if ports else {})})
        return found

    def has_background(self, agent: str) -> bool:
        """Whether an agent has a call in the background."""
        return any(one["background"] and one["agent"] == agent for one in self._running.values())

    # -- ends

    async def stop(self, reason: str, agent: str | None = None, *, own: bool = False) -> StopReport:
        """Stop everything, or one agent and all below it. Raises BadInput for an unknown one.

        `own`: that agent asks, so it is known even if it has done nothing yet.
        """
        engine = self.pool.engine if self.pool is not None else None
        hold = self._parts.latch.hold
        report = await asyncio.to_thread(
            stop_all, self._parts.dirs, reason, agent=agent, own=own, engine=engine, hold=hold
        )
        self._watch.handles(report.agent)
        if self.pool is not None and report.agent is None:
            ending = asyncio.create_task(self.end_cells())  # the engine takes its time
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
            await asyncio.wait([ending], timeout=_END_SECONDS)
        return report

    async def _carry_out(self, info: LatchInfo) -> None:
        """Carry out a stop that somebody set and nobody sweeps for."""
        await self.stop(info.reason, info.agent)

    def _end_running(self, agent: str) -> None:
        """End what the calls of an agent, and of those below it, run; they are judged."""
        for cell in self.pool.living() if self.pool else ():
            if below(agent, cell.spec.agent):
                cell.end_running()

    async def _reap(self) -> None:
        """End cells that idle, and drop the oldest outputs beyond the quota."""
        while True:
            await asyncio.sleep(_REAP_SECONDS)
            try:
                await self._reap_once()
            except (SandboxError, OSError, sqlite3.Error):  # a full disk: the next time, perhaps
                traceback.print_exc()

    async def _reap_once(self) -> None:
        record = self._parts.record
        await record.flush()
        if self.pool is not None:
            await self.pool.end_idle(now=asyncio.get_running_loop().time())
        if not self._running:
            await asyncio.to_thread(record.store.index_ahead)
        running = tuple(self._running)
        dropped = await asyncio.to_thread(self._retention.look, record.store.written, running)
        if dropped is not None:
            await record.event(OutputsDroppedRecord(**asdict(dropped)))
