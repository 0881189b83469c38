# SPDX-License-Identifier: Apache-2.0
"""The tables of the index, as steps from each version to the next.

What a step adds is filled from the log: it empties the tables, and the next look takes all anew.
"""

from __future__ import annotations

STEPS = (
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
    """
    DELETE FROM state;
    DELETE FROM records;
    DELETE FROM entries;
    DELETE FROM counts;
    DELETE FROM places;
    ALTER TABLE records ADD COLUMN event INTEGER;
    ALTER TABLE entries ADD COLUMN session INTEGER;
    CREATE INDEX entries_by_session ON entries (session, n) WHERE session IS NOT NULL;
    CREATE TABLE texts (n INTEGER PRIMARY KEY, text TEXT NOT NULL);
    CREATE TABLE sessions (
        session INTEGER PRIMARY KEY, last INTEGER NOT NULL, calls INTEGER NOT NULL,
        refused INTEGER NOT NULL, began REAL NOT NULL, at REAL NOT NULL
    );
    CREATE INDEX sessions_by_last ON sessions (last);
    CREATE TABLE seen (
        session INTEGER NOT NULL, workspace INTEGER NOT NULL, name INTEGER NOT NULL,
        PRIMARY KEY (session, workspace, name)
    ) WITHOUT ROWID;
    """,
)
