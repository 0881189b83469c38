# SPDX-License-Identifier: Apache-2.0
"""What repositories would lose: objects, references and reflogs that nothing else holds.

    note_lost(changes, root, upper, now)    marks changes with `loses`: why they must be looked at

What counts is the real repository: what its references, reflogs and indexes reached before must be
reached afterwards, from objects that are what their names say (see `git.commits`). Without a word
go what git itself forgets in everyday work: lines of reflogs that have expired, objects that
nothing reached, a stash that was applied. What cannot be found out is told as a loss.

Repositories are known by what they hold, not by their names (nested, bare, `modules/*`).

Runs in the keeper: standard library only, Python 3.9. Changes nothing but the list of changes.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Union

from .. import fs
from ..git.files import Coming, OnDisk, is_repository, within
from ..git.packs import Odd
from ..overlay.steps import Change
from .reading import note_modes
from .remains import Remains
from .sides import Sides
from .tracked import tracked
from .underway import BEGUN

_MARKS = frozenset(
    ("HEAD", "objects", "refs", "logs", "index", "packed-refs", "worktrees", "reftable", *BEGUN)
)
"""Names in a repository whose change can lose something."""
Told = Union[str, "tuple[str, str]"]
"""Why something is lost; or a reference of another repository's, with the address of that."""
MOST_SAID = 20
"""Losses that are told of one repository."""
_UNREADABLE = (Odd, OSError, struct.error, zlib.error, ValueError, IndexError, RecursionError)
"""What hostile files can lead to."""


def note_lost(changes: Iterable[Change], root: str, upper: str, now: float) -> None:
    """Mark changes by which a repository of the workspace loses something: `loses` says what.

    `now` is the time in seconds since the epoch, by which lines of reflogs expire.
    """
    changes = list(changes)
    with contextlib.ExitStack() as stack:
        top = fs.open_directory(root)
        stack.callback(os.close, top)
        folders = repositories(changes, OnDisk(top))
        heads = _heads(changes)
        if not folders and not heads:
            return
        layer = fs.open_directory(upper)
        stack.callback(os.close, layer)
        coming = Coming(top, changes, lambda path: (layer, path))
        moved = _moved(folders, changes)
        touched = _Touched(changes, {*folders, *heads, *moved.values()})
        for folder in sorted(folders):
            later = moved[folder]
            for path, what in _losses(folder, later, touched, OnDisk(top), coming, now):
                touched.say(path, (folder, later), what)
        for folder in sorted(heads - folders):
            if is_repository(coming, folder):
                for path, why in _folders_named(coming, folder, now):
                    touched.say(path, (folder,), why)


class _Touched:
    """Which changes lie in which folder, found in one pass over all of them."""

    def __init__(self, changes: Iterable[Change], folders: Collection[str]) -> None:
        self._before: dict[str, dict[str, Change]] = {}
        self._after: dict[str, dict[str, Change]] = {}
        for change in changes:
            source = change.get("source") or change["path"]
            for path, side in ((source, self._before), (change["path"], self._after)):
                for folder, rest in _above(path):
                    if folder not in folders:
                        continue
                    known = side.setdefault(folder, {})
                    if rest not in known or change["kind"] != "deleted":
                        known[rest] = change  # what comes says more than what it replaces

    def inside(self, folder: str, later: str) -> dict[str, Change]:
        """Return the changes in a folder, by their paths in it: where they were, and are."""
        return {**self._before.get(folder, {}), **self._after.get(later, {})}

    def after(self, folder: str) -> dict[str, Change]:
        """Return the changes that lie in a folder afterwards, by their paths in it."""
        return self._after.get(folder, {})

    def say(self, path: str, folders: tuple[str, ...], what: Told) -> None:
        """Add what is told to the change of its path, or to the first one in its repository."""
        sides = [side.get(folder, {}) for side in (self._after, self._before) for folder in folders]
        found = next((side[path] for side in sides if path in side), None)
        if found is None:
            found = next((one for side in sides for one in side.values()), None)
        if found is not None:
            said = found.setdefault("loses" if isinstance(what, str) else "git_tracked", [])
            if len(said) < MOST_SAID and what not in said:
                said.append(what)


def _above(path: str) -> Iterator[tuple[str, str]]:
    """Give the folders that a path lies in, itself too, each with the rest of the path."""
    yield "", "" if path == "." else path
    at = path.find("/")
    while at >= 0:
        yield path[:at], path[at + 1 :]
        at = path.find("/", at + 1)
    yield path, ""


def repositories(changes: Iterable[Change], files: OnDisk) -> set[str]:
    """Return the repositories that stand in the workspace and that changes touch."""
    asked: dict[str, bool] = {}
    for change in changes:
        for path in (change["path"], change.get("source")):
            if path is None:
                continue
            parts = path.split("/")
            found = {"/".join(parts[:n]) for n, part in enumerate(parts) if part in _MARKS}
            if change["type"] == "directory":
                found.add("" if path == "." else path)
            for folder in found - asked.keys():
                asked[folder] = is_repository(files, folder)
    return {folder for folder, is_one in asked.items() if is_one}


def _heads(changes: Iterable[Change]) -> set[str]:
    """Return the folders in which a `HEAD` comes: they may be new repositories."""
    files = (
        change["path"]
        for change in changes
        if change["kind"] != "deleted" and change["type"] == "file"
    )
    return {path[: -len("HEAD")].rstrip("/") for path in files if f"/{path}".endswith("/HEAD")}


def _folders_named(coming: Coming, folder: str, now: float) -> Iterator[tuple[str, str]]:
    """Give references of a new repository that name a folder, which is compared with nothing."""
    files = within(coming, folder)
    try:
        sides = Sides(files, files, now)
    except ValueError as error:
        yield "", f"what it names cannot be found out: {error}"
        return
    try:
        for path in sides.folders_named():
            yield path, "it names no commit"
    except _UNREADABLE as error:
        yield "", f"what it names cannot be found out: {error or type(error).__name__}"
    finally:
        sides.close()


def _moved(folders: Collection[str], changes: Iterable[Change]) -> dict[str, str]:
    """Return where each repository will lie: moved with a folder around it, or where it is."""
    moves = {
        change["source"]: str(change["path"])
        for change in changes
        if change.get("source") is not None and change["type"] == "directory"
    }
    found = {}
    for folder in folders:
        above = [(one, rest) for one, rest in _above(folder) if one in moves]
        source, rest = above[-1] if above else ("", "")
        found[folder] = (moves[source] + (f"/{rest}" if rest else "")) if above else folder
    return found


def _losses(
    folder: str,
    later: str,
    changes: _Touched,
    now_there: OnDisk,
    coming: Coming,
    now: float,
) -> Iterator[tuple[str, Told]]:
    """Give what a repository loses: the path in it, and why that matters; and what it tracks."""
    if not is_repository(coming, later):
        yield "", "the repository goes away"
        return
    touched = changes.inside(folder, later)
    yield from note_modes(changes.after(later))
    try:
        sides = Sides(within(now_there, folder), within(coming, later), now)
    except ValueError as error:
        yield "", f"what it loses cannot be found out: {error}"
        return
    try:
        remains = Remains(sides, touched, coming, _work_tree(later))
        parts: list[Callable[[], Iterator[tuple[str, Told]]]] = [
            *(remains.references, remains.reflogs, remains.indexes, remains.objects),
            lambda: tracked(sides.old, sides.new, touched),
        ]
        if ".git" not in later.split("/"):
            parts.append(remains.arrivals)
        for part in parts:
            try:
                yield from part()
            except _UNREADABLE as error:
                yield "", f"what it loses cannot be found out: {error or type(error).__name__}"
    finally:
        sides.close()


def _work_tree(folder: str) -> str | None:
    """Return the prefix of the work tree of a repository; None where that is not known."""
    parent, _, name = folder.rpartition("/")
    return (f"{parent}/" if parent else "") if name == ".git" else None
