# SPDX-License-Identifier: Apache-2.0
"""The gateway's end of a TLS connection from the cell, whose first bytes were read already."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
CHUNK = 1 << 16
IDLE_SECONDS = 300.0
LINGER_SECONDS = 5.0
"""How long a client may still send after its last answer, so that it reads that answer."""
LINGER_BYTES = 1 << 24


class Sealed:
    """A stream of the cell's, decrypted. Raises OSError where it breaks."""

    def __init__(
        self,
        context: ssl.SSLContext,
        first: bytes,
        read: Callable[[], Awaitable[bytes]],
        writer: asyncio.StreamWriter,
    ) -> None:
        """`read` gives what comes after `first`; nothing: the end."""
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)
        self._in.write(first)
        self._read = read
        self._writer = writer

    async def open(self) -> None:
        """Shake hands."""
        await self._do(self._tls.do_handshake)

    async def read(self) -> bytes:
        """Return some bytes; nothing at the end."""
        try:
            return await self._do(lambda: self._tls.read(CHUNK))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""

    async def write(self, data: bytes) -> None:
        """Send bytes."""
        if data:
            await self._do(lambda: self._tls.write(data))

    async def close(self) -> None:
        """End it, so that what was sent is read before."""
        with contextlib.suppress(OSError, TimeoutError):
            with contextlib.suppress(ssl.SSLError):
                self._tls.unwrap()
            await self._flush()
            self._writer.write_eof()
            left = LINGER_BYTES
            async with asyncio.timeout(LINGER_SECONDS):
                while left > 0 and (data := await self._read()):
                    left -= len(data)

    async def _do(self, step: Callable[[], T]) -> T:
        while True:
            try:
                done = step()
            except ssl.SSLWantReadError:
                await self._flush()
                if data := await self._read():
                    self._in.write(data)
                else:
                    self._in.write_eof()
                continue
            except ssl.SSLError:
                await self._flush()  # the alert that says why
                raise
            await self._flush()
            return done

    async def _flush(self) -> None:
        if data := self._out.read():
            self._writer.write(data)
            async with asyncio.timeout(IDLE_SECONDS):
                await self._writer.drain()
