# SPDX-License-Identifier: Apache-2.0
"""Carries the connections of one call: whom is it for, may it go there, then bytes both ways."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sandbox.network.book import Book, Reach
from sandbox.network.ends import CHUNK, Refused, connected, opening
from sandbox.network.holding import ALONE, Holding
from sandbox.network.login.broker import Broker
from sandbox.network.login.sealed import Sealed

FIRST_SECONDS = 20.0
"""How long a client may take to say whom it wants."""
CONNECT_SECONDS = 20.0
IDLE_SECONDS = 300.0
"""A connection on which nothing goes either way for so long is ended."""


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
        broker: Broker | None = None,
        holding: Holding | None = None,
    ) -> None:
        """`tell` hears of each connection that has ended, `over` why the whole call is at its
        end; `broker` knows the hosts that get a credential, `holding` has a person asked about
        names without right."""
        self._broker = broker
        self._holding = holding
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
            first, body = await opening(connection, reader)
        if reach is None:
            if self._holding is None:
                raise Refused(ALONE)
            reach, more = await self._holding.wait(connection.host, connection.port, reader)
            connection.moved = time.monotonic()
            first += more if body is None else more[:body]
            body = None if body is None else max(0, body - len(more))
        elif self._broker is not None and self._broker.knows(connection.host, connection.port):
            if body is not None or not first:
                raise Refused("a credential goes over TLS alone")
            await self._broker_requests(self._broker, connection, reach, reader, writer, first)
            return
        async with asyncio.timeout(CONNECT_SECONDS):
            far_reader, far_writer = await connected(connection, reach)
        try:
            await self._relay(connection, reader, writer, far_reader, far_writer, first, body)
        finally:
            far_writer.transport.abort()

    async def _broker_requests(
        self,
        broker: Broker,
        connection: Connection,
        reach: Reach,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        first: bytes,
    ) -> None:
        """Carry the requests of a connection whose TLS ends here."""

        async def read() -> bytes:
            return await self._read(connection, reader, CHUNK)

        async def connect() -> FarEnd:
            async with asyncio.timeout(CONNECT_SECONDS):
                return FarEnd(self, connection, *await connected(connection, reach, broker.far))

        place = (connection.host, connection.port)
        near = Sealed(broker.near(connection.host), first, read, writer)
        try:
            async with asyncio.timeout(FIRST_SECONDS):
                await near.open()
        except ssl.SSLError:
            raise Refused("its program does not trust the certificate of the gateway") from None
        try:
            await broker.exchange(place, near, connect).serve()
        finally:
            await near.close()

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
        await self.send(connection, far_writer, first)

        async def out() -> None:
            left = body
            while data := await self._read(connection, reader, CHUNK):
                counts = data if left is None else data[:left]
                left = None if left is None else left - len(counts)
                if counts:  # what comes behind a plain request goes nowhere
                    await self.send(connection, far_writer, counts)
            far_writer.write_eof()

        def look(done: asyncio.Future[None]) -> None:
            if not done.cancelled() and done.exception() is not None:
                far_writer.transport.abort()  # the client is gone: nobody wants the answer

        sending = asyncio.ensure_future(out())
        sending.add_done_callback(look)
        try:
            while data := await self.receive(connection, far_reader):
                writer.write(data)
                async with asyncio.timeout(IDLE_SECONDS):
                    await writer.drain()
            with contextlib.suppress(OSError):  # the client may be gone already
                writer.write_eof()
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def receive(self, connection: Connection, reader: asyncio.StreamReader) -> bytes:
        """Read from the host, and count it."""
        data = await self._read(connection, reader, CHUNK)
        connection.received += len(data)
        self._received += len(data)
        if self._received > self._limits.received:
            self._end("the call received more than it may (`network.download_mib`)")
        return data

    async def send(self, connection: Connection, writer: asyncio.StreamWriter, data: bytes) -> None:
        """Send to the host, and count it. Raises Refused."""
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


class FarEnd:
    """A host's end of a connection whose requests are read here."""

    def __init__(
        self,
        carrier: Carrier,
        connection: Connection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._carrier = carrier
        self._connection = connection
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        """Return some bytes; nothing at the end."""
        return await self._carrier.receive(self._connection, self._reader)

    async def write(self, data: bytes) -> None:
        """Send bytes."""
        await self._carrier.send(self._connection, self._writer, data)

    def ended(self) -> bool:
        """Whether it has no further answer."""
        return self._reader.at_eof() or self._writer.is_closing()

    def abort(self) -> None:
        """End it at once."""
        self._writer.transport.abort()
