# SPDX-License-Identifier: Apache-2.0
"""The SQLite file of reports, and how many wait in it to be told.

Imports nothing heavy: `lockgate ps` counts without reading any. All else is `yellow_reports`.
"""

from __future__ import annotations

from sandbox.host.dirs import Dirs
from sandbox.host.sqlite import Database

FILE = "reports.sqlite"
_STEPS = (
    """
    CREATE TABLE reports (
        call TEXT PRIMARY KEY, user TEXT NOT NULL, at REAL NOT NULL, body TEXT NOT NULL,
        delivered TEXT
    );
    CREATE INDEX reports_waiting ON reports (delivered, at);
    """,
)


def database(dirs: Dirs) -> Database:
    """Return the file of reports of a state folder."""
    return Database(dirs.state / FILE, _STEPS, loss="the log still holds what was done")


def count_reports(dirs: Dirs) -> int:
    """Return how many reports nobody has been told yet. Raises Unavailable."""
    db = database(dirs)
    if not db.exists:
        return 0
    with db.reading() as connection:
        asked = "SELECT count(*) FROM reports WHERE delivered IS NULL"
        return int(connection.execute(asked).fetchone()[0])
