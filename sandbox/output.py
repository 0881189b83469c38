# SPDX-License-Identifier: Apache-2.0
"""Collect what a command writes: a bounded part for the answer, the whole for a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sandbox.masking import mask_bytes
from sandbox.store import Store
from sandbox.text import safe

NAMES = {1: "stdout", 2: "stderr"}
_SPILL = 1 << 20
_KEY_BYTES = 16_384
"""Most bytes of a key, which must not be cut in two before it is masked."""
_LINE_BYTES = 4 << 20
"""A longer line is written in pieces."""


class Output:
    """The output of one call."""

    def __init__(
        self, store: Store, call: str, limit: int, pass_on: Callable[[str, bytes], None] | None
    ) -> None:
        self._store = store
        self._call = call
        self._limit = limit
        self._pass_on = pass_on
        self._kept = {1: bytearray(), 2: bytearray()}
        self._waiting = {1: bytearray(), 2: bytearray()}
        self._size = {1: 0, 2: 0}
        self._files: dict[int, Path] = {}

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

    def listen(self, pass_on: Callable[[str, bytes], None]) -> None:
        """Pass on what was written so far, as far as it is kept, and whatever follows."""
        for channel, name in NAMES.items():
            if self._kept[channel]:
                pass_on(name, bytes(self._kept[channel]))
        self._pass_on = pass_on

    def finish(self) -> None:
        """Write what is not yet in a file. Touches nothing when nothing was written."""
        for channel in NAMES:
            self._spill(channel, whole=True)

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
        """Return the file with the whole output if the answer's part was cut."""
        if self._size[channel] <= self._limit:
            return None
        self._spill(channel, whole=True)
        return str(self._files[channel])

    def _spill(self, channel: int, *, whole: bool = False) -> None:
        """Write what waits, its secrets masked; of a stream that goes on, whole lines alone."""
        waiting = self._waiting[channel]
        size = len(waiting) if whole else _whole_lines(waiting)
        if size:
            data = mask_bytes(bytes(waiting[:size]))
            del waiting[:size]
            self._files[channel] = self._store.keep_output(self._call, NAMES[channel], data)


def _whole_lines(data: bytearray) -> int:
    """Return how much of a stream can be written: not half a line, nor half a key."""
    end = data.rfind(b"\n") + 1
    begun = data.rfind(b"-----BEGIN ", max(0, end - _KEY_BYTES), end)
    if begun > data.rfind(b"-----END ", 0, end):
        end = begun
    return end if end or len(data) < _LINE_BYTES else len(data)
