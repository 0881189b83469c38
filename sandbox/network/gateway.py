# SPDX-License-Identifier: Apache-2.0
"""Runs the gateway of one call (`serve`), and hears what went through it.

Whatever happens to it is closed: its sockets are its own, so that nothing leaves the cell any more
when it ends, however that happened.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sandbox.errors import SandboxError, Unavailable
from sandbox.host.relaunch import environment
from sandbox.network.book import MOST_LISTENERS, MOST_NAMES, Book, Reach
from sandbox.network.carrier import Limits

MODULE = "sandbox.network.serve"
START_SECONDS = 30.0
END_SECONDS = 5.0
MOST_LINE = 1 << 16
MOST_CONNECTIONS = 500
"""Connections that are kept one by one; more are only counted."""


@dataclass(slots=True)
class Traffic:
    """What went through a gateway."""

    names: tuple[str, ...] = ()
    """What the call might reach: `name:port`."""
    connections: list[dict[str, Any]] = field(default_factory=list)
    count: int = 0
    sent: int = 0
    received: int = 0
    refused: list[str] = field(default_factory=list)
    """Names that it asked for and had no right to."""
    over: str = ""
    """Why the call was ended: it sent or received more than it may."""
    lost: str = ""
    """How the gateway ended before its call did."""

    def hear(self, line: bytes) -> None:
        """Take what a gateway says; what is nothing of that counts as nothing."""
        with contextlib.suppress(ValueError, KeyError, TypeError):
            what = json.loads(line)
            if "refused" in what:
                self.refused.append(str(what["refused"]))
            elif "over" in what:
                self.over = str(what["over"])
            elif "connection" in what:
                one = dict(what["connection"])
                self.count += 1
                self.sent += int(one["sent"])
                self.received += int(one["received"])
                if len(self.connections) < MOST_CONNECTIONS:
                    self.connections.append(one)

    @property
    def stopped(self) -> str:
        """Why a connection of the call was refused; of the first such one, or none."""
        for one in self.connections:
            _, refused, why = str(one["end"]).partition("refused: ")
            if refused:
                where = f"`{one['host']}:{one['port']}`" if one["host"] else f"port {one['port']}"
                return f"{where}: {why}"
        return ""


class Gateway:
    """The gateway of one call; `end` must follow `start`."""

    def __init__(
        self, reaches: Sequence[Reach], limits: Limits, end_call: Callable[[], None]
    ) -> None:
        """`end_call` ends the call's command, once it has sent or received more than it may."""
        self._end_call = end_call
        self._reaches = tuple(reaches)
        self._limits = limits
        self._process: asyncio.subprocess.Process | None = None
        self._hearing: asyncio.Task[None] | None = None
        self._ending = False
        self.traffic = Traffic(
            names=tuple(f"{one.name}:{port}" for one in reaches for port in one.ports)
        )

    @property
    def listeners(self) -> list[tuple[str, str, int]]:
        """What the keeper must listen on in the cell."""
        return Book(self._reaches).listeners()

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        """Start it with the sockets, which are closed here. Raises Unavailable."""
        order = {
            "reaches": [one.as_json() for one in self._reaches],
            "limits": asdict(self._limits),
            "sockets": [one.fileno() for one in sockets],
        }
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", MODULE),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=MOST_LINE,
                cwd="/",
                env=environment({"LANG": "C.UTF-8"}),
                pass_fds=[one.fileno() for one in sockets],
                start_new_session=True,
            )
        except OSError as error:
            raise Unavailable(f"the gateway cannot be started: {error.strerror}") from None
        finally:
            for one in sockets:
                one.close()
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(order).encode() + b"\n")
        try:
            async with asyncio.timeout(START_SECONDS):
                ready = b"ready" in await process.stdout.readline()
        except TimeoutError:
            ready = False
        except BaseException:  # nobody waits for it any more
            await self.end()
            raise
        if not ready:
            await self.end()
            raise Unavailable("the gateway did not start, so the call gets no network")
        self._hearing = asyncio.create_task(self._hear(process))

    async def end(self) -> None:
        """End it with all its connections, and hear the last of it."""
        self._ending = True
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(END_SECONDS):
                await process.wait()
        except TimeoutError:
            pass
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            if self._hearing is not None:
                await asyncio.gather(self._hearing, return_exceptions=True)

    async def _hear(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        with contextlib.suppress(ValueError):  # a line beyond any measure
            while line := await process.stdout.readline():
                self.traffic.hear(line)
                if self.traffic.over and not self._ending:
                    self._end_call()
        if not self._ending:
            status = await process.wait()
            self.traffic.lost = f"the gateway ended before the call, with status {status}"


def check_size(reaches: Sequence[Reach]) -> None:
    """Raise SandboxError where a call would need more listeners than a keeper opens."""
    if len(reaches) > MOST_NAMES or len(Book(reaches).listeners()) > MOST_LISTENERS:
        raise SandboxError("the call may reach more names and ports than one call can; name fewer")
