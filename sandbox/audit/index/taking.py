# SPDX-License-Identifier: Apache-2.0
"""An index of the audit log in SQLite: where each record stands, and what calls are asked by.

It holds places, counts, and the beginnings of texts that searches look in: the log alone is the
record, and the index is made anew from it whenever it is missing, damaged, or does not fit.
`refresh` adds what is new, and forgets the texts of files of the log that are gone.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice

from sandbox.audit.events.calls import DecidedRecord, EditedRecord, EndedRecord
from sandbox.audit.events.follow_ups import FollowUpRecord, PartedRecord, UndoneRecord, is_entry
from sandbox.audit.events.reading import read
from sandbox.audit.history import says_landed
from sandbox.audit.index.conditions import DAY
from sandbox.audit.index.lookups import read_names
from sandbox.audit.index.questions import FILE, IndexQuestions
from sandbox.audit.index.sessions import SessionSums
from sandbox.audit.query import searched, seconds_of
from sandbox.audit.segments import BEGIN, LogPlace, Segments
from sandbox.errors import Busy, Unavailable
from sandbox.host.dirs import Dirs

BATCH = 20_000
"""Lines that are taken in one transaction; others may write between two."""
_JUDGED = (EndedRecord, PartedRecord, FollowUpRecord)
"""Records that may say that a call is held."""
Said = Callable[[int], None]


class AuditIndex(IndexQuestions):
    """The index of one state folder's log: brought up to date, and asked."""

    def __init__(self, dirs: Dirs, segments: Segments) -> None:
        """Reach for nothing yet."""
        super().__init__(dirs)
        self._segments = segments
        self._names: dict[str, int] = {}

    def refresh(self, said: Said | None = None) -> None:
        """Take what is new in the log; make the index anew where it does not fit.

        `said` is told now and then how many lines were taken. Raises Unavailable.
        """
        try:
            self._refresh(said)
        except Busy:
            raise
        except Unavailable:
            self.remove()
            self._refresh(said)

    def remove(self) -> None:
        """Remove the index; the next `refresh` makes it anew."""
        for ending in ("", "-journal", "-wal", "-shm"):
            self._db.path.with_name(FILE + ending).unlink(missing_ok=True)

    def _refresh(self, said: Said | None) -> None:
        taken = 0
        with self._db.reading() as db:
            last, hashed = self._position(db)
            fits = self._fits(last, hashed)
            stale = fits and self._has_gone(db)
        if not fits:
            self.remove()
        if stale:
            self._forget_gone()
        if fits and next(self._segments.from_place(_after(last)), None) is None:
            return
        while True:
            with self._db.writing() as db:
                (last, _), self._names = self._position(db), read_names(db)
                lines = list(islice(self._segments.from_place(_after(last)), BATCH))
                if lines:
                    self._take(db, lines)
            taken += len(lines)
            if said is not None and taken > BATCH:
                said(taken)
            if len(lines) < BATCH:
                return

    def _has_gone(self, db: sqlite3.Connection) -> bool:
        """Whether texts are kept of a file of the log that is not there any more."""
        closed = self._segments.closed()
        asked = "SELECT segment FROM records WHERE n = (SELECT min(n) FROM texts)"
        row = db.execute(asked).fetchone()
        return bool(closed) and row is not None and row[0] < closed[0]

    def _forget_gone(self) -> None:
        first = self._segments.closed()[0]
        gone = "SELECT n FROM records WHERE segment < ?"
        with self._db.writing() as db:
            db.execute("PRAGMA secure_delete = ON")
            db.execute(f"DELETE FROM texts WHERE n IN ({gone})", (first,))  # noqa: S608

    def _position(self, db: sqlite3.Connection) -> tuple[_Spot | None, str]:
        """Return where the last line that was taken stands, and its hash."""
        row = db.execute("SELECT n, segment, offset, length, hash FROM state").fetchone()
        return (None, "") if row is None else (_Spot(*row[:4]), row[4])

    def _fits(self, last: _Spot | None, hashed: str) -> bool:
        """Whether the line that was taken last still stands where it stood."""
        if last is None:
            return True
        raw = self._segments.read(LogPlace(last.segment, last.offset), last.length)
        return hashlib.sha256(raw).hexdigest() == hashed

    def _take(self, db: sqlite3.Connection, lines: list[tuple[LogPlace, bytes]]) -> None:
        records, entries, places = [], [], []
        texts: list[tuple[int, str]] = []
        sessions = SessionSums(db, self._name)
        counts: Counter[tuple[int, str, int, int, int]] = Counter()
        for place, raw in lines:
            try:
                record = read(raw)
            except ValueError:
                continue  # `verify` names it
            if record.n is None:
                continue
            undone = record.undone if isinstance(record, UndoneRecord) else None
            judgement = record.judgement if isinstance(record, _JUDGED) else None
            held = None if judgement is None else int(judgement == "hold")
            written = (place.segment, place.offset, len(raw))
            landed = 1 if says_landed(record) else None
            event = self._name(db, record.event)
            records.append((record.n, record.call, undone, held, *written, landed, event))
            if isinstance(record, DecidedRecord | FollowUpRecord | EditedRecord):
                where = (record.workspace, *(record.also or ()))
                places += [(record.call, self._name(db, one)) for one in where if one]
            decided = record if isinstance(record, DecidedRecord) else None
            own = record if isinstance(record, FollowUpRecord) and is_entry(record) else None
            if not (entry := decided or own):
                continue
            at = seconds_of(entry.ts or "")
            verdict, tool, agent = (
                self._name(db, one or "")
                for one in (decided.verdict if decided else "", entry.tool, entry.agent)
            )
            rules = _packed(
                {self._name(db, rule) for rule in (decided.rules if decided else None) or ()}
            )
            session = sessions.take(decided, at) if decided else None
            row = (record.n, int(decided is not None), at, verdict, tool, agent, rules, session)
            entries.append(row)
            texts.append((record.n, searched(entry)))
            if decided:
                counts[int(at // DAY), rules, agent, tool, verdict] += 1
        sessions.write()
        db.executemany("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", records)
        db.executemany("INSERT OR REPLACE INTO texts VALUES (?, ?)", texts)
        db.executemany("INSERT OR IGNORE INTO places VALUES (?, ?)", places)
        db.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?)", entries)
        db.executemany(
            "INSERT INTO counts VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE"
            " SET count = count + excluded.count",
            [(*key, count) for key, count in counts.items()],
        )
        place, raw = lines[-1]
        spot = (records[-1][0] if records else 0, hashlib.sha256(raw).hexdigest())
        db.execute(
            "INSERT OR REPLACE INTO state VALUES (1, ?, ?, ?, ?, ?)",
            (*spot, place.segment, place.offset, len(raw)),
        )

    def _name(self, db: sqlite3.Connection, name: str) -> int:
        found = self._names.get(name)
        if found is None:
            cursor = db.execute("INSERT INTO names (name) VALUES (?)", (name,))
            assert cursor.lastrowid is not None
            found = self._names[name] = cursor.lastrowid
        return found


class _Spot:
    """A line that was taken."""

    __slots__ = ("length", "n", "offset", "segment")

    def __init__(self, n: int, segment: int, offset: int, length: int) -> None:
        self.n, self.segment, self.offset, self.length = n, segment, offset, length


def _after(last: _Spot | None) -> LogPlace:
    """Return where the first line stands that was not taken."""
    return BEGIN if last is None else LogPlace(last.segment, last.offset + last.length)


def _packed(rules: Iterable[int]) -> str:
    """Return rules as text in which each stands between commas."""
    return "".join(f",{rule}" for rule in sorted(rules)) + ","
