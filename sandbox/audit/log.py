# SPDX-License-Identifier: Apache-2.0
"""Append to the audit log: in order among processes, on disk when asked for, in files of a size.

A file lock orders several processes. INVARIANT (P1): a durable `append` returns only when its line
is on disk. INVARIANT (P9): whoever appends looks first whether the log still ends as it was left;
what is missing is never passed over: a line says so, until a person closes it (`repair`).
"""

from __future__ import annotations

import fcntl
import os
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sandbox.audit import chain
from sandbox.audit.events.log import (
    LogRecord,
    LostRecord,
    RemovedRecord,
    RepairedRecord,
    RotatedRecord,
    SegmentRecord,
)
from sandbox.audit.events.reading import RESERVED, read
from sandbox.audit.events.record import AuditRecord
from sandbox.audit.segments import Segments, backwards
from sandbox.errors import Unavailable

MIB = 1024 * 1024
_TAIL = 1 << 16
_TRIES = 100
_LOOKED_BACK = 100_000
"""Lines that may follow the kept head, which reaches the disk later than the log may."""


@dataclass(frozen=True, slots=True)
class LogBounds:
    """How the log is divided into files."""

    file_bytes: int = 64 * MIB
    keep: int = 0
    """Closed files that are kept; 0: all."""


class _Moved(Exception):
    """Another file stands at the log's path now."""


class AuditLog:
    """The audit log at a path, for one process; safe for threads."""

    def __init__(self, file: Path, head: Path, bounds: LogBounds) -> None:
        """Reach for nothing yet."""
        self.file = file
        self.head = head
        self.segments = Segments(file)
        self._bounds = bounds
        self._fd: int | None = None
        self._size = -1
        self._last = chain.EMPTY
        self._lock = threading.Lock()

    def __del__(self) -> None:
        """Give up the file with the last user of the log."""
        self._close()

    def append(self, record: AuditRecord, *, durable: bool) -> None:
        """Append one record; with `durable`, return when it is on disk. Raises Unavailable."""
        if isinstance(record, LogRecord) or record.event in RESERVED:
            raise Unavailable(f"`{record.event}` is a record of the log's own")
        self._guarded(record, durable=durable)

    def sync(self) -> None:
        """Return when all that this process appended is on disk. Raises Unavailable."""
        try:
            with self._lock:
                if self._fd is not None:  # a file that was closed meanwhile is on disk already
                    os.fdatasync(self._fd)
        except OSError as error:
            raise self._unavailable(error) from None

    def mend(self, record: LogRecord) -> None:
        """Append one of the log's own records, durably: a person's repair. Raises Unavailable."""
        self._guarded(record, durable=True)

    def kept(self) -> chain.Head | None:
        """Return the head that is kept beside the log, or None."""
        try:
            return chain.read_head(self.head.read_text("ascii"))
        except (OSError, ValueError):
            return None

    def keep_head(self, head: chain.Head, *, durable: bool = False) -> None:
        """Keep where the log ends."""
        fd = os.open(self.head, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(fd, chain.write_head(head).encode("ascii"), 0)
            if durable:
                os.fdatasync(fd)
        finally:
            os.close(fd)

    # -- one line

    def _guarded(self, record: AuditRecord, *, durable: bool) -> None:
        try:
            with self._lock:
                for _ in range(_TRIES):
                    try:
                        self._once(record)
                        break
                    except _Moved:
                        self._close()
                else:
                    raise Unavailable(f"{self.file}: another file is put there again and again")
                if durable and self._fd is not None:
                    # Without the file lock: what others append meanwhile is on disk as well then.
                    os.fdatasync(self._fd)
        except OSError as error:
            raise self._unavailable(error) from None

    def _unavailable(self, error: OSError) -> Unavailable:
        return Unavailable(f"{self.file}: cannot be written: {error.strerror}")

    def _once(self, record: AuditRecord) -> None:
        """Append one record to the file as it is now. Raises _Moved."""
        fd = self._opened()
        fcntl.flock(fd, fcntl.LOCK_EX)
        try:
            if not self._is_the_log(fd):
                raise _Moved
            size = os.fstat(fd).st_size
            if size != self._size:
                size = self._catch_up(fd, size)
            if size >= self._bounds.file_bytes:
                self._rotate(fd)
            self._write(fd, record)
        finally:
            fcntl.flock(fd, fcntl.LOCK_UN)

    def _opened(self) -> int:
        if self._fd is None:
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._fd = os.open(self.file, flags, 0o600)
        return self._fd

    def _close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
        self._fd, self._size = None, -1

    def _is_the_log(self, fd: int) -> bool:
        """Whether an open file is the one that stands at the log's path."""
        try:
            there = os.lstat(self.file)
        except OSError:
            return False
        ours = os.fstat(fd)
        return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)

    def _write(self, fd: int, record: AuditRecord) -> None:
        """Write one line; the lock is held, and `_last` and `_size` say where the log ends."""
        stamped = {"ts": datetime.now(UTC).isoformat(timespec="milliseconds"), **record.as_json()}
        data, head = chain.line(stamped, self._last)
        size = os.fstat(fd).st_size
        if os.write(fd, data) < len(data):  # a full disk: take the half line back
            os.ftruncate(fd, size)
            raise OSError(28, "no space left on device")
        self._size, self._last = size + len(data), head
        self.keep_head(head)

    # -- where it ends

    def _catch_up(self, fd: int, size: int) -> int:
        """Learn where the log ends after others wrote to it; return its size then. Raises _Moved.

        A half line (a crash) is taken back, and a line says so.
        """
        half = b""
        if size:
            half, self._last, ended = self._tail(fd, size)
            if half:
                os.ftruncate(fd, size - len(half))
            if ended:  # a crash before it was renamed
                self._move(fd)
                raise _Moved
        kept = self.kept()
        if size - len(half) == 0:
            self._begin(fd)
            if kept is None and self._last == chain.EMPTY and not self.head.exists():
                kept = chain.EMPTY
                self.keep_head(kept)
        self._size = size - len(half)
        lost = self._lost(fd, kept)
        if size - len(half) == 0 and self._last != chain.EMPTY:
            closed = self.segments.closed()
            self._write(fd, SegmentRecord(segment=closed[-1] + 1))
            self._remove_old(fd)
        if half:
            said = f"{len(half)} bytes of a line that was never finished were taken back"
            self._write(fd, RepairedRecord(by="lockgate", outcome=said))
        if lost:
            self._write(fd, lost)
        return os.fstat(fd).st_size if size > len(half) else 0  # a new file takes one record

    def _tail(self, fd: int, size: int) -> tuple[bytes, chain.Head, bool]:
        """Return the half line at the end, the head before it, and whether the file is closed."""
        raw, start = b"", size
        while start > 0 and raw.count(b"\n") < 2:
            step = min(_TAIL, start)
            start -= step
            raw = os.pread(fd, step, start) + raw
        whole, _, half = raw.rpartition(b"\n")
        text = whole.rpartition(b"\n")[2]
        if not whole and start == 0 and b"\n" not in raw:
            return raw, chain.EMPTY, False
        try:
            return half, chain.head_of(text), isinstance(read(text), RotatedRecord)
        except ValueError:
            raise Unavailable(
                f"{self.file}: its last line is damaged; see `lockgate audit verify`"
            ) from None

    def _begin(self, fd: int) -> None:
        """Set the head before the first line of a file: that of the file before it, if any."""
        self._last = chain.EMPTY
        for number in reversed(self.segments.closed()):
            with self.segments.path(number).open("rb") as file:
                text = next(backwards(file), b"")
            try:
                self._last = chain.head_of(text)
            except ValueError:
                name = self.segments.path(number)
                raise Unavailable(
                    f"{name}: its last line is damaged; see `lockgate audit verify`"
                ) from None
            return

    def _lost(self, fd: int, kept: chain.Head | None) -> LostRecord | None:
        """Return the record of lines that were there and are not, or None where all are there."""
        head = self._last
        if kept == head:
            return None
        said = ""
        if kept is None:
            said = "the kept head of the log is gone"
        elif kept.count > head.count:
            said = f"the log ended at line {head.count}, but {kept.count} lines were written"
        elif not self._holds(fd, kept):
            said = f"line {kept.count} was rewritten"
        if not said:
            return None
        return LostRecord(found=head.as_json(), kept=kept.as_json() if kept else None, outcome=said)

    def _holds(self, fd: int, kept: chain.Head) -> bool:
        """Whether the end of the file holds the line that a head names."""
        if kept == chain.EMPTY:
            return True
        with os.fdopen(os.dup(fd), "rb") as file:
            for number, text in enumerate(backwards(file)):
                if text.startswith(b'{"n":%d,' % kept.count):
                    return chain.head_of(text) == kept
                if text.startswith(b'{"n":%d,' % (kept.count + 1)):
                    return chain.before(text) == kept
                if number > _LOOKED_BACK:
                    return False
        return False

    # -- files of a size

    def _rotate(self, fd: int) -> None:
        """Close the file with a line that names the next one. Raises _Moved: go on with that."""
        number = (self.segments.closed() or [0])[-1] + 1
        following = self.segments.path(number + 1).name
        self._write(fd, RotatedRecord(segment=number, next=following))
        self._move(fd)
        raise _Moved

    def _move(self, fd: int) -> None:
        os.fdatasync(fd)
        self.keep_head(self._last, durable=True)
        target = self.segments.path((self.segments.closed() or [0])[-1] + 1)
        self.file.rename(target)
        folder = os.open(self.file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _remove_old(self, fd: int) -> None:
        """Remove the oldest closed files beyond those that are kept; a line says so first."""
        closed = self.segments.closed()
        gone = closed[: -self._bounds.keep] if self._bounds.keep else []
        if not gone:
            return
        with self.segments.path(closed[len(gone)]).open("rb") as file:
            until = chain.before(file.readline())
        names = [self.segments.path(number).name for number in gone]
        self._write(fd, RemovedRecord(segments=names, until=until.as_json()))
        os.fdatasync(fd)
        for number in gone:
            self.segments.path(number).unlink(missing_ok=True)
