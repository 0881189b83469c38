# SPDX-License-Identifier: Apache-2.0
"""An index of the audit log in SQLite: where each record stands, and what decisions are asked by.

It holds places and counts, no text of a call: the log alone is the record, and the index is made
anew from it whenever it is missing, damaged, or does not fit. `refresh` adds what is new. Every
value is bound; queries are put together from words of this file alone (hence the exceptions).
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from sandbox.audit.events.calls import DecidedRecord, EditedRecord, EndedRecord
from sandbox.audit.events.follow_ups import FollowUpRecord, PartedRecord, UndoneRecord, is_entry
from sandbox.audit.events.reading import read
from sandbox.audit.history import says_landed, stands
from sandbox.audit.index_queries import (
    DAY,
    condition_of_place,
    conditions_of,
    names_of,
    partial_days,
    undos_of,
    whole_days,
)
from sandbox.audit.query import Query, seconds_of
from sandbox.audit.segments import BEGIN, LogPlace, Segments
from sandbox.errors import Busy, Unavailable
from sandbox.host.dirs import Dirs
from sandbox.host.sqlite import Database

FILE = "audit-index.sqlite"
BATCH = 20_000
"""Lines that are taken in one transaction; others may write between two."""
_STEPS = (
    """
    CREATE TABLE names (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
    CREATE TABLE records (
        n INTEGER PRIMARY KEY, call TEXT, undone TEXT, held INTEGER,
        segment INTEGER NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL
    );
    CREATE INDEX records_by_call ON records (call) WHERE call IS NOT NULL;
    CREATE INDEX records_undone ON records (undone) WHERE undone IS NOT NULL;
    CREATE INDEX records_held ON records (held) WHERE held IS NOT NULL;
    CREATE TABLE entries (
        n INTEGER PRIMARY KEY, decided INTEGER NOT NULL, at REAL NOT NULL,
        verdict INTEGER, tool INTEGER, agent INTEGER, rules TEXT NOT NULL
    );
    CREATE TABLE counts (
        day INTEGER NOT NULL, rules TEXT NOT NULL, agent INTEGER NOT NULL, tool INTEGER NOT NULL,
        verdict INTEGER NOT NULL, count INTEGER NOT NULL,
        PRIMARY KEY (day, rules, agent, tool, verdict)
    ) WITHOUT ROWID;
    CREATE TABLE state (
        one INTEGER PRIMARY KEY CHECK (one = 1), n INTEGER NOT NULL, hash TEXT NOT NULL,
        segment INTEGER NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL
    );
    """,
    """
    DELETE FROM state;
    DELETE FROM records;
    DELETE FROM entries;
    DELETE FROM counts;
    ALTER TABLE records ADD COLUMN landed INTEGER;
    CREATE INDEX records_landed ON records (landed) WHERE landed IS NOT NULL;
    CREATE TABLE places (
        call TEXT NOT NULL, workspace INTEGER NOT NULL, PRIMARY KEY (call, workspace)
    ) WITHOUT ROWID;
    """,
)
_JUDGED = (EndedRecord, PartedRecord, FollowUpRecord)
"""Records that may say that a call is held."""
Said = Callable[[int], None]


class AuditIndex:
    """The index of one state folder's log."""

    def __init__(self, dirs: Dirs, segments: Segments) -> None:
        """Reach for nothing yet."""
        self._segments = segments
        self._db = Database(dirs.state / FILE, _STEPS, loss="it is made anew from the log")
        self._names: dict[str, int] = {}
        self._open: sqlite3.Connection | None = None

    @contextlib.contextmanager
    def asking(self) -> Iterator[sqlite3.Connection]:
        """Keep the index open for many questions."""
        if self._open is not None:
            yield self._open
            return
        with self._db.reading() as db:
            self._open = db
            try:
                yield db
            finally:
                self._open = None

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
            fits = self._fits(*self._position(db))
        if not fits:
            self.remove()
        while True:
            with self._db.writing() as db:
                (after, _), self._names = self._position(db), names_of(db)
                following = LogPlace(after.segment, after.offset + after.length) if after else BEGIN
                lines = list(islice(self._segments.from_place(following), BATCH))
                if lines:
                    self._take(db, lines)
            taken += len(lines)
            if said is not None and taken > BATCH:
                said(taken)
            if len(lines) < BATCH:
                return

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
            records.append((record.n, record.call, undone, held, *written, landed))
            if isinstance(record, DecidedRecord | FollowUpRecord | EditedRecord):
                where = (record.workspace, *(record.also or ()))
                places += [(record.call, self._name(db, one)) for one in where if one]
            decided = record if isinstance(record, DecidedRecord) else None
            own = record if isinstance(record, FollowUpRecord) and is_entry(record) else None
            if not (told := decided or own):
                continue
            at = seconds_of(told.ts or "")
            verdict, tool, agent = (
                self._name(db, one or "")
                for one in (decided.verdict if decided else "", told.tool, told.agent)
            )
            rules = _packed(
                {self._name(db, one) for one in (decided.rules if decided else None) or ()}
            )
            entries.append((record.n, int(decided is not None), at, verdict, tool, agent, rules))
            if decided:
                counts[int(at // DAY), rules, agent, tool, verdict] += 1
        db.executemany("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?)", records)
        db.executemany("INSERT OR IGNORE INTO places VALUES (?, ?)", places)
        db.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", entries)
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

    # -- asking

    def decided(self, query: Query, *, own: bool = False) -> list[int]:
        """Return the numbers of the decisions that are looked for, the newest first.

        With `own` also undos, and landings of parts, which are entries of the log too.
        """
        with self.asking() as db:
            where, values = conditions_of(query, own=own)
            limit = "" if query.limit is None else f" LIMIT {int(query.limit)}"
            asked = f"SELECT n FROM entries e{where} ORDER BY n DESC{limit}"  # noqa: S608
            return [row[0] for row in db.execute(asked, values)]

    def counts(self, query: Query) -> list[Counted]:
        """Return how many decisions that are looked for there were, in groups."""
        with self.asking() as db:
            rows = self._kept_counts(db, query)
            for since, until in partial_days(query):
                where, values = conditions_of(replace(query, since=since, until=until), own=False)
                select = (
                    f"SELECT CAST(at / {DAY} AS INTEGER), rules, agent, tool, verdict, count(*)"
                )
                grouped = f"{select} FROM entries e{where} GROUP BY 1, 2, 3, 4, 5"
                rows += db.execute(grouped, values).fetchall()
            names = {number: name for name, number in names_of(db).items()}
        return [
            Counted(
                day,
                tuple(names[int(one)] for one in rules.split(",") if one),
                names[agent],
                names[tool],
                names[verdict],
                count,
            )
            for day, rules, agent, tool, verdict, count in rows
        ]

    def _kept_counts(self, db: sqlite3.Connection, query: Query) -> list[Any]:
        """Return the counts of whole days."""
        where, values = conditions_of(replace(query, since=None, until=None), own=True)
        first, last = whole_days(query)
        for sign, day in ((">=", first), ("<", last)):
            if day is not None:
                where += f" {'AND' if where else 'WHERE'} e.day {sign} ?"
                values.append(day)
        asked = f"SELECT day, rules, agent, tool, verdict, count FROM counts e {where}"  # noqa: S608
        return db.execute(asked, values).fetchall()

    def places_of(self, beginning: str) -> list[tuple[int, LogPlace, int]]:
        """Return (number, place, bytes) of the records of calls whose id so begins, newest first,
        and of the undos of them, and of those in turn."""
        found: dict[int, tuple[LogPlace, int]] = {}
        with self.asking() as db:
            rows = db.execute(
                f"{_PLACE}, call FROM records WHERE call >= ? AND call < ?",
                (beginning, beginning + "\U0010ffff"),
            ).fetchall()
            names = {row[4] for row in rows}
            asked = list(names)
            while asked:
                undos = db.execute(f"{_PLACE}, call FROM records WHERE undone = ?", (asked.pop(),))
                for row in undos.fetchall():
                    rows.append(row)
                    if row[4] not in names:
                        names.add(row[4])
                        asked.append(row[4])
        for number, segment, offset, length, _ in rows:
            found[number] = LogPlace(segment, offset), length
        return [(number, *found[number]) for number in sorted(found, reverse=True)]

    def place(self, number: int) -> tuple[LogPlace, int] | None:
        """Return where a record stands, and its bytes."""
        with self.asking() as db:
            row = db.execute(f"{_PLACE} FROM records WHERE n = ?", (number,)).fetchone()
        return None if row is None else (LogPlace(row[1], row[2]), row[3])

    def waiting(self) -> list[str]:
        """Return the calls of which no later record says that they are held no more, the newest
        first."""
        asked = (
            "SELECT call FROM records r WHERE held = 1 AND NOT EXISTS (SELECT 1 FROM records later"
            " WHERE later.call = r.call AND later.held = 0 AND later.n > r.n) ORDER BY n DESC"
        )
        with self.asking() as db:
            rows = db.execute(asked).fetchall()
        return list(dict.fromkeys(row[0] for row in rows if row[0]))

    def placed(self, workspace: str | None) -> Iterator[str]:
        """Yield the calls and undos (in a workspace), each once, the newest first."""
        where, values = condition_of_place(workspace)
        both = "entries e JOIN records r ON r.n = e.n"
        asked = f"SELECT r.call FROM {both} WHERE r.call IS NOT NULL{where} ORDER BY e.n DESC"  # noqa: S608
        seen: set[str] = set()
        with self.asking() as db:
            for (name,) in db.execute(asked, values):
                if name not in seen:
                    seen.add(name)
                    yield name

    def standing(self, workspace: str | None) -> Iterator[str]:
        """Yield the calls (in a workspace) of which a record says that they landed and stand, the
        newest first."""
        where, values = condition_of_place(workspace)
        asked = f"SELECT call FROM records r WHERE landed = 1{where} ORDER BY n DESC"  # noqa: S608
        with self.asking() as db:
            seen: set[str] = set()
            for (name,) in db.execute(asked, values):
                if name is None or name in seen:
                    continue
                seen.add(name)
                if stands(name, undos_of(db, name))[0]:
                    yield name


@dataclass(frozen=True, slots=True)
class Counted:
    """How many decisions of one day (counted from 1970, in UTC) were alike."""

    day: int
    rules: tuple[str, ...]
    agent: str
    tool: str
    verdict: str
    count: int


class _Spot:
    """A line that was taken."""

    __slots__ = ("length", "n", "offset", "segment")

    def __init__(self, n: int, segment: int, offset: int, length: int) -> None:
        self.n, self.segment, self.offset, self.length = n, segment, offset, length


_PLACE = "SELECT n, segment, offset, length"


def _packed(rules: Iterable[int]) -> str:
    """Return rules as text in which each stands between commas."""
    return "".join(f",{rule}" for rule in sorted(rules)) + ","
