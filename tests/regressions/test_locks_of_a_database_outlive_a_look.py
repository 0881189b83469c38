# SPDX-License-Identifier: Apache-2.0
"""Making sure that a database is there ends no lock that another thread holds on it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.errors import Busy, Unavailable
from sandbox.host.sqlite import Database

LOCK = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
try:
    db.execute("BEGIN IMMEDIATE")
except sqlite3.OperationalError as error:
    print(error)
else:
    print("free")
"""


def ask_another_process(path: Path) -> str:
    """Return what a process that wants to write is told."""
    return subprocess.check_output([sys.executable, "-c", LOCK, str(path)], text=True).strip()


def test_a_lock_outlives_that_the_same_process_opens_the_file_again(tmp_path: Path) -> None:
    database = Database(tmp_path / "small.db", ["CREATE TABLE words (word TEXT)"], loss="words")
    with database.writing() as db:
        db.execute("INSERT INTO words VALUES ('kept')")
        with database.reading():
            pass
        assert ask_another_process(database.path) == "database is locked"
    assert ask_another_process(database.path) == "free"


def test_what_another_process_writes_is_busy_and_not_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox.host.sqlite._BUSY_SECONDS", 0.01)
    database = Database(tmp_path / "small.db", ["CREATE TABLE words (word TEXT)"], loss="words")
    with database.writing(), pytest.raises(Busy), database.writing():
        pass
    with database.writing() as db:
        db.execute("INSERT INTO words VALUES ('kept')")
    database.path.write_bytes(b"no database" * 100)
    with pytest.raises(Unavailable) as raised, database.reading():
        pass
    assert not isinstance(raised.value, Busy)


def test_a_link_is_no_database(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"")
    (tmp_path / "small.db").symlink_to(other)
    database = Database(tmp_path / "small.db", ["CREATE TABLE words (word TEXT)"], loss="words")
    with pytest.raises(Unavailable), database.reading():
        pass
    assert other.read_bytes() == b""
