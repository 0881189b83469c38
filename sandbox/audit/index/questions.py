# SPDX-License-Identifier: Apache-2.0
"""What the index is asked: where records stand, which calls are looked for, what there is of each.

Every value is bound; queries are put together from words of this package alone (hence the
exceptions).
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from sandbox.audit.history import stands
from sandbox.audit.index.conditions import (
    DAY,
    condition_of_place,
    conditions_of,
    entries_of,
    partial_days,
    whole_days,
)
from sandbox.audit.index.lookups import find_undos, read_names
from sandbox.audit.index.schema import STEPS
from sandbox.audit.index.sessions import SessionSummary, summaries
from sandbox.audit.query import Query
from sandbox.audit.segments import LogPlace
from sandbox.host.dirs import Dirs
from sandbox.host.sqlite import Database

FILE = "audit-index.sqlite"
_MAPPED_BYTES = 1 << 30
_PLACE = "SELECT n, segment, offset, length"


@dataclass(frozen=True, slots=True)
class Counted:
    """How many decisions of one day (counted from 1970, in UTC) were alike."""

    day: int
    rules: tuple[str, ...]
    agent: str
    tool: str
    verdict: str
    count: int


class IndexQuestions:
    """Asks the index of one state folder's log as it is."""

    def __init__(self, dirs: Dirs) -> None:
        """Reach for nothing yet."""
        self._db = Database(dirs.state / FILE, STEPS, loss="it is made anew from the log")
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

    def decided(self, query: Query, *, own: bool = False) -> list[int]:
        """Return the numbers of the decisions that are looked for, the newest first.

        With `own` also undos, and landings of parts, which are entries of the log too.
        """
        with self.asking() as db:
            where, values = conditions_of(query, own=own)
            limit = "" if query.limit is None else f" LIMIT {int(query.limit)}"
            order = "e.n" if query.text is None else "t.n"
            if query.text is not None:  # it reads all texts; a call per page takes twice as long
                db.execute(f"PRAGMA mmap_size = {_MAPPED_BYTES}")
            tables = entries_of(query)
            asked = f"SELECT e.n FROM {tables}{where} ORDER BY {order} DESC{limit}"  # noqa: S608
            return [row[0] for row in db.execute(asked, values)]

    def counts(self, query: Query) -> list[Counted]:
        """Return how many decisions that are looked for there were, in groups."""
        with self.asking() as db:
            rows = [] if query.needs_entries else self._kept_counts(db, query)
            spans = [(query.since, query.until)] if query.needs_entries else partial_days(query)
            for since, until in spans:
                where, values = conditions_of(replace(query, since=since, until=until), own=False)
                select = (
                    f"SELECT CAST(at / {DAY} AS INTEGER), rules, agent, tool, verdict, count(*)"
                )
                grouped = f"{select} FROM {entries_of(query)}{where} GROUP BY 1, 2, 3, 4, 5"
                rows += db.execute(grouped, values).fetchall()
            names = {number: name for name, number in read_names(db).items()}
        return [
            Counted(
                day,
                tuple(names[int(part)] for part in rules.split(",") if part),
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

    def records(
        self, event: str | None, call: str | None, before: int | None, limit: int
    ) -> list[int]:
        """Return the numbers of records of a kind, or of a call, the newest first."""
        named = "(SELECT id FROM names WHERE name = ?)"
        asked = (("event = " + named, event), ("call = ?", call), ("n < ?", before))
        given = [(part, value) for part, value in asked if value is not None]
        where = f" WHERE {' AND '.join(part for part, _ in given)}" if given else ""
        with self.asking() as db:
            rows = db.execute(
                f"SELECT n FROM records{where} ORDER BY n DESC LIMIT {int(limit)}",  # noqa: S608
                [value for _, value in given],
            )
            return [row[0] for row in rows]

    def sessions(self, before: int | None, limit: int) -> list[SessionSummary]:
        """Return sessions, the one with the newest decision first; `before` such a one's number."""
        with self.asking() as db:
            return summaries(db, before, limit)

    def sessions_named(self, beginning: str) -> list[str]:
        """Return the sessions whose id so begins."""
        with self.asking() as db:
            rows = db.execute(
                "SELECT name FROM names JOIN sessions ON session = id WHERE name >= ? AND name < ?"
                " ORDER BY name",
                (beginning, beginning + "\U0010ffff"),
            )
            return [row[0] for row in rows]

    def newest_session(self, workspace: str | None) -> str | None:
        """Return the session of the newest decision (in a workspace) that belongs to one."""
        where, values = condition_of_place(workspace)
        both = "entries e JOIN records r ON r.n = e.n JOIN names ON id = e.session"
        of_any = "e.session IS NOT NULL"
        asked = f"SELECT name FROM {both} WHERE {of_any}{where} ORDER BY e.n DESC LIMIT 1"  # noqa: S608
        with self.asking() as db:
            row = db.execute(asked, values).fetchone()
        return None if row is None else row[0]

    def calls_of(self, session: str) -> list[str]:
        """Return the calls of a session."""
        asked = (
            "SELECT DISTINCT r.call FROM entries e JOIN records r ON r.n = e.n"
            " WHERE e.session = (SELECT id FROM names WHERE name = ?) AND r.call IS NOT NULL"
        )
        with self.asking() as db:
            return [row[0] for row in db.execute(asked, (session,))]

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
                if stands(name, find_undos(db, name))[0]:
                    yield name
