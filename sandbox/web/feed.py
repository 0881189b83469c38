# SPDX-License-Identifier: Apache-2.0
"""What is added to the record, as it is added, for any number of listeners.

One task reads the log for all. A listener that does not keep up is dropped, and holds nobody else
up: with the number of the last record that it has, it is told the rest when it comes again.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from sandbox.audit.store import Store
from sandbox.errors import Busy
from sandbox.host.dirs import Dirs

LOOK_SECONDS = 0.2
"""How soon a new record is noticed."""
MOST_WAITING = 256
"""Records that wait for one listener; one that leaves more unread is dropped."""
MOST_LISTENERS = 64
MOST_MISSED = 1000
"""Records that a listener is told who comes again; what is older, `/v1/record` has."""
_READ_BYTES = 1024 * 1024

Line = dict[str, Any]


class EventListener:
    """One who is told of new records."""

    def __init__(self) -> None:
        self.waiting: asyncio.Queue[Line] = asyncio.Queue(MOST_WAITING)
        self.dropped = False

    def tell(self, line: Line) -> None:
        """Tell it, unless it has left too much unread: then it is told nothing more."""
        if self.dropped:
            return
        try:
            self.waiting.put_nowait(line)
        except asyncio.QueueFull:
            self.dropped = True


class Feed:
    """Follows the log of one state folder while somebody listens."""

    def __init__(self, dirs: Dirs) -> None:
        self._dirs = dirs
        self._log = dirs.state / "audit.jsonl"
        self._listeners: set[EventListener] = set()
        self._following: asyncio.Task[None] | None = None
        self._place: tuple[int, int] = (0, 0)
        """The file (its inode) and how much of it was read."""
        self._rest = b""
        self._last = 0
        """The number of the last record that was read."""

    def listen(self, after: int | None) -> AsyncIterator[Line]:
        """Return new records as they come, after those since number `after` that were missed.

        They end where the listener is dropped, and at once where too many came together with it.
        Raises Busy where too many listen.
        """
        if self._is_full:
            raise Busy(f"{MOST_LISTENERS} clients listen to events; close one")
        return self._heard(after)

    @property
    def _is_full(self) -> bool:
        return len(self._listeners) >= MOST_LISTENERS

    async def _heard(self, after: int | None) -> AsyncIterator[Line]:
        if self._is_full:
            return
        own = EventListener()
        if not self._listeners:
            self._place, self._rest = _end(self._log), b""
            self._last = next((int(item["n"]) for item in _numbered(self._dirs)), 0)
        self._listeners.add(own)
        if self._following is None or self._following.done():
            self._following = asyncio.create_task(self._follow())
        try:
            last = after or 0
            if after is not None:
                for line in await asyncio.to_thread(self._missed, after):
                    last = max(last, int(line.get("n", 0)))
                    yield line
            while not own.dropped:
                line = await own.waiting.get()
                if int(line.get("n", 0)) > last:
                    yield line
        finally:
            self._listeners.discard(own)

    async def _follow(self) -> None:
        while self._listeners:
            for line in await asyncio.to_thread(self._new):
                for item in tuple(self._listeners):
                    item.tell(line)
            await asyncio.sleep(LOOK_SECONDS)

    def _missed(self, after: int) -> list[Line]:
        since = takewhile(lambda item: int(item["n"]) > after, _numbered(self._dirs))
        return list(islice(since, MOST_MISSED))[::-1]

    def _new(self) -> list[Line]:
        """Return what was added since the last look."""
        lines = self._read_on()
        if lines and self._last and int(lines[0]["n"]) != self._last + 1:
            lines = self._missed(self._last)  # a file of the log was closed meanwhile
        if lines:
            self._last = int(lines[-1]["n"])
        return lines

    def _read_on(self) -> list[Line]:
        try:
            with self._log.open("rb") as file:
                there = os.fstat(file.fileno())
                inode, read = self._place
                if there.st_ino != inode or there.st_size < read:
                    read, self._rest = 0, b""
                file.seek(read)
                data = file.read(_READ_BYTES)
                self._place = there.st_ino, read + len(data)
        except OSError:
            return []
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [found for line in lines if (found := _read(line)) is not None]


def _end(log: Path) -> tuple[int, int]:
    try:
        there = log.stat()
    except OSError:
        return 0, 0
    return there.st_ino, there.st_size


def _read(line: bytes) -> Line | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("n"), int) else None


def _numbered(dirs: Dirs) -> Iterator[Line]:
    """Yield the records, the newest first."""
    for text in Store(dirs).segments.backwards():
        if (found := _read(text)) is None:
            return
        yield found
