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

from sandbox import chain
from sandbox.config import Dirs
from sandbox.errors import BadInput, Unavailable

_BLOCK = 1 << 16
_FIELDS = (
    *("ts", "agent", "tool", "params", "workspace", "also", "cwd", "intent"),
    *("verdict", "tier", "rules", "message", "layers", "approved_by"),
    *("ending", "judgement", "landed", "changes", "events", "exit_status", "outcome", "ms"),
)
"""What readers get of a call; where several records give a field, the newest counts."""


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
        """Return the newest calls, newest first, each with all that is known of it."""
        found: dict[str, dict[str, Any]] = {}
        order: list[str] = []
        undone: dict[str, str] = {}
        for record in self.records():
            call = record.get("call")
            if record["event"] == "undone":
                undone[record["undone"]] = record["call"]
            if call is None:
                continue
            entry = found.setdefault(call, {})
            for key, value in record.items():
                entry.setdefault(key, value)
            if record["event"] == "decided":
                order.append(call)
                if len(order) >= limit:
                    break
        return [_shape(found[call], undone.get(call)) for call in order]

    def call(self, call: str) -> dict[str, Any]:
        """Return one call by its id, a unique beginning of it, or `last`. Raises BadInput."""
        matches: dict[str, dict[str, Any]] = {}
        undone: dict[str, str] = {}
        wanted = self._last_call() if call == "last" else call
        for record in self.records():
            if record["event"] == "undone":
                undone[record["undone"]] = record["call"]
            identity = record.get("call") or ""
            if wanted and identity.startswith(wanted):
                entry = matches.setdefault(identity, {})
                for key, value in record.items():
                    entry.setdefault(key, value)
                if record["event"] == "decided" and identity == wanted:
                    break
        if not matches:
            raise BadInput(f"no call `{call}`; `lockgate log` lists them")
        if len(matches) > 1 and wanted not in matches:
            raise BadInput(f"`{call}` begins {len(matches)} call ids; give more of it")
        identity = wanted if wanted in matches else next(iter(matches))
        return _shape(matches[identity], undone.get(identity))

    def last_landed(self) -> dict[str, Any]:
        """Return the newest call that landed and is not undone. Raises BadInput."""
        undone: set[str] = set()
        for record in self.records():
            if record["event"] == "undone":
                undone.add(record["undone"])
            elif record.get("landed") and record["call"] not in undone:
                return self.call(record["call"])
        raise BadInput("no call has landed anything that could be undone")

    def _last_call(self) -> str:
        for record in self.records():
            if record["event"] == "decided":
                return str(record["call"])
        return ""

    def output(self, call: str) -> tuple[bytes, bytes]:
        """Return all that a call wrote: (standard output, standard error)."""
        return self._file(call, "stdout"), self._file(call, "stderr")

    def diff(self, call: str) -> str:
        """Return the diff of a call's changes, empty if there is none."""
        return self._file(call, "diff.patch").decode("utf-8", "replace")

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


def _shape(entry: dict[str, Any], undone_by: str | None) -> dict[str, Any]:
    """Return one call under the names that readers use; what is not known is None."""
    return {
        "id": entry["call"],
        **{name: entry.get(name) for name in _FIELDS},
        "undone_by": undone_by,
    }


def _backwards(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file from the last to the first."""
    try:
        file = path.open("rb")
    except OSError:
        return
    with file:
        position = file.seek(0, os.SEEK_END)
        rest = b""
        while position > 0:
            step = min(_BLOCK, position)
            position -= step
            file.seek(position)
            lines = (file.read(step) + rest).split(b"\n")
            rest = lines[0]
            yield from (text for text in reversed(lines[1:]) if text)
        if rest:
            yield rest
