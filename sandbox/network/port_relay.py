# SPDX-License-Identifier: Apache-2.0
"""Carries connections to one open port: `python -m sandbox.network.port_relay LISTENER CONTROL`.

A process of its own, which holds a listening socket of the host's loopback and a socket to its
supervisor. For each connection it asks for one into the cell, which comes as a descriptor; then
bytes go both ways, and none of them is looked at. It ends when the supervisor's socket does, so
that no open port outlives it. INVARIANT (P4, relay): it connects to nothing itself, and what a
server in the cell sends goes to whoever connected, and nowhere else.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from sandbox.network.confinement import confine

MOST_OPEN = 128
"""Connections at once; further ones are closed."""
IDLE_SECONDS = 1800.0
"""A connection on which nothing goes either way for so long is ended."""
CONNECT_SECONDS = 20.0
"""How long a connection into the cell may take to stand."""
CHUNK = 1 << 16
MOST_MESSAGE = 1 << 12

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Tally:
    """What went through one open port."""

    def __init__(self) -> None:
        self.connections = 0
        self.refused = 0
        """Connections that led nowhere: too many, or nothing answered in the cell."""
        self.sent = 0
        """Bytes to the cell."""
        self.received = 0

    def as_json(self) -> dict[str, int]:
        """Return it as it is told to the supervisor."""
        return dict(vars(self))


class Relay:
    """Serves one open port."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._tally = Tally()
        self._tasks: set[asyncio.Task[None]] = set()
        self._wanted: dict[int, asyncio.Future[socket.socket]] = {}
        self._count = 0
        self._over = asyncio.Event()

    async def serve(self, listener: socket.socket) -> None:
        """Serve until the supervisor's socket ends."""
        loop = asyncio.get_running_loop()
        self._control.setblocking(False)
        loop.add_reader(self._control, self._hear)
        server = await asyncio.start_server(self._take, sock=listener, limit=CHUNK)
        self._say(ready=True)
        await self._over.wait()
        loop.remove_reader(self._control)
        server.close()
        waiting = list(self._tasks)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        self._say(tally=self._tally.as_json())

    def _say(self, **what: Any) -> bool:
        try:
            self._control.send(json.dumps(what).encode())
        except OSError:  # the supervisor does not read, or is gone
            return False
        return True

    def _hear(self) -> None:
        """Take one message of the supervisor, with the socket that came with it."""
        try:
            data, fds, _, _ = socket.recv_fds(
                self._control, MOST_MESSAGE, 1, socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return
        except OSError:
            data, fds = b"", []
        if not data:
            self._over.set()
            return
        future = self._wanted.pop(int(json.loads(data)["n"]), None)
        if future is None or future.done():
            for fd in fds:
                os.close(fd)
        elif fds:
            future.set_result(socket.socket(fileno=fds[0]))
        else:
            future.set_exception(ConnectionRefusedError())

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end, whatever it does; others do not notice."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if len(self._tasks) > MOST_OPEN:
                raise ConnectionRefusedError
            far = await self._connected()
        except (OSError, TimeoutError):
            self._tally.refused += 1
            self._leave(task, writer)
            return
        except asyncio.CancelledError:
            self._leave(task, writer)
            raise
        self._tally.connections += 1
        try:
            await self._carry((reader, writer), far)
        finally:
            far[1].transport.abort()
            self._leave(task, writer)
            self._say(tally=self._tally.as_json())

    def _leave(self, task: asyncio.Task[None], writer: asyncio.StreamWriter) -> None:
        self._tasks.discard(task)
        writer.transport.abort()

    async def _connected(self) -> Streams:
        """Return a connection into the cell."""
        loop = asyncio.get_running_loop()
        self._count += 1
        number, future = self._count, loop.create_future()
        self._wanted[number] = future
        if not self._say(dial=number):
            del self._wanted[number]
            raise ConnectionRefusedError
        async with asyncio.timeout(CONNECT_SECONDS):
            try:
                dialled = await future
            finally:
                self._wanted.pop(number, None)
            try:
                await _stands(dialled)
                return await asyncio.open_connection(sock=dialled, limit=CHUNK)
            except BaseException:
                dialled.close()
                raise

    async def _carry(self, near: Streams, far: Streams) -> None:
        """Carry bytes both ways until both ends have said all, one is gone, or nothing moves."""
        moved = time.monotonic()

        def count(way: str, size: int) -> None:
            nonlocal moved
            moved = time.monotonic()
            setattr(self._tally, way, getattr(self._tally, way) + size)

        async def watch() -> None:
            while (left := moved + IDLE_SECONDS - time.monotonic()) > 0:
                await asyncio.sleep(left)

        async def both() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(_copy(near[0], far[1], lambda size: count("sent", size)))
                group.create_task(_copy(far[0], near[1], lambda size: count("received", size)))
            for writer in (near[1], far[1]):  # what is written yet goes out first
                writer.close()
                await writer.wait_closed()

        tasks = [asyncio.ensure_future(both()), asyncio.ensure_future(watch())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _copy(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: Callable[[int], None]
) -> None:
    """Pass on what comes until it ends, and then that it has ended."""
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
        count(len(data))
    writer.write_eof()


async def _stands(dialled: socket.socket) -> None:
    """Wait until a socket that connects has done so. Raises OSError."""
    loop = asyncio.get_running_loop()
    dialled.setblocking(False)
    writable = asyncio.Event()
    loop.add_writer(dialled, writable.set)
    try:
        await writable.wait()
    finally:
        loop.remove_writer(dialled)
    if code := dialled.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        raise OSError(code, os.strerror(code))


def main() -> None:
    """Serve the port whose sockets the arguments name."""
    listener, control = (socket.socket(fileno=int(word)) for word in sys.argv[1:3])
    listener.setblocking(False)
    confine()
    asyncio.run(Relay(control).serve(listener))


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    main()
