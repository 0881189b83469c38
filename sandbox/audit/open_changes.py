# SPDX-License-Identifier: Apache-2.0
"""What was changed around Lockgate and nobody has acknowledged yet, as the audit log tells it.

    OpenChanges(dirs: Dirs).read() -> list[TamperedRecord]      the oldest first

Where the reading ended is kept in the state folder (`guard/open.json`), so that only what is new is
read; it is made anew from the log where it does not fit.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sandbox.audit.segments import BEGIN, LogPlace, Segments
from sandbox.errors import Unavailable
from sandbox.host.dirs import Dirs
from sandbox.host.files import write

if TYPE_CHECKING:
    from sandbox.audit.events.protected import TamperedRecord

_EVENTS = (b'"event":"tampered"', b'"event":"acknowledged"')


@dataclass(frozen=True, slots=True)
class _Read:
    """Where the last line that was read begins, and that line's SHA-256; empty: none was."""

    place: LogPlace = BEGIN
    sha256: str = ""


class OpenChanges:
    """The changes of one state folder that wait for a person's look."""

    def __init__(self, dirs: Dirs) -> None:
        self._segments = Segments(dirs.state / "audit.jsonl")
        self._kept = dirs.state / "guard" / "open.json"

    def read(self) -> list[TamperedRecord]:
        """Return the changes that nobody has acknowledged, the oldest first. Raises OSError."""
        known, found = self._load()
        try:
            return self._from(known, found)
        except LookupError:
            if known.place.segment < (self._segments.closed() or [0])[0]:
                return self._from(_Read(), found)  # its file was removed; what was told stays open
            return self._from(_Read(), [])  # another log than the one that was read

    def _from(self, known: _Read, found: list[TamperedRecord]) -> list[TamperedRecord]:
        lines = self._segments.from_place(known.place)
        if known.sha256:
            at, raw = next(lines, (known.place, b""))
            if at != known.place or _digest(raw) != known.sha256:
                raise LookupError
        last: tuple[LogPlace, bytes] | None = None
        for last in lines:
            if any(event in last[1] for event in _EVENTS):
                with contextlib.suppress(ValueError):  # the chain's check names it
                    _take(found, last[1])
        if last is not None:
            self._save(_Read(last[0], _digest(last[1])), found)
        return found

    def _load(self) -> tuple[_Read, list[TamperedRecord]]:
        try:
            kept = json.loads(self._kept.read_bytes())
            place = LogPlace(*map(int, kept["place"]))
            records = [_record(fields) for fields in kept["open"]]
            return _Read(place, str(kept["sha256"])), records
        except (OSError, ValueError, KeyError, TypeError):
            return _Read(), []

    def _save(self, known: _Read, found: list[TamperedRecord]) -> None:
        """Keep where the reading ended; where that fails, the log is read again."""
        place = [known.place.segment, known.place.offset]
        rows = [record.model_dump(exclude_unset=True) for record in found]
        text = json.dumps({"place": place, "sha256": known.sha256, "open": rows})
        with contextlib.suppress(OSError, Unavailable):
            self._kept.parent.mkdir(mode=0o700, exist_ok=True)
            write(self._kept, text)


def _record(fields: dict[str, Any]) -> TamperedRecord:
    from sandbox.audit.events.protected import TamperedRecord  # heavy, and seldom needed

    return TamperedRecord.model_validate(fields)


def _take(found: list[TamperedRecord], line: bytes) -> None:
    from sandbox.audit.events.protected import AcknowledgedRecord, TamperedRecord
    from sandbox.audit.events.reading import read

    match read(line):
        case TamperedRecord() as record:
            found.append(record)
        case AcknowledgedRecord() as record:
            found[:] = [
                tampered_record
                for tampered_record in found
                if (tampered_record.n or 0) > record.until
            ]
        case _:
            pass


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()
