# SPDX-License-Identifier: Apache-2.0
"""Collect what a command writes: a bounded part for the answer, the whole for a file.

The file holds it with secrets masked, which takes a quarter of a second for each megabyte: that is
done off the event loop, in order, and whoever writes faster is made to wait (`room`).
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path

from sandbox.audit.store import Store
from sandbox.host.off_loop import SMALL
from sandbox.text.redaction import mask_bytes
from sandbox.text.terminal import safe

NAMES = {1: "stdout", 2: "stderr"}
_SPILL = 1 << 20
_KEY_BYTES = 16_384
"""Most bytes of a key, which must not be cut in two before it is masked."""
_LINE_BYTES = 4 << 20
"""A longer line is written in pieces."""
_BACKLOG = 4 << 20
"""Bytes that may wait to be masked before whoever writes has to wait."""

Do = Callable[[Callable[[], None]], Awaitable[None]]
"""Does blocking work off the event loop."""


class Output:
    """The output of one call."""

    def __init__(
        self,
        store: Store,
        call: str,
        limit: int,
        pass_on: Callable[[str, bytes], None] | None,
        do: Do = asyncio.to_thread,
    ) -> None:
        self._store = store
        self._call = call
        self._limit = limit
        self._pass_on = pass_on
        self._do = do
        self._kept = {1: bytearray(), 2: bytearray()}
        self._waiting = {1: bytearray(), 2: bytearray()}
        self._size = {1: 0, 2: 0}
        self._spilt: deque[tuple[int, bytes]] = deque()
        self._backlog = 0
        self._broken = False
        self._writing: asyncio.Task[None] | None = None
        self._moved = asyncio.Event()

    def take(self, channel: int, data: bytes) -> None:
        """Take the next piece of a channel."""
        self._size[channel] += len(data)
        kept = self._kept[channel]
        if len(kept) < self._limit:
            kept += data[: self._limit - len(kept)]
        waiting = self._waiting[channel]
        waiting += data
        if len(waiting) > _SPILL:
            self._spill(channel)
        if self._pass_on is not None:
            self._pass_on(NAMES[channel], data)

    def room_wanted(self) -> Awaitable[None] | None:
        """Return what to wait for before more may come; None: it may."""
        return self._room() if self._backlog > _BACKLOG else None

    async def _room(self) -> None:
        while self._backlog > _BACKLOG:
            self._moved.clear()
            await self._moved.wait()

    def listen(self, pass_on: Callable[[str, bytes], None]) -> None:
        """Pass on what was written so far, as far as it is kept, and whatever follows."""
        for channel, name in NAMES.items():
            if self._kept[channel]:
                pass_on(name, bytes(self._kept[channel]))
        self._pass_on = pass_on

    async def finish(self) -> None:
        """Write what is not yet in a file. Touches nothing when nothing was written."""
        for channel in NAMES:
            self._spill(channel, whole=True)
        if self._writing is not None:
            await asyncio.shield(self._writing)

    def text(self, channel: int) -> str:
        """Return the answer's part, safe to print, with a note where it was cut."""
        text = safe(bytes(self._kept[channel]))
        if self._size[channel] > self._limit:
            text += (
                f"\n[lockgate: {self._size[channel]} bytes were written, {self._limit} are shown; "
                f"the whole is in {self.file(channel)}]\n"
            )
        return text

    def file(self, channel: int) -> str | None:
        """Return the file that will hold the whole output if the answer's part was cut."""
        if self._size[channel] <= self._limit:
            return None
        return str(Path(self._store.folders) / self._call / NAMES[channel])

    def _spill(self, channel: int, *, whole: bool = False) -> None:
        """Hand on what waits to be written; of a stream that goes on, whole lines alone."""
        waiting = self._waiting[channel]
        size = len(waiting) if whole else _whole_lines(waiting)
        if not size or self._broken:
            return
        data = bytes(waiting[:size])
        del waiting[:size]
        if whole and size <= SMALL and self._writing is None:
            self._write(channel, data)
            return
        self._spilt.append((channel, data))
        self._backlog += size
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._go_on())

    async def _go_on(self) -> None:
        """Write all that was handed on, in order; what cannot be written fails the call."""
        try:
            while self._spilt:
                channel, data = self._spilt.popleft()
                await self._do(functools.partial(self._write, channel, data))
                self._backlog -= len(data)
                self._moved.set()
            self._writing = None
        finally:
            if self._spilt or self._writing is not None:
                self._broken = True
                self._backlog = 0
                self._moved.set()

    def _write(self, channel: int, data: bytes) -> None:
        """Write to a channel's file, secrets masked."""
        self._store.keep_output(self._call, NAMES[channel], mask_bytes(data))


def _whole_lines(data: bytearray) -> int:
    """Return how much of a stream can be written: not half a line, nor half a key."""
    end = data.rfind(b"\n") + 1
    begun = data.rfind(b"-----BEGIN ", max(0, end - _KEY_BYTES), end)
    if begun > data.rfind(b"-----END ", 0, end):
        end = begun
    return end if end or len(data) < _LINE_BYTES else len(data)
