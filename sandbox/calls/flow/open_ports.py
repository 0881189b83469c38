# SPDX-License-Identifier: Apache-2.0
"""Ports of running calls that a person has opened to this host's loopback.

INVARIANT (P4, open port): a port leads into the cell of the call that was named, is on record
before anything goes through it, and is closed when the call's command has ended, however it did.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from sandbox.audit.events.calls import PortRecord
from sandbox.calls.recorder import Recorder
from sandbox.cells.cell import Cell
from sandbox.cells.pair.outcomes import KeeperRefused
from sandbox.errors import BadInput
from sandbox.host.login import login
from sandbox.network.ports import PortForward
from sandbox.processes.loopback import HOST, listen_on

MOST_PORTS = 16
"""Open ports of one call."""
MOST_KEPT = 100
"""Closed ports of one call that its records name beside those that are open."""
HIGHEST = 65_535


@dataclass(slots=True)
class _Port:
    """One port, open or closed."""

    port: int
    host_port: int
    by: str
    forward: PortForward | None = None
    closed: str = ""
    """Why; empty while it is open."""

    def view(self) -> dict[str, Any]:
        """Return it as records and lists name it."""
        tally = self.forward.tally if self.forward is not None else {}
        return {
            "port": self.port,
            "host": HOST,
            "host_port": self.host_port,
            "by": self.by,
            **({"closed": self.closed} if self.closed else {}),
            **tally,
        }


@dataclass(slots=True)
class _Reach:
    """A call whose ports can be opened."""

    agent: str
    cell: Cell
    ports: list[_Port] = field(default_factory=list)
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)
    over: bool = False


class OpenPorts:
    """The open ports of one supervisor."""

    def __init__(self, record: Recorder, check: Callable[[str], None]) -> None:
        """`check` raises Stopped where the agent that is named is stopped."""
        self._record = record
        self._check = check
        self._calls: dict[str, _Reach] = {}
        self._closing: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def of(self, call: str, agent: str, cell: Cell) -> AsyncIterator[None]:
        """Let ports of a call be opened while its command runs; they are closed afterwards."""
        reach = self._calls[call] = _Reach(agent, cell)
        try:
            yield
        finally:
            del self._calls[call]
            reach.over = True
            async with reach.changing:
                for port in _open(reach):
                    await self._end(call, reach, port, "its call ended")

    def list_open(self, call: str) -> list[dict[str, Any]]:
        """Return the open ports of a call."""
        reach = self._calls.get(call)
        return [port.view() for port in _open(reach)] if reach is not None else []

    async def open(self, call: str, port: int, host_port: int) -> dict[str, Any]:
        """Lead a port of this host's loopback to a port that a process in the call's cell listens
        on, by a person's word. Raises SandboxError."""
        reach = self._find(call)
        self._check(reach.agent)
        for number in (port, host_port):
            if number > HIGHEST:
                raise BadInput(f"{number} is no port; ports end at {HIGHEST}")
        async with reach.changing:
            if len(_open(reach)) >= MOST_PORTS:
                raise BadInput(
                    f"{MOST_PORTS} ports of call `{call}` are open, which is as many as one may "
                    f"have; `lockgate port --close {call} PORT` closes one"
                )
            try:
                await reach.cell.sockets.check_port(port)
            except KeeperRefused as error:
                raise BadInput(f"call `{call}`: {error.reason}") from None
            opened = _Port(port, host_port, login())
            opened.forward = PortForward(
                lambda: reach.cell.sockets.dial(port), lambda: self._lose(call, reach, opened)
            )
            await self._start(call, reach, opened)
            return {"call": call, **opened.view()}

    async def close(self, call: str, port: int | None) -> list[dict[str, Any]]:
        """Close the open ports of a call, or the one that is named. Raises BadInput for none."""
        reach = self._find(call)
        async with reach.changing:
            named = [one for one in _open(reach) if port in (None, one.port)]
            if not named:
                which = "port" if port is None else f"port {port}"
                raise BadInput(f"no {which} of call `{call}` is open; `lockgate port` lists those")
            for one in named:
                await self._end(call, reach, one, f"closed by {login()}")
        return [{"call": call, **one.view()} for one in named]

    def _find(self, call: str) -> _Reach:
        reach = self._calls.get(call)
        if reach is None:
            raise BadInput(f"no command of call `{call}` runs; `lockgate ps` lists those that do")
        return reach

    async def _start(self, call: str, reach: _Reach, opened: _Port) -> None:
        """Have the host's port, record it, and only then take connections there."""
        assert opened.forward is not None
        listener = listen_on(opened.host_port, "choose another one (`HOST:PORT`)")
        try:
            reach.ports.append(opened)
            await self._record.event(_record("port-opened", call, reach, opened))
        except BaseException:
            reach.ports.remove(opened)
            listener.close()
            raise
        try:
            await opened.forward.start(listener)
            if reach.over:
                raise BadInput(f"call `{call}` has ended")
        except BaseException as error:
            await self._end(call, reach, opened, str(error) or "it was not opened")
            raise

    async def _end(self, call: str, reach: _Reach, port: _Port, because: str) -> None:
        assert port.forward is not None
        if port.closed:  # somebody ends it already
            return
        port.closed = because
        try:
            await port.forward.end()
        finally:
            self._record.later(_record("port-closed", call, reach, port))
            closed = [one for one in reach.ports if one.closed]
            for one in closed[:-MOST_KEPT]:
                reach.ports.remove(one)

    def _lose(self, call: str, reach: _Reach, port: _Port) -> None:
        """Record that a port is closed because its process ended."""
        task = asyncio.create_task(self._end(call, reach, port, "its relay ended"))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _open(reach: _Reach) -> list[_Port]:
    return [port for port in reach.ports if not port.closed]


def _record(event: str, call: str, reach: _Reach, port: _Port) -> PortRecord:
    return PortRecord.model_validate(
        {
            "event": event,
            "call": call,
            "port": port.port,
            "host_port": port.host_port,
            "by": port.by,
            "ports": [one.view() for one in reach.ports],
            **({"because": port.closed} if port.closed else {}),
        }
    )
