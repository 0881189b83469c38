# SPDX-License-Identifier: Apache-2.0
"""The files that an audit log lies in, and reading them as one.

The newest lines stand in `audit.jsonl`; older ones in `audit-000001.jsonl`, `audit-000002.jsonl`
and so on. A file is closed by renaming it, so that whoever has it open reads on to its end.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from sandbox.audit.chain import Head

_BLOCK = 1 << 16
_OPENINGS = 10


@dataclass(frozen=True, slots=True, order=True)
class LogPlace:
    """Where a line begins: the number of its file, and an offset in bytes."""

    segment: int
    offset: int


BEGIN = LogPlace(0, 0)
"""Before everything."""


class Segments:
    """The files of one log."""

    def __init__(self, live: Path) -> None:
        """`live` is the file that is written to."""
        self.live = live
        self._name = re.compile(
            rf"{re.escape(live.stem)}-(?P<number>\d{{6,}}){re.escape(live.suffix)}"
        )

    def closed(self) -> list[int]:
        """Return the numbers of the closed files, the oldest first."""
        try:
            names = os.listdir(self.live.parent)  # noqa: PTH208 - ten times faster
        except OSError:
            return []
        return sorted(
            int(found["number"]) for name in names if (found := self._name.fullmatch(name))
        )

    def path(self, number: int) -> Path:
        """Return the path of a closed file."""
        return self.live.with_name(f"{self.live.stem}-{number:06d}{self.live.suffix}")

    def open(self, number: int) -> BinaryIO | None:
        """Open the file of a number, closed or not; None where it is not there."""
        for _ in range(_OPENINGS):
            try:
                return self.path(number).open("rb")
            except FileNotFoundError:
                pass
            try:
                file = self.live.open("rb")
            except FileNotFoundError:
                continue  # between the renaming and the first line of the next
            closed = self.closed()
            if number not in closed:  # it was not renamed meanwhile
                if number == (closed[-1] if closed else 0) + 1:
                    return file
                file.close()
                return None
            file.close()
        return None

    def from_place(self, place: LogPlace) -> Iterator[tuple[LogPlace, bytes]]:
        """Yield complete lines, with their newlines, from a place on; each with its own place."""
        closed = self.closed()
        first = closed[0] if closed else 1
        number, offset = (place.segment, place.offset) if place.segment >= first else (first, 0)
        again = -1
        while True:
            file = self.open(number)
            if file is None:
                return
            with file:
                file.seek(offset)
                for raw in file:
                    if not raw.endswith(b"\n"):
                        break
                    yield LogPlace(number, offset), raw
                    offset += len(raw)
            if number not in self.closed():
                return
            if offset != again:  # more may have been written before it was closed
                again = offset
                continue
            number, offset, again = number + 1, 0, -1

    def end(self) -> LogPlace:
        """Return the place after the last complete line."""
        place = BEGIN
        number = [0, *self.closed()][-1] + 1
        file = self.open(number)
        if file is None:
            return place
        with file:
            size = file.seek(0, os.SEEK_END)
            position = size
            while position > 0:
                step = min(_BLOCK, position)
                position -= step
                file.seek(position)
                if (at := file.read(step).rfind(b"\n")) >= 0:
                    return LogPlace(number, position + at + 1)
        return LogPlace(number, 0)

    def reaches(self, place: LogPlace) -> bool:
        """Whether the log still reaches to a place; also where what stood there was removed."""
        closed = self.closed()
        if closed and place.segment < closed[0]:
            return True
        file = self.open(place.segment)
        if file is None:
            return False
        with file:
            return file.seek(0, os.SEEK_END) >= place.offset

    def read(self, place: LogPlace, length: int) -> bytes:
        """Return the bytes at a place; fewer, or none, where they are not there."""
        file = self.open(place.segment)
        if file is None:
            return b""
        with file:
            file.seek(place.offset)
            return file.read(length)

    def backwards(self) -> Iterator[bytes]:
        """Yield the lines of the whole log from the last to the first, without newlines.

        What follows the last line's end is left out: somebody is just writing it, or died over it.
        """
        seen: tuple[int, int] | None = None
        try:
            with self.live.open("rb") as file:
                status = os.fstat(file.fileno())
                seen = status.st_dev, status.st_ino
                yield from backwards(file)
        except OSError:
            pass
        for number in reversed(self.closed()):
            try:
                with self.path(number).open("rb") as file:
                    status = os.fstat(file.fileno())
                    if (status.st_dev, status.st_ino) != seen:
                        yield from backwards(file)
            except OSError:
                return  # it was removed meanwhile

    def size(self) -> int:
        """Return the bytes of all files."""
        paths = [self.live, *map(self.path, self.closed())]
        return sum(path.stat().st_size for path in paths if path.exists())

    def verify(self, kept: Head | None) -> str | None:
        """Return what is wrong with the log, naming the file if there are several, or None.

        Raises OSError where a file cannot be read.
        """
        from sandbox.audit.chain import ChainWalk  # heavy: it knows the records

        closed = self.closed()
        walk = ChainWalk(kept)
        paths = [*map(self.path, closed), *([self.live] if self.live.exists() else [])]
        for path in paths:
            name = f"{path.name}: " if closed else ""
            with path.open("rb") as lines:
                for raw in lines:
                    if wrong := walk.line(raw):
                        return name + wrong
        return walk.end()


def backwards(file: BinaryIO) -> Iterator[bytes]:
    """Yield the complete lines of a file from the last to the first, without newlines."""
    position = file.seek(0, os.SEEK_END)
    rest, ended = b"", False
    while position > 0:
        step = min(_BLOCK, position)
        position -= step
        file.seek(position)
        lines = (file.read(step) + rest).split(b"\n")
        if not ended:
            ended, lines[-1] = len(lines) > 1, b""
        rest = lines[0]
        yield from (text for text in reversed(lines[1:]) if text)
    if rest:
        yield rest
