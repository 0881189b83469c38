# SPDX-License-Identifier: Apache-2.0
"""The questions that wait for a person, or were answered, as rows of the file."""

from __future__ import annotations

import json
import sqlite3
import time
from typing import Any

from policy.people.approval import (
    Wanted,
)
from sandbox.approvals.store.database import database
from sandbox.approvals.store.request import Asked, Refusal, Request
from sandbox.errors import BadInput
from sandbox.host.dirs import Dirs
from sandbox.host.latch import BETWEEN
from sandbox.text.redaction import mask_all

LAST = "last"
"""Names the newest question, or grant, that is open."""
_KEPT_SECONDS = 30 * 86_400.0
"""Answered questions and closed grants are kept this long; the record keeps them for ever."""
_REQUEST = "SELECT body, state, grant_id, answered_by, reason, until FROM requests"
_TEXTS = ("plan", "env", "stdin", "scripts", "preview")
"""The parts of a question that may hold secrets."""


class Questions:
    """The questions of one state folder."""

    def __init__(self, dirs: Dirs) -> None:
        """Reach for nothing yet."""
        self._db = database(dirs)

    def ask(self, request: Request) -> None:
        """Note an open question; one of the same call is replaced."""
        with self._db.writing() as db:
            db.execute("DELETE FROM requests WHERE state <> 'open' AND until < ?", (oldest_kept(),))
            _expire(db, request.asked)
            db.execute(
                "INSERT OR REPLACE INTO requests"
                " (call, digest, action, asked, until, state, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    request.call,
                    request.wanted.digest,
                    request.wanted.action_id,
                    request.asked,
                    request.until,
                    "open",
                    request.model_dump_json(by_alias=True),
                ),
            )

    def waiting(self, agent: str, now: float) -> int:
        """Return how many open questions an agent has, with all above and below it together."""
        first = agent.split(BETWEEN)[0]
        with self._db.reading() as db:
            rows = db.execute(
                "SELECT json_extract(body, '$.plan.agent') FROM requests"
                " WHERE state = 'open' AND until > ?",
                (now,),
            ).fetchall()
        return sum(str(name).split(BETWEEN)[0] == first for (name,) in rows)

    def asked(self, call: str) -> Asked:
        """Return a question. Raises BadInput if there is none of that call."""
        with self._db.reading() as db:
            row = db.execute(f"{_REQUEST} WHERE call = ?", (call,)).fetchone()
        if row is None:
            raise BadInput(f"no question about a call `{call}`; `lockgate approvals` lists them")
        return _asked(row, time.time())

    def named(self, name: str) -> Asked:
        """Return the question that a person means by a call's id, a unique beginning of one, or
        `last`: the newest that waits. Raises BadInput if there is none, or several begin so."""
        now = time.time()
        if name == LAST:
            if waiting := self.open_questions(now):
                return waiting[-1]
            raise BadInput("no call waits for a person")
        with self._db.reading() as db:
            rows = db.execute(
                f"{_REQUEST} WHERE substr(call, 1, ?) = ? ORDER BY asked", (len(name), name)
            ).fetchall()
        begun = [_asked(row, now) for row in rows] if name else []
        exact = [question for question in begun if question.request.call == name]
        some = exact or [question for question in begun if question.state == "open"] or begun
        if len(some) > 1:
            raise BadInput(f"`{name}` begins the ids of {len(some)} calls; give more of it")
        return some[0] if some else self.asked(name)

    def state(self, call: str) -> tuple[str, str, str]:
        """Return state, who answered and why, of a question that is waited for."""
        with self._db.reading() as db:
            row = db.execute(
                "SELECT state, coalesce(answered_by, ''), coalesce(reason, '') FROM requests"
                " WHERE call = ?",
                (call,),
            ).fetchone()
        return ("cancelled", "", "the question is gone") if row is None else tuple(row)

    def open_questions(self, now: float) -> list[Asked]:
        """Return the questions that wait, the oldest first."""
        if not self._db.exists:
            return []
        with self._db.reading() as db:
            rows = db.execute(
                f"{_REQUEST} WHERE state = 'open' AND until > ? ORDER BY asked", (now,)
            ).fetchall()
        return [_asked(row, now) for row in rows]

    def by_action(self, action: str, now: float) -> list[Asked]:
        """Return the questions about an action of the seed's short name, the newest first."""
        with self._db.reading() as db:
            rows = db.execute(
                f"{_REQUEST} WHERE action = ? AND state = 'open' AND until > ? ORDER BY asked DESC",
                (action, now),
            ).fetchall()
        return [_asked(row, now) for row in rows]

    def refused(self, what: Wanted, now: float) -> Refusal | None:
        """Return the no of a person to exactly this, as long as the question would have waited."""
        if not self._db.exists:
            return None
        with self._db.reading() as db:
            row = db.execute(
                "SELECT coalesce(answered_by, ''), coalesce(reason, '') FROM requests WHERE"
                " digest = ? AND state = 'denied' AND until > ? ORDER BY until DESC LIMIT 1",
                (what.digest, now),
            ).fetchone()
        return None if row is None else Refusal(*row)

    def refused_alike(self, action: str, now: float) -> Refusal | None:
        """Return the no of a person to what has this short name, as long as the question would have
        waited."""
        with self._db.reading() as db:
            row = db.execute(
                "SELECT coalesce(answered_by, ''), coalesce(reason, '') FROM requests WHERE"
                " action = ? AND state = 'denied' AND until > ? ORDER BY until DESC LIMIT 1",
                (action, now),
            ).fetchone()
        return None if row is None else Refusal(*row)

    def close(
        self, call: str, state: str, *, by: str = "", reason: str = "", lasts: bool = True
    ) -> bool:
        """Close an open question; return whether it was open.

        A person's no closes all that ask for exactly the same; unless it `lasts`, it is no answer
        to what asks the same later.
        """
        with self._db.writing() as db:
            done = db.execute(
                "UPDATE requests SET state = ?, answered_by = ?, reason = ?,"
                " until = CASE WHEN ? THEN until ELSE asked END"
                " WHERE call = ? AND state = 'open'",
                (state, by, reason, lasts, call),
            )
            forget_secrets(db, call)
            if done.rowcount == 1 and state == "denied":
                answer_equals(db, call, state, by, reason)
            return done.rowcount == 1


def answer_equals(db: sqlite3.Connection, call: str, state: str, by: str, reason: str) -> None:
    """Answer the open questions about exactly what a question was about, in the same way."""
    rows = db.execute(
        "SELECT call FROM requests WHERE state = 'open' AND call <> ?"
        " AND digest = (SELECT digest FROM requests WHERE call = ?)",
        (call, call),
    ).fetchall()
    for (other,) in rows:
        db.execute(
            "UPDATE requests SET state = ?, answered_by = ?, reason = ? WHERE call = ?",
            (state, by, reason, other),
        )
        forget_secrets(db, other)


def _expire(db: sqlite3.Connection, now: float) -> None:
    """Close the questions that nobody answered in time, and nobody waits for."""
    rows = db.execute(
        "SELECT call FROM requests WHERE state = 'open' AND until <= ?", (now,)
    ).fetchall()
    for (call,) in rows:
        db.execute("UPDATE requests SET state = 'expired' WHERE call = ?", (call,))
        forget_secrets(db, call)


def forget_secrets(db: sqlite3.Connection, call: str) -> None:
    """Mask the secrets of a question that is answered: a person saw it whole while it was open."""
    row = db.execute("SELECT body FROM requests WHERE call = ?", (call,)).fetchone()
    if row is not None:
        body = json.loads(row[0])
        masked = {**body, **{key: mask_all(body.get(key, {})) for key in _TEXTS}}
        db.execute("UPDATE requests SET body = ? WHERE call = ?", (json.dumps(masked), call))


def oldest_kept() -> float:
    """Return when what is kept at most that long was over."""
    return time.time() - _KEPT_SECONDS


def _asked(row: tuple[Any, ...], now: float) -> Asked:
    body, state, grant, by, reason, until = row
    if state == "open" and until <= now:
        state = "expired"
    return Asked(Request.model_validate_json(body), state, grant, by or "", reason or "")
