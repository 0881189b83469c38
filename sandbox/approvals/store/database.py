# SPDX-License-Identifier: Apache-2.0
"""The SQLite file of questions and grants, and how many questions wait in it.

Imports nothing heavy: `lockgate ps` counts without reading any.
"""

from __future__ import annotations

from sandbox.host.dirs import Dirs
from sandbox.host.sqlite import Database

FILE = "approvals.sqlite"
_STEPS = (
    """
    CREATE TABLE requests (
        call TEXT PRIMARY KEY, digest TEXT NOT NULL, action TEXT NOT NULL, asked REAL NOT NULL,
        until REAL NOT NULL, state TEXT NOT NULL, grant_id TEXT, answered_by TEXT, reason TEXT,
        body TEXT NOT NULL
    );
    CREATE INDEX requests_by_state ON requests (state, until);
    CREATE TABLE grants (
        id TEXT PRIMARY KEY, until REAL NOT NULL, uses INTEGER NOT NULL,
        used INTEGER NOT NULL DEFAULT 0, revoked REAL, body TEXT NOT NULL
    );
    CREATE TABLE uses (grant_id TEXT NOT NULL, call TEXT NOT NULL, at REAL NOT NULL);
    """,
)
"""The schema, one step per version of it (PRAGMA user_version)."""


def database(dirs: Dirs) -> Database:
    """Return the file of questions and grants of a state folder."""
    return Database(dirs.state / FILE, _STEPS, loss="questions are asked anew")


def count_questions(dirs: Dirs, now: float) -> int:
    """Return how many different questions wait; several calls may ask one. Raises Unavailable."""
    db = database(dirs)
    if not db.exists:
        return 0
    with db.reading() as connection:
        asked = "SELECT count(DISTINCT digest) FROM requests WHERE state = 'open' AND until > ?"
        return int(connection.execute(asked, (now,)).fetchone()[0])
