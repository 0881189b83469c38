# SPDX-License-Identifier: Apache-2.0
"""Carries the connections of one call: whom is it for, may it go there, then bytes both ways."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sandbox.network import client_hello, plain_http
from sandbox.network.addresses import refusal
from sandbox.network.book import Book, Reach

RAW_PORTS = frozenset((22, 9418))
"""Ports of protocols that say no host's name (ssh, git): the address alone counts."""
TLS_PORT = 443
FIRST_SECONDS = 20.0
"""How long a client may take to say whom it wants."""
CONNECT_SECONDS = 20.0
IDLE_SECONDS = 300.0
"""A connection on which nothing goes either way for so long is ended."""
CHUNK = 1 << 18


@dataclass(frozen=True, slots=True)
class Limits:
    """What one call may use of its gateway."""

    open: int
    """Connections at once."""
    total: int
    """Connections altogether."""
    sent: int
    """Bytes that all of them send."""
    received: int
    """Bytes that all of them receive."""


class Refused(Exception):
    """A connection leads nowhere; the text says why."""


@dataclass(slots=True)
class Connection:
    """One connection of the cell."""

    port: int
    host: str = ""
    address: str = ""
    sent: int = 0
    received: int = 0
    started: float = field(default_factory=time.time)
    moved: float = field(default_factory=time.monotonic)

    def as_json(self, end: str) -> dict[str, Any]:
        """Return it for the record."""
        return {
            "host": self.host,
            "port": self.port,
            **({"address": self.address} if self.address else {}),
            "sent": self.sent,
            "received": self.received,
            "started": round(self.started, 3),
            "seconds": round(max(0.0, time.time() - self.started), 3),
            "end": end,
        }


class Carrier:
    """Takes what connects to the gateway's sockets."""

    BUFFER = CHUNK

    def __init__(
        self,
        book: Book,
        limits: Limits,
        tell: Callable[[dict[str, Any]], None],
        over: Callable[[str], None],
    ) -> None:
        """`tell` hears of each connection that has ended, `over` why the whole call is at its
        end."""
        self._book = book
        self._limits = limits
        self._tell = tell
        self._tell_over = over
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = 0
        self._total = 0
        self._sent = 0
        self._received = 0
        self._over = ""

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end, whatever it does; others do not notice."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._open += 1
        self._total += 1
        here = writer.get_extra_info("sockname")
        connection = Connection(port=int(here[1]))
        end = "ended"
        try:
            await self._serve(connection, str(here[0]), reader, writer)
        except Refused as error:
            end = f"refused: {error}"
        except TimeoutError:
            end = "idle"
        except (OSError, EOFError):
            end = "broken"
        except asyncio.CancelledError:
            end = f"refused: {self._over}" if self._over else "its call is over"
        finally:
            self._open -= 1
            self._tasks.discard(task)
            writer.transport.abort() if end != "ended" else writer.close()
            if self._total <= self._limits.total:
                self._tell(connection.as_json(end))

    async def close(self) -> None:
        """End every connection."""
        waiting = list(self._tasks)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    async def _serve(
        self,
        connection: Connection,
        here: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        if self._over:
            raise Refused(self._over)
        if self._open > self._limits.open or self._total > self._limits.total:
            raise Refused("too many connections")
        place = self._book.behind(here)
        if place is None:
            raise Refused("nobody asked for a name there")
        connection.host, reach = place
        async with asyncio.timeout(FIRST_SECONDS):
            first, body = await _opening(connection, reader)
        async with asyncio.timeout(CONNECT_SECONDS):
            far_reader, far_writer = await _connected(connection, reach)
        try:
            await self._relay(connection, reader, writer, far_reader, far_writer, first, body)
        finally:
            far_writer.transport.abort()

    async def _relay(
        self,
        connection: Connection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        far_reader: asyncio.StreamReader,
        far_writer: asyncio.StreamWriter,
        first: bytes,
        body: int | None,
    ) -> None:
        """Carry bytes both ways. `body`: how many more of the client's count; None: all."""
        await self._send(connection, far_writer, first)

        async def out() -> None:
            left = body
            while data := await self._read(connection, reader, CHUNK):
                counts = data if left is None else data[:left]
                left = None if left is None else left - len(counts)
                if counts:  # what comes behind a plain request goes nowhere
                    await self._send(connection, far_writer, counts)
            far_writer.write_eof()

        def look(done: asyncio.Future[None]) -> None:
            if not done.cancelled() and done.exception() is not None:
                far_writer.transport.abort()  # the client is gone: nobody wants the answer

        sending = asyncio.ensure_future(out())
        sending.add_done_callback(look)
        try:
            while data := await self._read(connection, far_reader, CHUNK):
                connection.received += len(data)
                self._received += len(data)
                if self._received > self._limits.received:
                    self._end("the call received more than it may (`network.download_mib`)")
                writer.write(data)
                async with asyncio.timeout(IDLE_SECONDS):
                    await writer.drain()
            with contextlib.suppress(OSError):  # the client may be gone already
                writer.write_eof()
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _send(
        self, connection: Connection, writer: asyncio.StreamWriter, data: bytes
    ) -> None:
        self._sent += len(data)
        if self._sent > self._limits.sent:
            self._end("the call sent more than it may (`network.upload_mib`)")
            await asyncio.sleep(0)  # where it is ended itself
            raise Refused(self._over)
        connection.sent += len(data)
        connection.moved = time.monotonic()
        writer.write(data)
        async with asyncio.timeout(IDLE_SECONDS):
            await writer.drain()

    @staticmethod
    async def _read(connection: Connection, reader: asyncio.StreamReader, most: int) -> bytes:
        """Read, as long as anything goes on this connection, either way."""
        while True:
            try:
                async with asyncio.timeout(IDLE_SECONDS):
                    data = await reader.read(min(most, CHUNK))
            except TimeoutError:
                if time.monotonic() - connection.moved > IDLE_SECONDS:
                    raise
                continue
            connection.moved = time.monotonic()
            return data

    def _end(self, why: str) -> None:
        """End the network of the call: every connection, and whatever would come."""
        if not self._over:
            self._tell_over(why)
        self._over = why
        for task in list(self._tasks):
            task.cancel()


async def _opening(
    connection: Connection, reader: asyncio.StreamReader
) -> tuple[bytes, int | None]:
    """Return the first bytes to pass on, and how many more of the client's are; None: all.

    Raises Refused where they are not for the name that the connection was made to.
    """
    if connection.port in RAW_PORTS:
        return b"", None
    data = b""
    while more := await reader.read(CHUNK):
        data += more
        try:
            if data[0] == client_hello.HANDSHAKE:
                name = client_hello.server_name(data)
                if name is None:
                    continue
                _compare(name, connection.host)
                return data, None
            if connection.port == TLS_PORT:
                raise Refused("it is no TLS")
            found = plain_http.read_request(data)
        except (client_hello.Malformed, plain_http.Malformed) as error:
            raise Refused(str(error)) from None
        if found is not None:
            request, rest = found
            _compare(request.host, connection.host)
            rest = rest[: request.body]
            return request.head + rest, request.body - len(rest)
    raise Refused("it ended before it said whom it is for")


def _compare(said: str, host: str) -> None:
    if said.rstrip(".") != host:
        raise Refused("it names another host than the one it goes to")


async def _connected(
    connection: Connection, reach: Reach
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a connection to the name, at an address that may be connected to. Raises Refused."""
    why = "the name has no address"
    for address in await _addresses(connection, reach):
        if not reach.address and (why := refusal(address, private=reach.private)):
            continue
        try:
            reader, writer = await asyncio.open_connection(address, connection.port, limit=CHUNK)
        except OSError as error:
            why = f"it cannot be connected to: {(error.strerror or 'it fails').lower()}"
            continue
        own = writer.get_extra_info("sockname")[0] == writer.get_extra_info("peername")[0]
        if own and not reach.address:
            writer.transport.abort()
            why = "it is an address of this host"
            continue
        connection.address = address
        return reader, writer
    raise Refused(why)


async def _addresses(connection: Connection, reach: Reach) -> list[str]:
    if reach.address:
        return [reach.address]
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(
            connection.host, connection.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
        )
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(one[4][0]) for one in found))
