# SPDX-License-Identifier: Apache-2.0
"""Which changed paths decide what git ignores or tracks, and how such files are read. No links."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from policy.gate2.git.changed_settings import Remote
from policy.model import FileType, Kind
from sandbox.cell import fs
from sandbox.workspaces.remote_notes import new_remotes

RULES = ".gitignore"
EXCLUDE = "info/exclude"
MOST_RULES = 1 << 20
"""Bytes of a file of rules; a longer one ignores nothing."""
_KEPT_CONTENT = (Kind.META.value,)


@dataclass(frozen=True, slots=True)
class Touched:
    """What a transaction changes, in one workspace, of what git goes by."""

    written: tuple[str, ...] = ()
    """Files of rules that it leaves."""
    gone: tuple[str, ...] = ()
    """Files of rules that it takes away."""
    indexes: tuple[str, ...] = ()
    """Indexes that it replaces or takes away."""
    remotes: tuple[Remote, ...] = ()
    """Remotes that it adds."""

    def __bool__(self) -> bool:
        return bool(self.written or self.gone or self.indexes or self.remotes)


def touched(items: Sequence[Mapping[str, Any]]) -> Touched:
    """Return what a keeper's raw changes touch."""
    written: list[str] = []
    gone: list[str] = []
    indexes: list[str] = []
    for item in items:
        path, source, kind = str(item["path"]), item.get("source"), item["kind"]
        for end in (path, source):
            if end is not None and is_index(end):
                indexes.append(end)
        if source is not None and is_rules(source):
            gone.append(source)
        if not is_rules(path) or kind in _KEPT_CONTENT:
            continue
        there = kind != Kind.DELETED.value and item["type"] == FileType.FILE.value
        (written if there else gone).append(path)
    return Touched(tuple(written), tuple(gone), tuple(indexes), new_remotes(items))


def is_rules(path: str) -> bool:
    """Whether git takes ignore rules from a file of a workspace."""
    return (
        path == RULES
        or path.endswith("/" + RULES)
        or (path.endswith("/" + EXCLUDE) and ".git" in path.split("/"))
    )


def is_index(path: str) -> bool:
    """Whether a path is the index of a repository, or of one of its work trees or submodules."""
    return path.endswith("/index") and ".git" in path.split("/")[:-1]


def read(root: int, path: str, most: int = MOST_RULES) -> bytes | None:
    """Return a file's content; None where it cannot be read, is no file, or is longer.

    INVARIANT: no link is followed, as git follows none to its rules.
    """
    try:
        with fs.reading(fs.open_beneath(root, path, fs.READ)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > most:
                return None
            content = file.read(most + 1)
    except OSError:
        return None
    return content if len(content) <= most else None
