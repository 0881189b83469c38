# SPDX-License-Identifier: Apache-2.0
"""One workspace as the keeper sees it: what lies below, what is hidden, what is pinned.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from .. import mounts
from ..overlay import masks, newcomers
from . import land as landing

MASKS, LOWER = "/mask", "/lower"


class Space:
    """One workspace as the keeper sees it."""

    def __init__(self, index: int, path: str, request: dict[str, Any]) -> None:
        self.index = index
        self.path = path
        self.root = f"{LOWER}/{index}"
        self.owner = {int(k): int(v) for k, v in request["owners"].items()}
        self.back = {inside: real for real, inside in self.owner.items()}
        """Real owner -> owner in the cell; empty where they are the same."""
        self.uid, self.gid = request["uid"], request["gid"]
        self.patterns = masks.Patterns(**request["patterns"])
        self.mask = f"{MASKS}/{index}.0"
        self.hidden: list[str] = []
        self.pinned: list[str] = []
        self._rounds = 0
        self._newcomers = newcomers.Newcomers(self.root)
        self.lower = self.root
        if self.owner:
            tree = mounts.clone(mounts.AT_FDCWD, self.root)
            mounts.set_attributes(tree, 0, mounts.owner_map(self.owner))
            self.lower = f"/proc/self/fd/{tree}"
        self.look()

    def look(self) -> None:
        """Look up what to hide and to pin; make a new mask layer if that changed."""
        folders: list[str] = []
        since = time.time_ns()
        hidden, self.pinned = masks.find(self.root, self.patterns, folders=folders)
        self._newcomers.watch(folders, since)
        self._hide(hidden)

    def notice(self) -> None:
        """Hide what has appeared since the last look, before a call sees it."""
        arrived, missed = self._newcomers.take()
        if missed:
            self.look()
            return
        hidden = list(self.hidden)
        for path, is_folder in arrived:
            if self.patterns.hides(path):
                hidden.append(path)
            elif is_folder and not masks.skipped(path):
                folders: list[str] = []
                since = time.time_ns()
                self._newcomers.watch([path], since)
                hidden += masks.find(self.root, self.patterns, path, folders)[0]
                self._newcomers.watch(folders, since)
        if len(hidden) > len(self.hidden):
            self._hide(masks.topmost(hidden))

    def spare_kernel(self) -> None:
        """Notice what appears without the kernel's help, which others need."""
        self._newcomers.release()

    def _hide(self, hidden: list[str]) -> None:
        if hidden == self.hidden:
            return
        self._rounds += 1
        self.mask = f"{MASKS}/{self.index}.{self._rounds}"
        masks.build(self.mask, self.root, hidden, self.owner)
        self.hidden = hidden

    def note(self, paths: list[str]) -> None:
        """Look again if a landing touched a name that is hidden or pinned."""
        if any(self.patterns.hides(path) or self.patterns.pins(path) for path in paths):
            self.look()

    def stamp(self) -> int:
        """Return the time of the workspace's own file system, in ns (a fresh ctime)."""
        return landing.stamp(self.root)


class Prepared(NamedTuple):
    """A detached mount that waits for a call."""

    layer: str
    """Its private layer's folder; empty for a read-only one."""
    mask: str
    mount: int
