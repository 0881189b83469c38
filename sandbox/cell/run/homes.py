# SPDX-License-Identifier: Apache-2.0
"""The home of a cell: whose it is for one call, and whether anybody has written in it.

What an agent's calls leave in its home is obeyed by programs (`.gitconfig`, `.bashrc`, packages of
the user), and nobody who approved a command has seen it. So a call that a person approved gets the
home as it was at first; what earlier calls left is set aside meanwhile, and joined with what the
call leaves when it has ended. Runs in the runner, while no command does.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from typing import Any

ASIDE = ".set-aside-"
MOST_JOINED = 50_000
"""Names that stand in both homes; what lies below further ones is dropped."""


class Home:
    """The home of the commands that may write."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._files: dict[str, str] = {}
        self._aside: str | None = None
        self._mixed = False
        """Whether a call that nobody approved may have written in it."""

    def furnish(self, files: dict[str, str], folders: list[str]) -> None:
        """Write the files that every home has, into each of these folders."""
        self._files = files
        for folder in folders:
            _write(folder, files)

    def pristine(self) -> bool:
        """Whether it holds exactly what it was furnished with."""
        try:
            found = {entry.name for entry in os.scandir(self._path)}
            return found == set(self._files) and all(
                _holds(os.path.join(self._path, name), text) for name, text in self._files.items()
            )
        except OSError:
            return False

    def give(self, *, approved: bool) -> None:
        """Make it ready for a call that may write. Raises OSError.

        For one that was `approved`, what it holds is set aside and it is furnished anew, unless all
        of it was left by calls that were approved too.
        """
        self.restore()
        if not approved:
            self._mixed = True
        if not approved or not self._mixed:
            return
        names = os.listdir(self._path)
        self._aside = tempfile.mkdtemp(prefix=ASIDE, dir=self._path)
        for name in names:
            os.rename(os.path.join(self._path, name), os.path.join(self._aside, name))
        _write(self._path, self._files)

    def restore(self) -> None:
        """Put back what was set aside; what the call left stands, where both have a name."""
        aside, self._aside = self._aside, None
        if aside is None:
            return
        for name, text in self._files.items():  # what the call has not touched is not its own
            path = os.path.join(self._path, name)
            if os.path.lexists(os.path.join(aside, name)) and _holds(path, text):
                with contextlib.suppress(OSError):
                    os.unlink(path)
        _join(aside, self._path)
        with contextlib.suppress(OSError, RecursionError):
            shutil.rmtree(aside, ignore_errors=True)


def _write(folder: str, files: dict[str, str]) -> None:
    for name, text in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)


def _holds(path: str, text: str) -> bool:
    try:
        if os.path.islink(path):
            return False
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(len(text) + 1) == text
    except OSError:
        return False


def _join(source: str, target: str) -> None:
    """Move what `source` holds to where `target` has nothing of that name."""
    waiting, left = [(source, target)], MOST_JOINED
    while waiting and left > 0:
        here, there = waiting.pop()
        try:
            entries = list(os.scandir(here))
        except OSError:
            continue
        for entry in entries:
            place = os.path.join(there, entry.name)
            with contextlib.suppress(OSError):
                if not os.path.lexists(place):
                    os.rename(entry.path, place)
                elif entry.is_dir(follow_symlinks=False) and _is_folder(place):
                    waiting.append((entry.path, place))
                    left -= 1


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def resolves_to_image(program: str, path: str) -> bool:
    """Whether a name is found in the file system of the image, which nobody here can write."""
    found = shutil.which(program, path=path)
    if found is None:
        return False
    try:
        real = os.path.realpath(found)
        return os.stat(real).st_dev == os.stat("/").st_dev and not os.access(real, os.W_OK)
    except OSError:
        return False


def vouches(home: Home, wanted: dict[str, Any] | None) -> bool:
    """Whether a program is what its name says: the image's, in a home that nobody wrote in."""
    if wanted is None:
        return False
    return home.pristine() and resolves_to_image(wanted["program"], wanted["path"])
