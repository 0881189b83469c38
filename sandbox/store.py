# SPDX-License-Identifier: Apache-2.0
"""The record: an append-only, hash-chained audit log, and a folder of output per call.

Several supervisors may append to one log; a file lock orders them. INVARIANT (P1): a durable
`append` returns only when its line is on disk.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sandbox import chain, history
from sandbox.config import Dirs
from sandbox.errors import BadInput, Unavailable

_BLOCK = 1 << 16


class Store:
    """The audit log and the call folders of one state folder."""

    def __init__(self, dirs: Dirs) -> None:
        self.log = dirs.state / "audit.jsonl"
        self.head = dirs.state / "audit.head"
        self._calls = dirs.state / "calls"
        self._fd: int | None = None
        self._size = -1
        self._last = chain.EMPTY
        self._lock = threading.Lock()

    # -- writing

    def append(self, record: dict[str, Any], *, durable: bool) -> None:
        """Append one record; with `durable`, return when it is on disk. Raises Unavailable."""
        stamped = {"ts": datetime.now(UTC).isoformat(timespec="milliseconds"), **record}
        try:
            with self._lock:
                self._append(stamped, durable=durable)
        except OSError as error:
            raise Unavailable(f"{self.log}: cannot be written: {error.strerror}") from None

    def _append(self, record: dict[str, Any], *, durable: bool) -> None:
        if self._fd is None:
            self.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._fd = os.open(
                self.log, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
            )
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        if not self._is_the_log(self._fd):  # somebody put another file in its place
            os.close(self._fd)
            self._fd, self._size = None, -1
            self._append(record, durable=durable)
            return
        try:
            size = os.fstat(self._fd).st_size
            if size != self._size:
                self._last = self._find_head(size)
            data, head = chain.line(record, self._last)
            written = os.write(self._fd, data)
            if written < len(data):  # a full disk: take the half line back
                os.ftruncate(self._fd, size)
                raise OSError(28, "no space left on device")
            if durable:
                os.fdatasync(self._fd)
            self._size, self._last = size + len(data), head
            self._keep(head)
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _is_the_log(self, fd: int) -> bool:
        """Whether an open file is the one that stands at the log's path."""
        try:
            there = os.lstat(self.log)
        except OSError:
            return False
        ours = os.fstat(fd)
        return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)

    def _keep(self, head: chain.Head) -> None:
        fd = os.open(self.head, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(fd, f"{head.count:020d} {head.hash}\n".encode(), 0)
        finally:
            os.close(fd)

    def _find_head(self, size: int) -> chain.Head:
        """Return the head of the log on disk; a half line (a crash) is closed first."""
        assert self._fd is not None
        if size == 0:
            return chain.EMPTY
        raw = b""
        start = size
        while start > 0 and raw.rstrip(b"\n").find(b"\n") < 0:
            start = max(0, start - _BLOCK)
            raw = os.pread(self._fd, size - start, start)
        if not raw.endswith(b"\n"):
            keep = raw.rfind(b"\n") + 1
            os.ftruncate(self._fd, start + keep)
            return self._find_head(start + keep)
        text = raw.rstrip(b"\n").rpartition(b"\n")[2]
        try:
            return chain.Head(int(json.loads(text)["n"]), _hash(text))
        except (ValueError, KeyError, TypeError):
            raise Unavailable(
                f"{self.log}: its last line is damaged; see `lockgate audit verify`"
            ) from None

    def keep_output(self, call: str, name: str, data: bytes) -> Path:
        """Write a file of a call's folder and return its path."""
        folder = self._calls / call
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / name
        with path.open("ab") as file:
            file.write(data)
        return path

    def keep_rest(self, call: str, data: bytes) -> None:
        """Keep the diff of what of a call is still held, in place of an earlier one."""
        folder = self._calls / call
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = folder / ".rest.patch"
        beside.write_bytes(data)
        beside.replace(folder / "rest.patch")

    # -- reading

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the records, newest first. A line that is damaged ends the reading."""
        for text in _backwards(self.log):
            try:
                record = json.loads(text)
            except ValueError:
                return
            yield record

    def calls(self, *, limit: int = 50) -> list[dict[str, Any]]:
        """Return the newest calls and undos, newest first, each with all that is known of it."""
        return history.calls(self.records(), limit=limit)

    def call(self, call: str) -> dict[str, Any]:
        """Return one call by its id, a unique beginning of it, or `last`. Raises BadInput."""
        wanted = history.newest(self.records()) if call == "last" else call
        return history.call(self.records(), call, wanted)

    def landed(self, count: int) -> list[dict[str, Any]]:
        """Return the newest calls, at most `count`, whose changes stand, newest first."""
        return history.landed(self.records(), count)

    def last_landed(self) -> dict[str, Any]:
        """Return the newest call whose changes stand. Raises BadInput."""
        if found := self.landed(1):
            return found[0]
        raise BadInput("no call has landed anything that could be undone")

    def held(self) -> list[dict[str, Any]]:
        """Return the calls that wait for a person, newest first."""
        return history.held(self.records())

    def output(self, call: str) -> tuple[bytes, bytes]:
        """Return all that a call wrote: (standard output, standard error)."""
        return self._file(call, "stdout"), self._file(call, "stderr")

    def diff(self, call: str) -> str:
        """Return the diff of a call's changes, of a held one that of the rest; empty for none."""
        rest = self._calls / call / "rest.patch"
        name = "rest.patch" if rest.exists() else "diff.patch"
        return self._file(call, name).decode("utf-8", "replace")

    def _file(self, call: str, name: str) -> bytes:
        try:
            return (self._calls / call / name).read_bytes()
        except OSError:
            return b""

    def verify(self) -> str | None:
        """Return what is wrong with the log, naming the first broken line, or None."""
        kept = None
        try:
            count, _, value = self.head.read_text("ascii").strip().partition(" ")
            kept = chain.Head(int(count), value)
        except (OSError, ValueError):
            kept = None
        if not self.log.exists():
            return None if kept is None else "the log is gone, but its head was kept"
        if kept is None and self.log.stat().st_size:
            return "the kept head of the log is gone"
        with self.log.open("rb") as file:
            return chain.verify(file, kept)


def _hash(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _backwards(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file from the last to the first.

    What follows the last line's end is left out: somebody is just writing it, or died over it.
    """
    try:
        file = path.open("rb")
    except OSError:
        return
    with file:
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
