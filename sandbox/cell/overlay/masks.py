# SPDX-License-Identifier: Apache-2.0
"""Find what a cell must not see (secrets) and what it must not write (protected files).

One bounded walk when a cell starts; what appears later, `newcomers` tells. Dependency folders are
skipped, so a secret inside one of them is seen by the cell (docs/SECURITY.md states this limit).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from .comparison import normal, normal_name

MOST_ENTRIES = 500_000
LONGEST = 3_500
"""Bytes of a path that is looked into. What lies deeper could not be opened, nor masked, by its
path, but a cell could go there step by step: so such a folder is hidden as a whole."""
MOST_PINS = 64
"""Paths that are pinned in a workspace, the outermost first: each is a mount of its own, which
costs a call about 0.1 ms. What is left out fails at gate 2 instead of at once."""
SKIPPED = {"node_modules", ".venv", "venv", "__pycache__", ".tox", ".mypy_cache", ".lockgate"}
SKIPPED_IN_GIT = {"objects", "lfs"}


class Patterns:
    """Regular expressions over relative paths as `normal` returns them.

    `above` fits the folders that protected files are named in: a link in such a folder's place
    would stand in for them. `read_*` name the files whose texts gate 2 wants, `read_condensed`
    those among them of which it wants the places that they name alone.
    """

    def __init__(
        self,
        hide: list[str],
        show: list[str],
        pin: list[str],
        above: Sequence[str] = (),
        obey: Sequence[str] = (),
        read_names: Sequence[str] = (),
        read_like: Sequence[str] = (),
        read_paths: Sequence[str] = (),
        read_condensed: Sequence[str] = (),
    ) -> None:
        self._hide = _union(hide)
        self._show = _union(show)
        self._pin = _union(pin)
        self._above = _union(above)
        self._obey = _union(obey)
        self._read_names = frozenset(read_names)
        self._read_like = _union(read_like)
        self._read_paths = _union(read_paths)
        self._read_condensed = _union(read_condensed)

    def hides(self, path: str) -> bool:
        """Whether the cell must not see this path."""
        name = normal(path)
        return bool(self._hide.match(name)) and not self._show.match(name)

    def pins(self, path: str) -> bool:
        """Whether the path is protected: the cell must not write it."""
        return bool(self._pin.match(normal(path)))

    def counts(self, path: str) -> bool:
        """Whether anybody looks at a change of the path: protected, hidden, or obeyed."""
        return self.pins(path) or self.hides(path) or bool(self._obey.match(normal(path)))

    def reads(self, path: str) -> bool:
        """Whether gate 2 judges the file at a path by what it holds."""
        name = normal_name(path.rpartition("/")[2])
        if name not in self._read_names and not self._read_like.match(name):
            return False  # nearly every file
        return bool(self._read_paths.match(normal(path)))

    def condenses(self, path: str) -> bool:
        """Whether of a file that gate 2 reads the places that it names are enough."""
        return bool(self._read_condensed.match(normal(path)))

    def holds_pins(self, path: str) -> bool:
        """Whether protected files are named in the folder `path`."""
        return bool(self._above.match(normal(path)))


def _union(expressions: Sequence[str]) -> re.Pattern[str]:
    text = "|".join(f"(?:{expression})" for expression in expressions) or r"(?!)"
    text = rf"(?:{text})\Z"
    try:
        return re.compile(text, re.DOTALL)
    except re.error:  # before Python 3.11: the same without atomic groups, only slower
        return re.compile(text.replace("(?>", "(?:"), re.DOTALL)


class TooLarge(Exception):
    """The workspace holds more entries than the walk may look at."""


def find(
    root: str, patterns: Patterns, start: str = "", folders: list[str] | None = None
) -> tuple[list[str], list[str]]:
    """Return (hidden paths, pinned paths) below `start`, relative to root.

    The folders that were looked into are added to `folders`. Raises TooLarge and OSError.
    """
    hidden, pinned = [".lockgate"], []
    for path in _paths(root, start, [] if folders is None else folders):
        if patterns.hides(path) or _too_long(path):
            hidden.append(path)
        elif patterns.pins(path):
            pinned.append(path)
    outermost = sorted(topmost(pinned), key=lambda path: path.count("/"))
    return topmost(hidden), outermost[:MOST_PINS]


def _too_long(path: str) -> bool:
    return len(path) * 4 > LONGEST and len(os.fsencode(path)) > LONGEST


def topmost(paths: list[str]) -> list[str]:
    """Return the paths without those that lie below another."""
    kept: list[str] = []
    for path in sorted(set(paths), key=lambda path: path.split("/")):
        if not kept or not path.startswith(kept[-1] + "/"):
            kept.append(path)
    return kept


def _paths(root: str, start: str, folders: list[str]) -> Iterator[str]:
    waiting, seen = [start], 0
    while waiting:
        folder = waiting.pop()
        try:
            entries = list(os.scandir(os.path.join(root, folder)))
        except (PermissionError, FileNotFoundError, NotADirectoryError):
            continue
        folders.append(folder)
        for entry in entries:
            seen += 1
            if seen > MOST_ENTRIES:
                raise TooLarge(f"more than {MOST_ENTRIES} entries")
            path = f"{folder}/{entry.name}" if folder else entry.name
            is_directory = entry.is_dir(follow_symlinks=False)
            yield path
            if is_directory and not skipped(path):
                waiting.append(path)


def skipped(path: str) -> bool:
    """Whether a folder is not looked into."""
    folder, _, name = path.rpartition("/")
    in_git = os.path.basename(folder) == ".git" and name in SKIPPED_IN_GIT
    return name in SKIPPED or in_git or _too_long(path)


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
