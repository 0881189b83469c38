# SPDX-License-Identifier: Apache-2.0
"""A connection to the program inside a container, over the engine's attach stream.

The engine multiplexes standard output and error in blocks with an 8-byte header; standard output
carries our frames, standard error is kept as a tail for messages about failures.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from sandbox.cell import protocol

_TAIL = 4000


class Link(asyncio.Protocol):
    """Frames to and from one container.

    `on_frame(kind, frame)` is called for each frame; `on_lost(reason)` once, when the stream ends.
    """

    def __init__(
        self, on_frame: Callable[[int, Any], None], on_lost: Callable[[str], None]
    ) -> None:
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._decoder = protocol.Decoder()
        self._block = bytearray()
        self._tail = bytearray()
        self._transport: asyncio.Transport | None = None
        self._direct: _Direct | None = None
        self.closed = False

    async def connect(self, sock: socket.socket) -> None:
        """Take over an attached socket."""
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, sock=sock)

    async def go_direct(self, sock: socket.socket) -> None:
        """Use a connection of our own from now on; the attach stream stays as the sign of life."""
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        _, direct = await loop.create_connection(lambda: _Direct(self), sock=sock)
        self._direct = direct

    def send(self, message: dict[str, Any]) -> None:
        """Send a control message."""
        self._write(protocol.pack(message))

    def send_data(self, call: int, channel: int, data: bytes) -> None:
        """Send bytes of a channel."""
        self._write(protocol.pack_data(call, channel, data))

    def read(self, *, go_on: bool) -> None:
        """Stop reading, or go on: whoever sends has to wait meanwhile."""
        transport = self._direct.transport if self._direct else self._transport
        if transport is None or self.closed or transport.is_closing():
            return
        if go_on:
            transport.resume_reading()
        else:
            transport.pause_reading()

    def close(self) -> None:
        """End the stream; the program at the other end takes that as its end."""
        self.closed = True
        if self._direct is not None and self._direct.transport is not None:
            self._direct.transport.abort()
        if self._transport is not None:
            self._transport.abort()

    @property
    def tail(self) -> str:
        """The last lines that the program wrote to standard error."""
        return self._tail.decode("utf-8", "replace").strip()

    def _write(self, data: bytes) -> None:
        transport = self._direct.transport if self._direct else self._transport
        if transport is not None and not self.closed:
            transport.write(data)

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._block += data
        while len(self._block) >= 8:
            stream, length = self._block[0], int.from_bytes(self._block[4:8], "big")
            if len(self._block) < 8 + length:
                return
            payload = bytes(self._block[8 : 8 + length])
            del self._block[: 8 + length]
            if stream != 1:
                self._tail = (self._tail + payload)[-_TAIL:]
                continue
            self.take(self._decoder, payload)

    def take(self, decoder: protocol.Decoder, data: bytes) -> None:
        """Pass on the frames that these bytes complete."""
        try:
            for kind, frame in decoder.feed(data):
                self._on_frame(kind, frame)
        except protocol.ProtocolError as error:
            self.lost(f"bad frame: {error}")

    def connection_lost(self, error: Exception | None) -> None:
        self.lost(str(error) if error else "stream ended")

    def lost(self, reason: str) -> None:
        if not self.closed:
            self.close()
            last = self.tail.rsplit("\n", 1)[-1]
            self._on_lost(f"{reason}{': ' + last if last else ''}")


class _Direct(asyncio.Protocol):
    """A connection of our own: frames without the engine's blocks around them."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._decoder = protocol.Decoder()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._link.take(self._decoder, data)

    def connection_lost(self, error: Exception | None) -> None:
        self._link.lost(str(error) if error else "connection ended")
