# SPDX-License-Identifier: Apache-2.0
"""What repositories would lose: objects, references and reflogs that nothing else holds.

    note_lost(changes, root, upper, now)    marks changes with `loses`: why they must be looked at

What counts is the real repository: what its references, reflogs and indexes reached before must be
reached afterwards, from objects that are what their names say (see gitcommits). Without a word go
what git itself forgets in everyday work: lines of reflogs that have expired, objects that nothing
reached, a stash that was applied. What cannot be found out is told as a loss.

Repositories are known by what they hold, not by their names (nested, bare, `modules/*`).

Runs in the keeper: standard library only, Python 3.9. Changes nothing but the list of changes.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from .. import fs
from ..git.files import Coming, Standing, is_repository, within
from ..git.packs import Odd
from .reading import note_modes
from .remains import Remains
from .sides import Sides

_MARKS = frozenset(
    ("HEAD", "objects", "refs", "logs", "index", "packed-refs", "worktrees", "reftable")
)
"""Names in a repository whose change can lose something."""
MOST_SAID = 20
"""Losses that are told of one repository."""
_UNREADABLE = (Odd, OSError, struct.error, zlib.error, ValueError, IndexError, RecursionError)
"""What hostile files can lead to."""


def note_lost(changes: Iterable[dict[str, Any]], root: str, upper: str, now: float) -> None:
    """Mark changes by which a repository of the workspace loses something: `loses` says what.

    `now` is the time in seconds since the epoch, by which lines of reflogs expire.
    """
    changes = list(changes)
    with contextlib.ExitStack() as stack:
        top = fs.open_directory(root)
        stack.callback(os.close, top)
        folders = repositories(changes, Standing(top))
        if not folders:
            return
        layer = fs.open_directory(upper)
        stack.callback(os.close, layer)
        coming = Coming(top, changes, lambda path: (layer, path))
        for folder in sorted(folders):
            later = _moved(folder, changes)
            for path, why in _losses(folder, later, changes, Standing(top), coming, now):
                _say(changes, path, (folder, later), why)


def repositories(changes: Iterable[dict[str, Any]], files: Standing) -> set[str]:
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


def _moved(folder: str, changes: Iterable[dict[str, Any]]) -> str:
    """Return where a repository will lie: moved with a folder around it, or where it is."""
    for change in changes:
        source = change.get("source")
        if source is None or change["type"] != "directory":
            continue
        if folder == source or folder.startswith(source + "/"):
            return str(change["path"]) + folder[len(source) :]
    return folder


def _losses(
    folder: str,
    later: str,
    changes: list[dict[str, Any]],
    now_there: Standing,
    coming: Coming,
    now: float,
) -> Iterator[tuple[str, str]]:
    """Give what a repository loses: the path in it, and why that matters."""
    if not is_repository(coming, later):
        yield "", "the repository goes away"
        return
    touched = {
        rest: change
        for change in changes
        for place, path in ((folder, change.get("source", change["path"])), (later, change["path"]))
        for rest in [_inside(path, place)]
        if rest is not None
    }
    yield from note_modes(changes, later, _inside)
    try:
        sides = Sides(within(now_there, folder), within(coming, later), now)
    except ValueError as error:
        yield "", f"what it loses cannot be found out: {error}"
        return
    try:
        remains = Remains(sides, touched, coming, _work_tree(later))
        parts = [remains.references, remains.reflogs, remains.indexes, remains.objects]
        if ".git" not in later.split("/"):
            parts.append(remains.arrivals)
        for part in parts:
            try:
                yield from part()
            except _UNREADABLE as error:
                yield "", f"what it loses cannot be found out: {error or type(error).__name__}"
    finally:
        sides.close()


def _inside(path: str, folder: str) -> str | None:
    """Return a path below a folder; None for one elsewhere."""
    if path == folder or not folder:
        return "" if path in (folder, ".") else path
    return path[len(folder) + 1 :] if path.startswith(folder + "/") else None


def _work_tree(folder: str) -> str | None:
    """Return the prefix of the work tree of a repository; None where that is not known."""
    parent, _, name = folder.rpartition("/")
    return (f"{parent}/" if parent else "") if name == ".git" else None


def _say(changes: Iterable[dict[str, Any]], path: str, folders: tuple[str, str], why: str) -> None:
    """Add a loss to the change of its path, or to the first one in its repository."""
    found = None
    for change in changes:
        ends = (change["path"], change.get("source"))
        mine = [_inside(end, one) for end in ends if end is not None for one in folders]
        if path in mine:
            found = change
            break
        if found is None and any(one is not None for one in mine):
            found = change
    if found is not None:
        said = found.setdefault("loses", [])
        if len(said) < MOST_SAID and why not in said:
            said.append(why)
