# SPDX-License-Identifier: Apache-2.0
"""A repository's files as they stand, and as they will be when changes have come.

    OnDisk(directory, prefix)           what lies below an open directory
    Coming(directory, changes, place)   the same with a list of changes carried out
    within(files, folder)               the files of one folder

Runs in the keeper: standard library only, Python 3.9. Reads only, follows no link.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from .. import fs
from .config import settings

_READ = os.O_RDONLY | os.O_NONBLOCK
_SETTINGS_BYTES = 1 << 20
Place = Callable[[str], "tuple[int, str] | None"]
"""Where the content that a changed path will have lies: an open directory and a path in it."""


class Files(Protocol):
    """Files below a folder, by relative path."""

    def status(self, path: str) -> os.stat_result | None:
        """Return the status of a path itself; None where it is absent."""

    def open(self, path: str) -> int:
        """Open a file for reading. Raises OSError."""

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, in order; none where it is absent."""


class OnDisk:
    """The files below an open directory, as they are. The caller keeps the directory open."""

    def __init__(self, directory: int, prefix: str = "") -> None:
        self._directory = directory
        self._prefix = prefix

    def status(self, path: str) -> os.stat_result | None:
        """Return the status of a path itself; None where it is absent."""
        return fs.lstat(self._directory, _joined(self._prefix, path))

    def open(self, path: str) -> int:
        """Open a file for reading. Raises OSError."""
        return fs.open_beneath(self._directory, _joined(self._prefix, path), _READ)

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, in order; none where it is absent."""
        try:
            descriptor = fs.open_beneath(self._directory, _joined(self._prefix, folder))
        except OSError as error:
            if error.errno in fs.ABSENT:
                return []
            raise
        try:
            return sorted(os.listdir(descriptor))
        finally:
            os.close(descriptor)


class Coming:
    """The files of a workspace when changes have come.

    `changes` list all that comes and goes, what moves along with a folder too, as a walk does.
    `place` says where new content lies.
    """

    def __init__(self, directory: int, changes: Iterable[dict[str, Any]], place: Place) -> None:
        self._directory = directory
        self._now = OnDisk(directory)
        self._place = place
        self._new: dict[str, dict[str, Any]] = {}
        self._gone: set[str] = set()
        self._held: dict[str, set[str]] = {}
        """Names that came, by their folder."""
        for change in changes:
            path = change["path"]
            if change["kind"] == "deleted":
                self._gone.add(path)
                continue
            if change["kind"] == "renamed":
                self._gone.add(change["source"])
            self._new[path] = change
            folder, _, name = path.rpartition("/")
            self._held.setdefault(folder, set()).add(name)

    @property
    def standing(self) -> OnDisk:
        """The files as they are before the changes."""
        return self._now

    def came(self, path: str) -> bool:
        """Whether something new will stand at a path."""
        return path in self._new

    def status(self, path: str) -> os.stat_result | None:
        """Return the status of a path itself; None where it will be absent."""
        found = self._where(path)
        return None if found is None else fs.lstat(*found)

    def open(self, path: str) -> int:
        """Open a file for reading. Raises OSError."""
        found = self._where(path)
        if found is None:
            raise FileNotFoundError(2, os.strerror(2), path)
        return fs.open_beneath(*found, _READ)

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, in order; none where it will be absent."""
        found = set(self._held.get(folder, ()))
        if folder not in self._gone:
            prefix = folder + "/" if folder else ""
            found |= {name for name in self._now.names(folder) if prefix + name not in self._gone}
        return sorted(found)

    def link(self, path: str) -> bytes | None:
        """Return what a link will lead to; None where none will stand there."""
        found = self._where(path)
        status = None if found is None else fs.lstat(*found)
        if found is None or status is None or not stat.S_ISLNK(status.st_mode):
            return None
        return os.fsencode(fs.readlink(*found))

    def _where(self, path: str) -> tuple[int, str] | None:
        change = self._new.get(path)
        if change is None:
            return None if path in self._gone else (self._directory, path)
        kind = change["kind"]
        if kind == "meta":
            return self._directory, path
        if kind == "renamed" and not change.get("modified"):
            return self._directory, change["source"]
        return self._place(path)


class _Within:
    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._folder = folder

    def status(self, path: str) -> os.stat_result | None:
        return self._files.status(_joined(self._folder, path))

    def open(self, path: str) -> int:
        return self._files.open(_joined(self._folder, path))

    def names(self, folder: str) -> list[str]:
        return self._files.names(_joined(self._folder, folder))


def within(files: Files, folder: str) -> Files:
    """Return the files of one folder."""
    return _Within(files, folder)


def content(files: Files, path: str, most: int) -> bytes | None:
    """Return a regular file's bytes; None where there is none, or it is too long or unreadable."""
    status = files.status(path)
    if status is None or not stat.S_ISREG(status.st_mode) or status.st_size > most:
        return None
    try:
        with open(files.open(path), "rb") as file:
            found = file.read(most + 1)
    except OSError:
        return None
    return found if len(found) <= most else None


def is_folder(files: Files, path: str) -> bool:
    """Whether a path is a folder."""
    status = files.status(path)
    return status is not None and stat.S_ISDIR(status.st_mode)


def is_repository(files: Files, folder: str) -> bool:
    """Whether a folder is a repository, of whatever name, as git recognises one.

    Source: `is_git_directory` in git's setup.c.
    """
    head = files.status(_joined(folder, "HEAD"))
    if head is None or stat.S_ISDIR(head.st_mode):
        return False
    return all(is_folder(files, _joined(folder, name)) for name in ("objects", "refs"))


def width_of(sides: Sequence[Files], folder: str) -> int:
    """Return the bytes of an object id, as a repository's settings say: 20 or 32.

    Raises ValueError where git could not read these.
    """
    for files in sides:
        found = content(files, _joined(folder, "config"), _SETTINGS_BYTES)
        if found is not None:
            named = [value for key, value in settings(found) if key == b"extensions.objectformat"]
            return 32 if named and named[-1].lower() == b"sha256" else 20
    return 20


def _joined(folder: str, path: str) -> str:
    return f"{folder}/{path}" if folder and path else folder or path
