# SPDX-License-Identifier: Apache-2.0
"""A small SQLite file that several processes share: opened, brought up to date, closed."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from sandbox.errors import Busy, Unavailable

_BUSY_SECONDS = 30.0
_BUSY_CODES = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_ROOM_CODES = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
_PRIMARY_CODE = 0xFF
"""Mask of an extended result code: https://www.sqlite.org/rescode.html"""


def _damages() -> tuple[type[Exception], ...]:
    """Return the errors that a damaged file raises, a body that does not fit its model included.

    Loading pydantic takes long; where nobody has, nothing was read that could fail so.
    """
    loaded = sys.modules.get("pydantic_core")
    return (sqlite3.Error,) if loaded is None else (sqlite3.Error, loaded.ValidationError)


class Database:
    """One file with its schema, given as the steps from each version to the next."""

    def __init__(self, path: Path, steps: Sequence[str], *, loss: str) -> None:
        """Reach for nothing yet. `loss` says what is lost where a person moves the file away."""
        self.path = path
        self._steps = steps
        self._loss = loss

    @property
    def exists(self) -> bool:
        """Whether anything was ever written."""
        return self.path.exists()

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give a connection for questions. Raises Unavailable; Busy while another one writes."""
        try:
            self._ensure_there()
            db = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            raise Unavailable(f"{self.path}: {error}") from None
        try:
            self._prepare(db)
            yield db
        except _damages() as error:
            what = str(error).splitlines()[0]
            if getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE in _BUSY_CODES:
                raise Busy(f"{self.path}: {what}; try again") from None
            if getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE in _ROOM_CODES:
                raise Unavailable(f"{self.path}: {what}; make room there and try again") from None
            raise Unavailable(f"{self.path}: {what}; move the file away: {self._loss}") from None
        finally:
            db.close()

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Give a connection inside one write transaction: all of it is on disk after, or none."""
        with self.reading() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                _roll_back(db)
                raise
            db.execute("COMMIT")

    def _ensure_there(self) -> None:
        """Make the file, for its owner alone. Raises OSError, also where it is a link.

        A file that is there is not opened: closing it would end the locks that other connections
        of this process hold on it (POSIX; see "How To Corrupt An SQLite Database File", 2.2).
        """
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            os.close(os.open(self.path, flags, 0o600))
        except FileExistsError:
            if self.path.is_symlink():
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None

    def _prepare(self, db: sqlite3.Connection) -> None:
        db.execute("PRAGMA synchronous = FULL")
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version == len(self._steps):
            return
        if version > len(self._steps):
            raise sqlite3.DatabaseError("written by a newer Lockgate")
        db.execute("BEGIN EXCLUSIVE")
        try:
            version = db.execute("PRAGMA user_version").fetchone()[0]
            for step in self._steps[version:]:
                for statement in filter(str.strip, step.split(";")):
                    db.execute(statement)
            db.execute(f"PRAGMA user_version = {len(self._steps)}")
        except BaseException:
            _roll_back(db)
            raise
        db.execute("COMMIT")


def _roll_back(db: sqlite3.Connection) -> None:
    """End a transaction, unless SQLite has done so itself: on a full disk it has."""
    if db.in_transaction:
        db.execute("ROLLBACK")
