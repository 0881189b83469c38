# SPDX-License-Identifier: Apache-2.0
"""What a walk hands to a landing: the list of changes and the steps that make them real.

Runs in the keeper: standard library only, Python 3.9. Only data lives here.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import Any, NamedTuple

from .layer import Node

Change = dict[str, Any]
"""The fields of `policy.model.Change`, defaults left out except `conflict`; fit for JSON."""
Attributes = list[Any]
"""Mode, uid, gid, mtime in nanoseconds or None, extended attributes in base64 or None."""

_TYPES = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symlink",
    stat.S_IFSOCK: "channel",
    stat.S_IFIFO: "channel",
}


def type_name(mode: int) -> str:
    """Return the value of `policy.model.FileType` for a mode."""
    return _TYPES.get(stat.S_IFMT(mode), "special")


def never_lands(mode: int) -> bool:
    """Return whether an object of this mode is left out of what lands: no file, folder or link."""
    return type_name(mode) in ("channel", "special")


def landed_mode(status: os.stat_result) -> int:
    """Return the permission bits without those that never land."""
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISDIR(status.st_mode):
        return mode & ~stat.S_ISUID  # set-group-id on a directory only passes the group on
    return mode & ~(stat.S_ISUID | stat.S_ISGID)


class Take(NamedTuple):
    """Move a path of the workspace out of the way: it was deleted, replaced or moved."""

    path: str
    identity: list[int]
    inner: dict[str, list[int]] | None
    """Identities of what a deleted directory holds; None for a moved one: it keeps all it holds."""
    moved: bool
    carried: dict[str, list[int]] | None = None
    """Identities of what a moved directory takes along, as it was listed: nothing else may go."""


class Put(NamedTuple):
    """Place something where nothing is: an object of the layer, or a moved directory."""

    path: str
    node: Node
    source: str | None
    """For a moved directory, its path before."""


class Swap(NamedTuple):
    """Replace the content of a file or link."""

    path: str
    node: Node
    identity: list[int]


class Meta(NamedTuple):
    """Set mode, owner, attributes or mtime in place."""

    path: str
    identity: list[int]
    before: Attributes
    after: Attributes


class Walk:
    """What a transaction changed, and the steps that land it."""

    def __init__(self, upper: str, owners: Mapping[int, int]) -> None:
        self.upper = upper
        self.owners = owners
        self.changes: list[Change] = []
        self.takes: list[Take] = []
        self.puts: list[Put] = []
        self.swaps: list[Swap] = []
        self.metas: list[Meta] = []
        self.since: int | None = None
        """When the transaction opened, a ctime in ns of the workspace's file system."""
        self.origins: dict[str, str] = {}
        """For files that were copied up from one that now bears another path, that path."""
        self.own: set[str] = set()
        """Paths that parts of this layer, landed before, took away."""
        self.left_out: list[str] = []
        """Device nodes, sockets and FIFOs, and files whose set-id bits are dropped."""

    @property
    def conflicts(self) -> list[str]:
        """Paths that changed in the real workspace while the call ran."""
        return [change["path"] for change in self.changes if change["conflict"]]

    @property
    def empty(self) -> bool:
        """Whether there is nothing at all to land (not even an mtime)."""
        return not (self.takes or self.puts or self.swaps or self.metas)
