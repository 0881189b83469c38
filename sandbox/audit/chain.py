# SPDX-License-Identifier: Apache-2.0
"""A hash chain over lines: what was written cannot be changed, reordered or cut unnoticed.

Each line is one JSON object that ends in `"prev"`, the SHA-256 of the line before. The head (number
and hash of the last line) is kept beside the log as well, so that a cut tail shows. A log may lie
in several files, one after another; a first line that is not line 1 is accepted exactly where a
later line says that what stood before it was removed. Pure. INVARIANT (P9).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sandbox.audit.events.log import LostRecord, RemovedRecord, RepairedRecord, SegmentRecord
from sandbox.audit.events.reading import read

START = "0" * 64
_SPECIAL = tuple(f'"event":"{name}"'.encode() for name in ("removed", "lost", "repaired"))


@dataclass(frozen=True, slots=True)
class Head:
    """Where a chain ends: how many lines, and the hash of the last."""

    count: int
    hash: str

    def as_json(self) -> dict[str, Any]:
        """Return it as it stands in a record."""
        return {"n": self.count, "hash": self.hash}


EMPTY = Head(0, START)


def line(record: dict[str, Any], head: Head) -> tuple[bytes, Head]:
    """Return the next line (with its newline) and the head after it."""
    text = json.dumps(
        {"n": head.count + 1, **record, "prev": head.hash}, separators=(",", ":")
    ).encode("ascii")
    return text + b"\n", Head(head.count + 1, hashlib.sha256(text).hexdigest())


def head_of(raw: bytes) -> Head:
    """Return the head after a line (without its newline). Raises ValueError for no record."""
    try:
        return Head(int(json.loads(raw)["n"]), hashlib.sha256(raw).hexdigest())
    except (ValueError, KeyError, TypeError):
        raise ValueError("not a record") from None


def before(raw: bytes) -> Head:
    """Return the head before a line, as the line says it. Raises ValueError for no record."""
    try:
        record = json.loads(raw)
        return Head(int(record["n"]) - 1, str(record["prev"]))
    except (ValueError, KeyError, TypeError):
        raise ValueError("not a record") from None


def read_head(text: str) -> Head:
    """Return a head as `write_head` wrote it. Raises ValueError."""
    count, _, value = text.strip().partition(" ")
    return Head(int(count), value)


def write_head(head: Head) -> str:
    """Return a head as text of a fixed length."""
    return f"{head.count:020d} {head.hash}\n"


class ChainWalk:
    """Goes over a log line by line and says what is wrong with it.

    `kept` is the head that was kept elsewhere; a chain that ends before it was cut.
    """

    def __init__(self, kept: Head | None) -> None:
        self._kept = kept
        self._passed = kept is None or kept == EMPTY
        self._begin: Head | None = None
        self._removed: set[Head] = set()
        self._lost: dict[int, str] = {}
        """Lines that tell of lost ones, and that no person has closed yet."""
        self._last = b""
        self.head = EMPTY

    def line(self, raw: bytes) -> str | None:
        """Take the next line; return what is wrong with it, or None."""
        number = self.head.count + 1
        if not raw.endswith(b"\n"):
            return f"line {number} is not complete"
        text = raw[:-1]
        if self._begin is None:
            if wrong := self._first(text):
                return wrong
            number = self.head.count + 1
        # what Lockgate writes has this form; anything else is read
        if not text.startswith(b'{"n":%d,' % number) or not text.endswith(
            b'"prev":"%s"}' % self.head.hash.encode()
        ):
            if not _is_record(text):
                return f"line {number} is not a record"
            return f"line {number} does not follow line {number - 1}"
        if any(one in text for one in _SPECIAL):
            self._special(number, text)
        self.head = Head(number, hashlib.sha256(text).hexdigest())
        self._passed = self._passed or self.head == self._kept
        self._last = text
        return None

    def end(self) -> str | None:
        """Return what is wrong with the whole, or None."""
        if self._last and not _is_record(self._last):
            return f"line {self.head.count} is not a record"
        if self._begin not in (None, EMPTY) and self._begin not in self._removed:
            assert self._begin is not None
            lines = f"lines 1 to {self._begin.count} are gone"
            return f"{lines}, and no line says that they were removed"
        if not self._passed:
            assert self._kept is not None
            if self.head.count < self._kept.count:
                return (
                    f"the log ends at line {self.head.count}, "
                    f"but {self._kept.count} lines were written"
                )
            if self._begin is not None and self._kept.count < self._begin.count:
                return f"line {self._kept.count}, which the head names, was removed"
            return f"line {self._kept.count} was rewritten"
        if self._lost:
            number, said = next(iter(self._lost.items()))
            return f"line {number} says: {said}"
        return None

    def _first(self, text: bytes) -> str | None:
        try:
            begin = before(text)
        except ValueError:
            return "line 1 is not a record"
        if begin.count < 0 or (begin.count == 0 and begin != EMPTY):
            return "line 1 does not follow line 0"
        if begin.count and not isinstance(read(text), SegmentRecord):
            return f"line 1 does not follow line 0: the first line here is line {begin.count + 1}"
        self._begin = self.head = begin
        self._passed = self._passed or begin == self._kept
        return None

    def _special(self, number: int, text: bytes) -> None:
        try:
            match read(text):
                case RemovedRecord(until=dict(until)):
                    self._removed.add(Head(until["n"], until["hash"]))
                case LostRecord() as lost:
                    self._lost[number] = lost.outcome or "lines were lost"
                case RepairedRecord(accepts=list(accepts)):
                    for accepted in accepts:
                        self._lost.pop(accepted, None)
        except (ValueError, KeyError, TypeError):
            return  # it was tampered with: the next line, or the head, says so


def verify(lines: Iterable[bytes], kept: Head | None) -> str | None:
    """Return what is wrong with a log, naming the first broken line, or None."""
    walk = ChainWalk(kept)
    for raw in lines:
        if wrong := walk.line(raw):
            return wrong
    return walk.end()


def _is_record(text: bytes) -> bool:
    try:
        record = json.loads(text)
    except ValueError:
        return False
    return isinstance(record, dict) and {"n", "prev"} <= set(record)
