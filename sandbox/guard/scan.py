# SPDX-License-Identifier: Apache-2.0
"""Find the protected paths of one workspace: one bounded walk, then only in few folders.

The folders that are looked at again and again: the root and what lies directly in it, every folder
that holds a protected path, the folders above those, the folders that rules name, and for a while
each folder that is new in one of them. Follows no link; changes nothing.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from sandbox.cell import fs
from sandbox.cell.overlay.masks import SKIPPED, SKIPPED_IN_GIT
from sandbox.guard.fingerprint import DIRECTORY, FILE, Entry, Keep, examine
from sandbox.workspaces.protected_paths import RECORDS, Protected, own_records

MOST_ENTRIES = 1_000_000
"""Entries that the walk of a workspace looks at."""
MOST_PROTECTED = 20_000
"""Protected paths of one workspace."""
MOST_AT_ROOT = 64
"""Folders directly in the root that are looked at though they hold nothing protected."""
MOST_YOUNG = 256
YOUNG_SECONDS = 120.0
"""How long a new folder is looked at though it holds nothing protected."""


class Scanner:
    """Knows where in one workspace protected paths are and can appear."""

    def __init__(self, root: str, protected: Protected, say: Callable[[str], None]) -> None:
        self.root = root
        self._protected = protected
        self._say = say
        self._lasting: set[str] = {""}
        self._young: dict[str, float] = {}
        self._inside: dict[str, dict[str, int]] = {}
        """The folders in each folder that is looked at, with their inodes."""
        self._said: set[str] = set()

    @property
    def folders(self) -> set[str]:
        """Return the folders that are looked at, relative to the root."""
        return self._lasting | self._young.keys()

    def survey(self, known: Iterable[str] = ()) -> None:
        """Walk the workspace for protected paths; `known` names some that are looked for as well.

        Raises OSError when the root cannot be opened.
        """
        for path in known:
            self._note(path, folder=False)
        root = fs.open_directory(self.root)
        try:
            at_root = self._walk(root, [""], MOST_ENTRIES)
        finally:
            os.close(root)
        self._lasting.update(sorted(at_root)[:MOST_AT_ROOT])
        self._inside.clear()

    def look(
        self, known: Mapping[str, Entry], *, keep: Keep, full: bool = False
    ) -> dict[str, Entry]:
        """Return how every protected path stands, and every folder above one.

        Raises OSError when the root cannot be opened.
        """
        now = time.monotonic()
        self._young = {path: end for path, end in self._young.items() if end > now}
        found: dict[str, Entry] = {}
        root = fs.open_directory(self.root)
        try:
            waiting, done = deque(sorted(self.folders)), set[str]()
            while waiting:
                path = waiting.popleft()
                if path in done:
                    continue
                done.add(path)
                before = len(self._lasting) + len(self._young)
                look = partial(examine, keep=keep, full=full)
                if new := self._look_at(root, path, known, found, look):
                    self._walk(root, new, MOST_ENTRIES // 10, young=now + YOUNG_SECONDS)
                if len(self._lasting) + len(self._young) > before:
                    waiting.extend(sorted(self.folders - done))
            for path in _above((*found, *known)) - found.keys():
                if (entry := _single(root, path, keep)) is not None:
                    found[path] = entry
        finally:
            os.close(root)
        return found

    def single(self, path: str, *, keep: Keep) -> Entry | None:
        """Return how one path stands."""
        try:
            root = fs.open_directory(self.root)
        except OSError:
            return None
        try:
            return _single(root, path, keep)
        finally:
            os.close(root)

    # Parts

    def _look_at(
        self,
        root: int,
        path: str,
        known: Mapping[str, Entry],
        found: dict[str, Entry],
        look: Callable[[int, str, Entry | None], Entry | None],
    ) -> list[str]:
        """Add what one folder holds to `found`; return the folders in it that were not there."""
        try:
            folder = fs.open_beneath(root, path)
        except OSError:
            self._leave(path)
            return []
        inside: dict[str, int] = {}
        try:
            with os.scandir(folder) as entries:
                for one in entries:
                    place = f"{path}/{one.name}" if path else one.name
                    if one.is_dir(follow_symlinks=False) and not _skipped(place):
                        inside[place] = one.inode()
                    rule = self._protected.rule_of(place)
                    if rule is None and not self._protected.lies_above(place):
                        continue
                    if len(found) >= MOST_PROTECTED:
                        self._once(_TOO_MANY.format(root=self.root))
                        break
                    entry = look(folder, one.name, known.get(place))
                    if entry is None or (rule is None and entry.type == FILE):
                        continue
                    found[place] = entry
                    self._note(place, folder=entry.type == DIRECTORY)
        except OSError:
            return []
        finally:
            os.close(folder)
        before = self._inside.get(path, inside)
        self._inside[path] = inside
        return [place for place, inode in inside.items() if before.get(place) != inode]

    def _walk(self, root: int, start: list[str], most: int, *, young: float = 0.0) -> set[str]:
        """Note the protected paths below some folders; return the folders directly in the root."""
        at_root: set[str] = set()
        waiting, seen = deque(start), 0
        while waiting:
            path = waiting.popleft()
            if young and path not in self._lasting and len(self._young) < MOST_YOUNG:
                self._young[path] = young
            try:
                folder = fs.open_beneath(root, path)
            except OSError:
                continue
            inside: dict[str, int] = {}
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:
                        seen += 1
                        place = f"{path}/{entry.name}" if path else entry.name
                        is_folder = entry.is_dir(follow_symlinks=False)
                        if self._protected.rule_of(place) is not None or (
                            is_folder and self._protected.lies_above(place)
                        ):
                            self._note(place, folder=is_folder)
                        if is_folder and not _skipped(place):
                            inside[place] = entry.inode()
            except OSError:
                continue
            finally:
                os.close(folder)
            waiting.extend(inside)
            if not path:
                at_root.update(inside)
            if young:
                self._inside[path] = inside
            if seen > most:
                self._once(
                    f"`{self.root}` holds more than {most} entries; protected files in the rest "
                    "of it are seen only where they appear in a watched folder"
                )
                break
        return at_root

    def _note(self, path: str, *, folder: bool) -> None:
        """Look at the folder of a protected path from now on, at those above, and at itself."""
        self._lasting.update(_above((path,)))
        if folder and not _skipped(path):
            self._lasting.add(path)

    def _leave(self, path: str) -> None:
        self._inside.pop(path, None)
        if path:
            self._lasting.discard(path)
            self._young.pop(path, None)

    def _once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._say(text)


_TOO_MANY = (
    "`{root}` holds more than " + str(MOST_PROTECTED) + " protected paths; the rest is not guarded"
)


def _single(root: int, path: str, keep: Keep) -> Entry | None:
    try:
        folder, name = fs.parent(root, path)
    except OSError:
        return None
    try:
        return examine(folder, name, keep=keep)
    except OSError:
        return None
    finally:
        if folder != root:
            os.close(folder)


def _above(paths: Iterable[str]) -> set[str]:
    """Return the folders above some paths, without the root."""
    found: set[str] = set()
    for path in paths:
        while "/" in path:
            path = path.rpartition("/")[0]
            if path in found:
                break
            found.add(path)
    return found


def _skipped(path: str) -> bool:
    """Whether a folder is not looked into: dependencies, git's objects, landings' own records."""
    if path == RECORDS:
        return False
    folder, _, name = path.rpartition("/")
    in_git = folder.rpartition("/")[2] == ".git" and name in SKIPPED_IN_GIT
    return in_git or name in SKIPPED or own_records(path)
