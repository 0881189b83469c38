# SPDX-License-Identifier: Apache-2.0
"""Hidden files that would leave git's index, only because a call could not see them.

Runs in the keeper: standard library only, Python 3.9. Changes nothing but the list of changes.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from .. import fs
from .index_format import parse
from .places import content_of, is_index, read, work_tree


def note_dropped(
    changes: Iterable[dict[str, Any]], root: str, upper: str, hidden: Collection[str]
) -> None:
    """Mark each change of an index that loses entries of files which the cell could not see.

    Where the new index cannot be understood, all hidden files that the old one lists count as lost.
    """
    for change in changes:
        if not is_index(change["path"]) and not is_index(change.get("source", "")):
            continue
        old = change.get("source", change["path"])
        prefix = work_tree(old)
        if prefix is None or change["kind"] == "created":
            continue
        if change["kind"] == "renamed" and is_index(change["path"]) and not change.get("modified"):
            continue
        dropped = _dropped(change, prefix, old, root, upper, hidden)
        if dropped:
            change["drops_hidden"] = [os.fsdecode(os.fsencode(prefix) + one) for one in dropped]


def _dropped(
    change: Mapping[str, Any], prefix: str, old: str, root: str, upper: str, hidden: Collection[str]
) -> list[bytes]:
    covered = {os.fsencode(path) for path in hidden}
    top = fs.open_directory(root)
    try:
        content = content_of(top, old)
    finally:
        os.close(top)
    if not _may_list(content, os.fsencode(prefix), covered):
        return []
    before = parse(content)
    if before is None:
        return []
    listed = {entry.path for entry in before.entries}
    lost = {path for path in listed if _covered(os.fsencode(prefix) + path, covered)}
    if lost and change["kind"] != "deleted" and is_index(change["path"]):
        layer = fs.open_directory(upper)
        try:
            after = read(layer, change["path"])
        finally:
            os.close(layer)
        lost -= {entry.path for entry in after.entries} if after else set()
    return sorted(lost)


def _may_list(content: bytes, prefix: bytes, covered: Collection[bytes]) -> bool:
    """Whether an index can list a covered path, said at once: most list none."""
    if content[7:8] == b"\4":
        return True  # its names are not written out
    names = [path[len(prefix) :] for path in covered if path.startswith(prefix)]
    return _covered(prefix, covered) or any(name in content for name in names)


def _covered(path: bytes, folders: Collection[bytes]) -> bool:
    """Whether a path is one of `folders`, or lies in one."""
    parts = path.split(b"/")
    return any(b"/".join(parts[: n + 1]) in folders for n in range(len(parts)))
