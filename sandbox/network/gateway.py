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
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from policy.hosts import askable
from sandbox.errors import SandboxError, Unavailable
from sandbox.host.relaunch import environment
from sandbox.network.book import (
    ASKED_NAMES,
    ASKED_PORTS,
    MOST_LISTENERS,
    MOST_NAMES,
    Book,
    Reach,
)
from sandbox.network.carrier import Limits
from sandbox.network.holding import MOST_QUESTIONS, Place
from sandbox.network.login.host_secrets import NoSecret
from sandbox.network.login.uses import Secret, Use
from sandbox.network.traffic import Traffic

MODULE = "sandbox.network.serve"
START_SECONDS = 30.0
END_SECONDS = 5.0
LOST = "the gateway ended before the call"
MOST_LINE = 1 << 16


@dataclass(frozen=True, slots=True)
class HostWord:
    """A person's word on a host to which a connection is held."""

    reach: Reach | None
    """Where it may lead; None: nowhere."""
    why: str = ""


AskHost = Callable[[str, int], Awaitable[HostWord]]
"""Asks a person about a host and a port."""


class Gateway:
    """The gateway of one call; `end` must follow `start`."""

    def __init__(
        self,
        reaches: Sequence[Reach],
        limits: Limits,
        end_call: Callable[[], None],
        uses: Sequence[Use] = (),
        read_secret: Callable[[str, str], Secret] | None = None,
        ask_host: AskHost | None = None,
    ) -> None:
        """`end_call` ends the call's command, once it has sent or received more than it may;
        `read_secret` returns the secret of one of `uses` for a host (raises NoSecret); `ask_host`
        asks a person about a name without right; None: such names do not exist."""
        self._ask_host = ask_host
        self._asked: set[Place] = set()
        self._asked_ports = ASKED_PORTS
        self._uses = tuple(uses)
        self._read_secret = read_secret
        self._tasks: set[asyncio.Task[None]] = set()
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
        return Book(self._reaches, spare=self._spare, ports=self._asked_ports).listeners()

    @property
    def _spare(self) -> int:
        return ASKED_NAMES if self._ask_host is not None else 0

    async def start(self, sockets: Sequence[socket.socket], certificates: str) -> None:
        """Start it with the sockets, which are closed here; `certificates` are those that this host
        trusts. Raises Unavailable."""
        order = {
            "reaches": [reach.as_json() for reach in self._reaches],
            "limits": asdict(self._limits),
            "sockets": [connection.fileno() for connection in sockets],
            "uses": [use.as_json() for use in self._uses],
            "certificates": certificates if self._uses else "",
            "spare": self._spare,
            "asked_ports": list(self._asked_ports),
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
        waiting = list(self._tasks)
        for task in waiting:
            task.cancel()
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
            await asyncio.gather(*waiting, return_exceptions=True)  # no question outlives its call

    async def _hear(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        try:
            while line := await process.stdout.readline():
                self.traffic.hear(line)
                self._look_for_wish(process, line)
                self._look_for_question(process, line)
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
        for task in list(self._tasks):  # what it asked for leads nowhere any more
            task.cancel()

    def _look_for_wish(self, process: asyncio.subprocess.Process, line: bytes) -> None:
        """Begin to read a secret that the gateway asks for, if it is one of this call's."""
        try:
            wish = json.loads(line)["wants"]
            id, host = str(wish["id"]), str(wish["host"])
        except (ValueError, KeyError, TypeError):
            return
        known = any(use.id == id and host in use.hosts for use in self._uses)
        if known and self._read_secret is not None and not self._ending:
            self._begin(self._give(process, self._read_secret, id, host))

    def _look_for_question(self, process: asyncio.subprocess.Process, line: bytes) -> None:
        """Begin to ask a person about a host that the gateway names, where it is one that can be
        asked about, for the first time."""
        try:
            asks = json.loads(line)["asks"]
            host, port = str(asks["host"]), int(asks["port"])
        except (ValueError, KeyError, TypeError):
            return
        known = (host, port) in self._asked or len(self._asked) >= MOST_QUESTIONS
        if self._ask_host is None or self._ending or known:
            return
        if askable(host) and port in self._asked_ports:
            self._asked.add((host, port))
            self._begin(self._answer(process, self._ask_host, host, port))

    async def _answer(
        self, process: asyncio.subprocess.Process, ask: AskHost, host: str, port: int
    ) -> None:
        """Tell the gateway a person's word on a host."""
        self.traffic.closed.add((host, port))
        word = await ask(host, port)
        if word.reach is not None:
            self.traffic.closed.discard((host, port))
            self.traffic.names += (f"{host}:{port}",)
        reach = word.reach.as_json() if word.reach is not None else None
        answer = {"host": host, "port": port, "reach": reach, "why": word.why}
        self._send(process, {"answer": answer})

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

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
        self._send(process, {"secret": {"id": id, "host": host, **told}})

    @staticmethod
    def _send(process: asyncio.subprocess.Process, what: dict[str, Any]) -> None:
        assert process.stdin is not None
        if not process.stdin.is_closing():
            process.stdin.write(json.dumps(what).encode() + b"\n")


async def _waited(process: asyncio.subprocess.Process) -> bool:
    """Wait for the end of a process, for a time; return whether it came."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(END_SECONDS):
            await process.wait()
    return process.returncode is not None


def check_size(reaches: Sequence[Reach]) -> None:
    """Raise SandboxError where a call would need more listeners than a keeper opens."""
    listeners = Book(reaches, spare=ASKED_NAMES).listeners()
    if len(reaches) > MOST_NAMES or len(listeners) > MOST_LISTENERS:
        raise SandboxError("the call may reach more names and ports than one call can; name fewer")
