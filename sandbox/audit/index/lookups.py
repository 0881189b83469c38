# SPDX-License-Identifier: Apache-2.0
"""Small questions that others are made of: what undid a call, and the numbers of names."""

from __future__ import annotations

import sqlite3


def find_undos(db: sqlite3.Connection, name: str) -> dict[str, str]:
    """Return which undo took a call back, and which took that back in turn."""
    undos: dict[str, str] = {}
    while name not in undos:
        asked = "SELECT call FROM records WHERE undone = ? ORDER BY n LIMIT 1"
        row = db.execute(asked, (name,)).fetchone()
        if row is None:
            break
        undos[name] = name = row[0]
    return undos


def read_names(db: sqlite3.Connection) -> dict[str, int]:
    """Return the number under which each name stands in the index."""
    return dict(db.execute("SELECT name, id FROM names").fetchall())
