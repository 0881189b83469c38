# SPDX-License-Identifier: Apache-2.0
"""Find what a cell must not see (secrets) and what it must not write (protected files).

One bounded walk when a cell starts. Dependency folders are skipped, so a secret inside one of them
is seen by the cell (docs/SECURITY.md states this limit).
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator

MOST_ENTRIES = 500_000
SKIPPED = {"node_modules", ".venv", "venv", "__pycache__", ".tox", ".mypy_cache", ".lockgate"}
SKIPPED_IN_GIT = {"objects", "lfs"}


class Patterns:
    """Regular expressions over normalised relative paths (NFC, case folded)."""

    def __init__(self, hide: list[str], show: list[str], pin: list[str]) -> None:
        self._hide = _union(hide)
        self._show = _union(show)
        self._pin = _union(pin)

    def hides(self, path: str) -> bool:
        """Whether the cell must not see this path."""
        name = _normal(path)
        return bool(self._hide.match(name)) and not self._show.match(name)

    def pins(self, path: str) -> bool:
        """Whether the cell must not write this path."""
        return bool(self._pin.match(_normal(path)))


def _union(expressions: list[str]) -> re.Pattern[str]:
    text = "|".join(f"(?:{expression})" for expression in expressions) or r"(?!)"
    return re.compile(rf"(?:{text})\Z", re.DOTALL)


def _normal(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()


class TooLarge(Exception):
    """The workspace holds more entries than the walk may look at."""


def find(root: str, patterns: Patterns) -> tuple[list[str], list[str]]:
    """Return (hidden paths, pinned paths), relative to root. Raises TooLarge and OSError."""
    hidden, pinned = [".lockgate"], []
    for path in _paths(root):
        if patterns.hides(path):
            hidden.append(path)
        elif patterns.pins(path):
            pinned.append(path)
    return _topmost(hidden), _topmost(pinned)


def _topmost(paths: list[str]) -> list[str]:
    """Return the paths without those that lie below another."""
    kept: list[str] = []
    for path in sorted(set(paths), key=lambda path: path.split("/")):
        if not kept or not path.startswith(kept[-1] + "/"):
            kept.append(path)
    return kept


def _paths(root: str) -> Iterator[str]:
    waiting, seen = [""], 0
    while waiting:
        folder = waiting.pop()
        try:
            entries = list(os.scandir(os.path.join(root, folder)))
        except (PermissionError, FileNotFoundError, NotADirectoryError):
            continue
        for entry in entries:
            seen += 1
            if seen > MOST_ENTRIES:
                raise TooLarge(f"more than {MOST_ENTRIES} entries")
            path = f"{folder}/{entry.name}" if folder else entry.name
            is_directory = entry.is_dir(follow_symlinks=False)
            yield path
            in_git = os.path.basename(folder) == ".git" and entry.name in SKIPPED_IN_GIT
            if is_directory and entry.name not in SKIPPED and not in_git:
                waiting.append(path)


def build(layer: str, root: str, hidden: list[str], owner: dict[int, int]) -> None:
    """Make a mask layer: a whiteout at each hidden path, folders as they are in the workspace."""
    os.mkdir(layer)
    _like(layer, root, owner)
    for path in hidden:
        place = ""
        for name in path.split("/")[:-1]:
            place = f"{place}/{name}" if place else name
            folder = os.path.join(layer, place)
            if not os.path.isdir(folder):
                os.mkdir(folder)
                _like(folder, os.path.join(root, place), owner)
        whiteout = os.path.join(layer, path)
        if not os.path.lexists(whiteout):
            os.mknod(whiteout, 0o020000, os.makedev(0, 0))
    # Last, the deepest first: making what a folder holds has changed its time.
    above = {path[:at] for path in hidden for at, sign in enumerate(path) if sign == "/"} | {""}
    for folder in sorted(above, reverse=True):
        _like(os.path.join(layer, folder), os.path.join(root, folder), owner)


def _like(folder: str, original: str, owner: dict[int, int]) -> None:
    """Give a folder the owner, mode and times of another, seen through the owner map."""
    try:
        info = os.lstat(original)
    except FileNotFoundError:
        return
    os.chown(folder, owner.get(info.st_uid, info.st_uid), owner.get(info.st_gid, info.st_gid))
    os.chmod(folder, info.st_mode & 0o7777)
    os.utime(folder, ns=(info.st_atime_ns, info.st_mtime_ns))
