# SPDX-License-Identifier: Apache-2.0
"""One open port: a listening socket of the host's loopback, and the process that carries bytes
from it into a cell (`port_relay`).

INVARIANT (P4, loopback): a port is open on 127.0.0.1 and nowhere else, and for no longer than its
relay lives, which ends with whoever started it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from sandbox.errors import SandboxError, Unavailable
from sandbox.host.relaunch import environment
from sandbox.network.port_relay import MOST_MESSAGE

MODULE = "sandbox.network.port_relay"
START_SECONDS = 30.0
END_SECONDS = 5.0

Dial = Callable[[], Awaitable[socket.socket]]
"""Gives a socket that connects into the cell. Raises SandboxError."""


class PortForward:
    """Leads a port of this host into a cell; `end` must follow `start`."""

    def __init__(self, dial: Dial, lost: Callable[[], None]) -> None:
        """`lost` is called where its process ends by itself."""
        self._dial = dial
        self._lost = lost
        self._process: asyncio.subprocess.Process | None = None
        self._control: socket.socket | None = None
        self._ready = asyncio.Event()
        self._gone = asyncio.Event()
        """Set when its process says nothing more."""
        self._ending = False
        self._dialling: set[asyncio.Task[None]] = set()
        self.tally: dict[str, int] = {}
        """Connections, refused ones, bytes sent to the cell and received from it, so far."""

    async def start(self, listener: socket.socket) -> None:
        """Serve a listening socket, which is closed here. Raises Unavailable."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self._control = ours
        given = (listener.fileno(), theirs.fileno())
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", MODULE, *map(str, given)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                cwd="/",
                env=environment({"LANG": "C.UTF-8"}),
                pass_fds=given,
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise Unavailable(f"the port's relay cannot be started: {error.strerror}") from None
        finally:
            theirs.close()
            listener.close()
        asyncio.get_running_loop().add_reader(ours, self._hear)
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._ready.wait()
            stands = not self._gone.is_set()
        except TimeoutError:
            stands = False
        except BaseException:  # nobody waits for it any more
            await self.end()
            raise
        if not stands:
            await self.end()
            raise Unavailable("the port's relay did not start, so the port is not open")

    async def end(self) -> None:
        """End it with all its connections, and hear the last of it."""
        self._ending = True
        process, control = self._process, self._control
        if process is None or control is None:
            return
        with contextlib.suppress(OSError):
            control.shutdown(socket.SHUT_WR)
        try:
            async with asyncio.timeout(END_SECONDS):
                await self._gone.wait()
        except TimeoutError:
            pass
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            self._leave(control)
            await process.wait()

    def _leave(self, control: socket.socket) -> None:
        if control.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(control)
            control.close()
        self._gone.set()

    def _hear(self) -> None:
        """Take what the relay says; it asks for connections, and counts."""
        control = self._control
        assert control is not None
        try:
            data = control.recv(MOST_MESSAGE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._leave(control)
            self._ready.set()
            if not self._ending:
                self._lost()
            return
        said: dict[str, Any] = json.loads(data)
        self.tally = said.get("tally", self.tally)
        if "ready" in said:
            self._ready.set()
        elif "dial" in said and not self._ending:
            task = asyncio.create_task(self._connect(int(said["dial"])))
            self._dialling.add(task)
            task.add_done_callback(self._dialling.discard)

    async def _connect(self, number: int) -> None:
        """Give the relay the connection that it asked for, or say that there is none."""
        answer = json.dumps({"n": number}).encode()
        control = self._control
        assert control is not None
        try:
            dialled = await self._dial()
        except SandboxError:
            with contextlib.suppress(OSError):
                control.send(answer)
            return
        with dialled, contextlib.suppress(OSError):  # nobody takes it any more
            socket.send_fds(control, [answer], [dialled.fileno()])
