# SPDX-License-Identifier: Apache-2.0
"""Files of a new work tree or clone that are those beside it: the host obeys no more than before.

A check-out that a call makes (a folder with a `.git` of its own) brings along what the repository
holds: workflows, settings of editors, hooks' scripts. Where such a file stands in the folder around
it, at the same path and with the same content and mode, and this call did not change that one, then
whoever made that one decided already.

Runs in the keeper: standard library only, Python 3.9. Changes nothing but the list of changes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable

from .. import fs
from ..git.files import OnDisk, content
from ..overlay.steps import Change

MOST_BYTES = 1 << 20
"""Of a file that is compared."""
_EXECUTE = 0o111


def note_copies(
    changes: Iterable[Change], root: str, upper: str, counts: Callable[[str], bool]
) -> None:
    """Say `copy_of`, the file beside it, of each file of a new check-out that is the same."""
    changes = list(changes)
    tops = _check_outs(changes)
    if not tops:
        return
    touched = {path for one in changes for path in (one["path"], one.get("source")) if path}
    top, layer = fs.open_directory(root), fs.open_directory(upper)
    try:
        before, after = OnDisk(top), OnDisk(layer)
        for change in changes:
            if change["kind"] != "created" or change["type"] != "file":
                continue
            path = change["path"]
            if not counts(path) and "after_text" not in change:
                continue
            for folder in _above(path):
                if folder not in tops:
                    continue
                beside = _beside(folder, path[len(folder) + 1 :], before, touched)
                if beside is not None and _same(before, beside, after, path):
                    change["copy_of"] = beside
                    break
    finally:
        os.close(layer)
        os.close(top)


def _check_outs(changes: Iterable[Change]) -> set[str]:
    """Return the folders that the changes make, with a `.git` in them."""
    made = {c["path"] for c in changes if c["kind"] == "created" and c["type"] == "directory"}
    marks = (c["path"] for c in changes if c["kind"] == "created" and c["type"] != "symlink")
    found = {path[: -len("/.git")] for path in marks if path.endswith("/.git")}
    return found & made


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _beside(folder: str, rest: str, before: OnDisk, touched: set[str]) -> str | None:
    """Return the file at the same path in the nearest folder around a check-out that has one."""
    if ".git" in rest.split("/"):
        return None
    around = folder.rpartition("/")[0]
    while True:
        path = f"{around}/{rest}" if around else rest
        status = before.status(path)
        if status is not None:
            ends = {path, *_above(path)}
            return path if stat.S_ISREG(status.st_mode) and not ends & touched else None
        if not around:
            return None
        around = around.rpartition("/")[0]


def _same(before: OnDisk, one: str, after: OnDisk, other: str) -> bool:
    first, second = before.status(one), after.status(other)
    if first is None or second is None:
        return False
    if bool(first.st_mode & _EXECUTE) != bool(second.st_mode & _EXECUTE):
        return False
    text = content(before, one, MOST_BYTES)
    return text is not None and text == content(after, other, MOST_BYTES)
