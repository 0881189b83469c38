# SPDX-License-Identifier: Apache-2.0
"""What events in a layer mean: which path of the workspace they touch, and whether it is protected.

Runs in the observer beside the keeper: standard library only, Python 3.9. Reads the layer and, for
a folder that was moved, the workspace; changes nothing.

A layer is the folder NAME with `upper` (what the call sees), `work` (the overlay's own) and a file
`mark.N`. All three are watched as one, since the overlay moves objects between the first two, and a
move of which only one half is seen holds watchdog up for half a second.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from .. import fs
from ..overlay.layer import join
from ..overlay.masks import Patterns
from .trail import COPIED, CREATED, DELETED, LINKED, MOVED, Event, Trail

UPPER, WORK, MARK = "upper", "work", "mark."
MOST_ENTRIES = 200_000
"""Names that one look at a layer or at a moved folder goes through; the walk sees the rest."""


class Alarm(NamedTuple):
    """A protected path that appeared in a layer."""

    path: str
    events: list[Event]


class WatchedLayer:
    """One layer under watch. One thread at a time uses it."""

    def __init__(self, folder: str, lower: str, patterns: Patterns) -> None:
        self.folder = folder
        self._upper = f"{folder}/{UPPER}"
        self._lower = lower
        self._patterns = patterns
        self._trail = Trail()

    def mark_of(self, path: str) -> int | None:
        """Return the number of the mark that a path is, None for another path."""
        folder, _, name = path.rpartition("/")
        number = name[len(MARK) :]
        if folder != self.folder or not name.startswith(MARK) or not number.isdigit():
            return None
        return int(number)

    def mark(self) -> int:
        """Return the number of the mark that stands there now."""
        found = [self.mark_of(f"{self.folder}/{name}") for name in os.listdir(self.folder)]
        return max((number for number in found if number is not None), default=0)

    def heard(self, source: str, path: str, kind: str, *, is_folder: bool) -> Alarm | None:
        """Note an event; return an alarm if it made a protected path appear.

        `source` and `path` are absolute; `source` is empty but for moves.
        """
        place = self._place(path)
        if place is None:  # within the overlay's own folder, or a mark
            return None
        event = self._event(kind, place, self._place(source) if source else None, source != "")
        self._trail.add(event)
        if kind == DELETED:
            return None
        if self._protected(place):
            return Alarm(place, self._trail.leading_to(place))
        if is_folder:  # of a move into a folder that is new itself, only a creation may be heard
            found = next(self._brought(place), None)
            if found is not None:
                return Alarm(found, self._trail.leading_to(place))
        return None

    def look(self, path: str | None = None) -> Alarm | None:
        """Look at all names in the layer, or in one folder of it (an absolute path).

        Returns an alarm for the first protected one.
        """
        top = "" if path is None else self._place(path)
        if top is None:
            return None
        for place, is_folder in _names(f"{self._upper}/{top}" if top else self._upper, top):
            found = place if self._protected(place) else None
            if found is None and is_folder:
                found = next(self._brought(place), None)
            if found is not None:
                return Alarm(found, self._trail.leading_to(found))
        return None

    # -- parts

    def _place(self, path: str) -> str | None:
        head = self._upper + "/"
        return path[len(head) :] if path.startswith(head) else None

    def _event(self, kind: str, place: str, source: str | None, moved: bool) -> Event:
        if moved and source is not None:
            return Event(MOVED, place, source)
        status = self._status(place)
        if status is None or kind == DELETED:
            return Event(kind, place)
        if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
            return Event(DELETED, place)
        if stat.S_ISLNK(status.st_mode):
            return Event(LINKED, place, self._target(place))
        if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
            return Event(LINKED, place)
        return Event(COPIED if moved else CREATED, place)

    def _protected(self, place: str) -> bool:
        if self._patterns.pins(place):
            return True
        if not self._patterns.holds_pins(place):
            return False
        status = self._status(place)
        return status is not None and stat.S_ISLNK(status.st_mode)

    def _status(self, place: str) -> os.stat_result | None:
        try:
            return os.lstat(f"{self._upper}/{place}")
        except OSError:
            return None

    def _target(self, place: str) -> str:
        try:
            return os.readlink(f"{self._upper}/{place}")
        except OSError:
            return ""

    def _brought(self, place: str) -> Iterator[str]:
        """Give the protected paths that a folder of the workspace brought when it was moved."""
        below = self._below(place)
        if below is None or below == place:
            return
        for name, _ in _names(f"{self._lower}/{below}", place):
            if self._patterns.pins(name):
                yield name

    def _below(self, place: str) -> str | None:
        """Return which folder of the workspace a folder of the layer shows; None for none."""
        low: str | None = ""
        here = ""
        for name in place.split("/"):
            here = join(here, name)
            try:
                opaque = fs.trusted(f"{self._upper}/{here}", "opaque") == b"y"
                redirect = fs.trusted(f"{self._upper}/{here}", "redirect")
            except OSError:
                return None
            text = os.fsdecode(redirect or b"")
            if opaque:
                low = None  # a folder in it may still be one that was moved
            elif text.startswith("/"):
                low = text.strip("/")
            elif low is not None:
                low = join(low, text or name)
        return low


def _names(root: str, prefix: str) -> Iterator[tuple[str, bool]]:
    """Give the names below a folder and whether they are folders, at most MOST_ENTRIES."""
    waiting, seen = [(root, prefix)], 0
    while waiting:
        folder, place = waiting.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:  # it went away meanwhile
            continue
        for entry in entries:
            seen += 1
            if seen > MOST_ENTRIES:
                return
            name = join(place, entry.name)
            try:
                is_folder = entry.is_dir(follow_symlinks=False)
            except OSError:
                is_folder = False
            yield name, is_folder
            if is_folder:
                waiting.append((entry.path, name))
