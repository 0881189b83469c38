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
from sandbox.network.login.host_secrets import NoSecret
from sandbox.network.login.uses import Secret, Use

MODULE = "sandbox.network.serve"
START_SECONDS = 30.0
END_SECONDS = 5.0
LOST = "the gateway ended before the call"
MOST_LINE = 1 << 16
MOST_CONNECTIONS = 500
"""Connections that are kept one by one; more are only counted."""
MOST_ENDS = 1 << 15
"""Characters of how the kept connections ended, altogether; further ones are kept in one word."""


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
    credentials: dict[str, int] = field(default_factory=dict)
    """How many requests got a credential, by its id."""
    unread: dict[str, str] = field(default_factory=dict)
    """Why a credential could not be read, by its id; for people."""
    _ends: int = 0
    """Characters of how connections ended."""

    def hear(self, line: bytes) -> None:
        """Take what a gateway says. Raises ValueError where it cannot be read."""
        try:
            self._take(json.loads(line))
        except (KeyError, TypeError, RecursionError) as error:
            raise ValueError("no line of a gateway") from error

    def _take(self, what: dict[str, Any]) -> None:
        if "refused" in what:
            self.refused.append(str(what["refused"]))
        elif "used" in what:
            used = str(what["used"])
            self.credentials[used] = self.credentials.get(used, 0) + 1
        elif "over" in what:
            self.over = str(what["over"])
        elif "connection" in what:
            one = dict(what["connection"])
            self.count += 1
            self.sent += int(one["sent"])
            self.received += int(one["received"])
            if len(self.connections) < MOST_CONNECTIONS:
                end = str(one["end"])
                self._ends += len(end)
                one["end"] = end if self._ends <= MOST_ENDS else end.partition(":")[0]
                self.connections.append(one)

    @property
    def stopped(self) -> str:
        """Why a connection of the call was refused; of the first such one, or none."""
        for connection in self.connections:
            _, refused, why = str(connection["end"]).partition("refused: ")
            if refused:
                where = (
                    f"`{connection['host']}:{connection['port']}`"
                    if connection["host"]
                    else f"port {connection['port']}"
                )
                return f"{where}: {why}"
        return ""


class Gateway:
    """The gateway of one call; `end` must follow `start`."""

    def __init__(
        self,
        reaches: Sequence[Reach],
        limits: Limits,
        end_call: Callable[[], None],
        uses: Sequence[Use] = (),
        read_secret: Callable[[str, str], Secret] | None = None,
    ) -> None:
        """`end_call` ends the call's command, once it has sent or received more than it may;
        `read_secret` returns the secret of one of `uses` for a host (raises NoSecret)."""
        self._uses = tuple(uses)
        self._read_secret = read_secret
        self._reading: set[asyncio.Task[None]] = set()
        self.certificate = ""
        """What the cell must trust where a host gets a credential, once it has started."""
        self._end_call = end_call
        self._reaches = tuple(reaches)
        self._limits = limits
        self._process: asyncio.subprocess.Process | None = None
        self._hearing: asyncio.Task[None] | None = None
        self._ending = False
        self.traffic = Traffic(
            names=tuple(f"{reach.name}:{port}" for reach in reaches for port in reach.ports)
        )

    @property
    def listeners(self) -> list[tuple[str, str, int]]:
        """What the keeper must listen on in the cell."""
        return Book(self._reaches).listeners()

    async def start(self, sockets: Sequence[socket.socket], certificates: str) -> None:
        """Start it with the sockets, which are closed here; `certificates` are those that this host
        trusts. Raises Unavailable."""
        order = {
            "reaches": [reach.as_json() for reach in self._reaches],
            "limits": asdict(self._limits),
            "sockets": [connection.fileno() for connection in sockets],
            "uses": [use.as_json() for use in self._uses],
            "certificates": certificates if self._uses else "",
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
                pass_fds=[connection.fileno() for connection in sockets],
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
                line = await process.stdout.readline()
                ready = b"ready" in line
        except (TimeoutError, ValueError):
            ready = False
        except BaseException:  # nobody waits for it any more
            await self.end()
            raise
        if not ready:
            await self.end()
            raise Unavailable("the gateway did not start, so the call gets no network")
        self.certificate = str(json.loads(line).get("certificate", ""))
        self._hearing = asyncio.create_task(self._hear(process))

    async def end(self) -> None:
        """End it with all its connections, and hear the last of it."""
        self._ending = True
        for reading in self._reading:
            reading.cancel()
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            if not await _waited(process):
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await _waited(process)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            if self._hearing is not None:
                await asyncio.wait((self._hearing,), timeout=END_SECONDS)
                self._hearing.cancel()
            process._transport.close()  # type: ignore[attr-defined]  # whoever holds its pipes

    async def _hear(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        try:
            while line := await process.stdout.readline():
                self.traffic.hear(line)
                self._look_for_wish(process, line)
                if self.traffic.over and not self._ending:
                    self._end_call()
        except ValueError:  # one that is too long, or no line of a gateway
            self.traffic.lost = f"{LOST}: it said what cannot be read"
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            while await process.stdout.read(MOST_LINE):
                pass  # a pipe that nobody reads would hold its end up
        if not self.traffic.lost and not self._ending:
            await _waited(process)
            self.traffic.lost = f"{LOST}, with status {process.returncode}"

    def _look_for_wish(self, process: asyncio.subprocess.Process, line: bytes) -> None:
        """Begin to read a secret that the gateway asks for, if it is one of this call's."""
        try:
            wish = json.loads(line)["wants"]
            id, host = str(wish["id"]), str(wish["host"])
        except (ValueError, KeyError, TypeError):
            return
        known = any(use.id == id and host in use.hosts for use in self._uses)
        if known and self._read_secret is not None and not self._ending:
            task = asyncio.create_task(self._give(process, self._read_secret, id, host))
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)

    async def _give(
        self,
        process: asyncio.subprocess.Process,
        read: Callable[[str, str], Secret],
        id: str,
        host: str,
    ) -> None:
        """Tell the gateway a secret, or that there is none; it is kept nowhere here. Why there is
        none is for people, and in no cell."""
        try:
            told = asdict(await asyncio.to_thread(read, id, host))
        except NoSecret as error:
            self.traffic.unread[id] = str(error)
            told = {"problem": "it cannot be read"}
        assert process.stdin is not None
        if not process.stdin.is_closing():
            answer = {"secret": {"id": id, "host": host, **told}}
            process.stdin.write(json.dumps(answer).encode() + b"\n")


async def _waited(process: asyncio.subprocess.Process) -> bool:
    """Wait for the end of a process, for a time; return whether it came."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(END_SECONDS):
            await process.wait()
    return process.returncode is not None


def check_size(reaches: Sequence[Reach]) -> None:
    """Raise SandboxError where a call would need more listeners than a keeper opens."""
    if len(reaches) > MOST_NAMES or len(Book(reaches).listeners()) > MOST_LISTENERS:
        raise SandboxError("the call may reach more names and ports than one call can; name fewer")
