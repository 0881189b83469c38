# SPDX-License-Identifier: Apache-2.0
"""What the index keeps of agents' sessions: how many calls, whose, where, and when."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass

from sandbox.audit.events.calls import DecidedRecord


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """What is known of one session."""

    last: int
    """The number of its newest decision."""
    session: str
    agents: tuple[str, ...]
    workspaces: tuple[str, ...]
    calls: int
    refused: int
    """Decisions that denied."""
    began: float
    at: float
    """When it was decided first and last, in seconds since 1970."""


class SessionSums:
    """Gathers what new decisions say of sessions, and writes it."""

    def __init__(
        self, db: sqlite3.Connection, name: Callable[[sqlite3.Connection, str], int]
    ) -> None:
        """`name` returns the number that a name has in the index."""
        self._db = db
        self._name = name
        self._new: dict[int, tuple[int, int, int, float, float]] = {}
        self._seen: set[tuple[int, int, int]] = set()
        self._calls: set[str] = set()

    def take(self, record: DecidedRecord, at: float) -> int | None:
        """Take a decision that is not in the index yet; return the number of its session."""
        if not record.session:
            return None
        session = self._name(self._db, record.session)
        _, calls, refused, began, _ = self._new.get(session, (0, 0, 0, at, at))
        calls += self._is_new(record.call)
        refused += record.verdict == "deny"
        self._new[session] = (record.n or 0, calls, refused, began, at)
        for kind, name in ((0, record.agent), (1, record.workspace)):
            if name:
                self._seen.add((session, kind, self._name(self._db, name)))
        return session

    def _is_new(self, call: str) -> bool:
        """Whether a call was decided about for the first time."""
        if call in self._calls:
            return False
        self._calls.add(call)
        asked = "SELECT 1 FROM records WHERE call = ? LIMIT 1"
        return self._db.execute(asked, (call,)).fetchone() is None

    def write(self) -> None:
        """Write what was taken."""
        self._db.executemany(
            "INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
            " last = excluded.last, calls = calls + excluded.calls,"
            " refused = refused + excluded.refused, at = excluded.at",
            [(session, *summed) for session, summed in self._new.items()],
        )
        self._db.executemany("INSERT OR IGNORE INTO seen VALUES (?, ?, ?)", self._seen)


def summaries(db: sqlite3.Connection, before: int | None, limit: int) -> list[SessionSummary]:
    """Return sessions, the one with the newest decision first."""
    where, values = ("", []) if before is None else (" WHERE last < ?", [before])
    asked = f"{_SUMMARY}{where} ORDER BY last DESC LIMIT {int(limit)}"
    rows = db.execute(asked, values).fetchall()
    summed = []
    for last, name, session, calls, refused, began, at in rows:
        agents, workspaces = (
            tuple(each for (each,) in db.execute(_NAMES, (session, kind))) for kind in (0, 1)
        )
        summed.append(SessionSummary(last, name, agents, workspaces, calls, refused, began, at))
    return summed


_SUMMARY = (
    "SELECT last, name, session, calls, refused, began, at FROM sessions JOIN names ON id = session"
)
_NAMES = (
    "SELECT n.name FROM seen s JOIN names n ON n.id = s.name WHERE s.session = ?"
    " AND s.workspace = ? ORDER BY n.name"
)
