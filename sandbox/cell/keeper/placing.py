# SPDX-License-Identifier: Apache-2.0
"""Mounts the views of transactions, has their layers watched, and removes those that are over.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import os
from typing import Any

from .. import mounts
from ..journal import removal
from ..landing.spaces import Prepared, Space
from ..observer.client import Watch
from . import private
from .placer import Placer
from .transaction import Transaction
from .views import Nowhere, Views
from .workplace import Workplace

AGAIN_SECONDS = 1.0
"""An observer that was lost is replaced ahead of time if it had lived this long."""
PIECE_SECONDS = 0.02
"""For which old layers are removed at a time: as long as a call may have to wait for it."""
_FLAGS = mounts.NOSUID | mounts.NODEV


class Placing:
    """The mounts of a keeper's transactions, some of them made ahead of time."""

    def __init__(self, work: Workplace) -> None:
        self._work = work
        self.watch = Watch()
        self.trash = removal.Trash()
        """Layers of transactions that are over, removed while nothing is asked."""
        self._count = 0
        self._ready: dict[tuple[int, str], Prepared] = {}
        self._patterns: dict[str, list[str]] = {}
        self._placer: Placer | Views | Nowhere | None = None
        self._ahead = False
        """Whether the next views are mounted while the keeper is idle."""
        self._layers = private.LayerMounts()

    def watch_for(self, patterns: dict[str, list[str]]) -> None:
        """Have the observer look for paths like these in the layers of calls."""
        self._patterns = patterns
        self.watch.rules(patterns)

    def enter(self, place: str, home: dict[str, Any]) -> None:
        """Place views in the cell, in a volume (`views`) or nowhere from now on."""
        spaces = self._work.spaces
        if place == "cell":
            self._ahead = True
            targets = [space.path for space in spaces]
            self._placer = Placer(targets, (home["reading"], home["files"]))
        else:
            self._placer = Views(len(spaces)) if place == "views" else Nowhere()

    def place_all(self, transaction: Transaction) -> None:
        """Place a view of every workspace. Raises OSError; then none stands."""
        try:
            for space in self._work.spaces:
                self._place(space, transaction)
        except OSError:
            self.detach(len(transaction.layers))
            self.discard_layers(transaction)
            raise

    def _place(self, space: Space, transaction: Transaction) -> None:
        assert self._placer is not None
        access = "write" if transaction.writes else "read"
        if transaction.writes:
            transaction.since.append(space.stamp())
        ready = self._ready.pop((space.index, access), None)
        if ready is not None and ready.mask != space.mask:
            self._throw(ready)
            ready = None
        if ready is None:
            ready = self._make(space, access)
        try:
            if ready.layer:
                self.watch.ensure(ready.layer)
            self._placer.place(space.index, ready.mount, space.pinned if transaction.writes else [])
        except OSError:
            if ready.layer:
                self._discard(ready.layer)
            raise
        finally:
            os.close(ready.mount)
        transaction.layers.append(ready.layer)

    def detach(self, count: int) -> None:
        """Take the first views away."""
        assert self._placer is not None
        for space in self._work.spaces[:count]:
            self._placer.remove(space.index)

    def _make(self, space: Space, access: str) -> Prepared:
        """Return a new detached mount over a workspace, with a private layer if it may write."""
        lower = f"{space.mask}:{space.lower}"
        if access == "read":
            options = {"lowerdir": lower, **private.OPTIONS}
            return Prepared("", space.mask, mounts.overlay(options, _FLAGS | mounts.RDONLY))
        self._count += 1
        layer = f"{self._work.cell}/{self._count}.{space.index}"
        upper, work = f"{layer}/upper", f"{layer}/work"
        os.mkdir(layer, 0o700)
        os.mkdir(upper)
        os.mkdir(work)
        info = os.stat(space.root)
        os.chown(upper, space.uid, space.gid)
        os.chmod(upper, info.st_mode & 0o7777)
        self.watch.begin(layer, space.root)
        try:
            mount = self._layers.mount(lower, upper, work, _FLAGS)
            return Prepared(layer, space.mask, mount)
        except OSError:
            self._discard(layer)
            raise

    def prepare(self) -> bool:
        """Mount the next views ahead of time and remove old layers. Called while idle.

        Return whether there is more to remove: it is done in pieces, so that no call waits for it.
        """
        for space in self._work.spaces if self._ahead else ():
            for access in ("read", "write"):
                key = (space.index, access)
                if key not in self._ready:
                    try:
                        self._ready[key] = self._make(space, access)
                    except OSError:  # said when a transaction opens
                        break
        return self.trash.work(self.watch.knows, PIECE_SECONDS)

    def _throw(self, ready: Prepared) -> None:
        os.close(ready.mount)
        if ready.layer:
            self._discard(ready.layer)

    def _discard(self, layer: str) -> None:
        """Have a layer removed when nobody watches it any more."""
        self.watch.forget(layer)
        self.trash.add(layer)

    def release(self, transaction: Transaction) -> None:
        """Have the layers of a transaction watched no more."""
        for layer in transaction.layers:
            if layer:
                self.watch.forget(layer)

    def tell_seen(self, transaction: Transaction) -> dict[str, Any]:
        """Return what the observer saw of a transaction that is closed; nothing is no news."""
        seen = [self.watch.settle(layer) for layer in transaction.layers]
        alarm = next((watched.alarm for watched in seen if watched.alarm is not None), None)
        news = {
            "alarm": alarm,
            "lost": transaction.unwatched or self.watch.lost,
            "behind": any(watched.behind for watched in seen),
            "lossy": any(watched.lossy for watched in seen),
        }
        return {"watch": {k: v for k, v in news.items() if v}} if any(news.values()) else {}

    def renew_watch(self, *, used: bool) -> None:
        """Start a new observer where the last one is lost. What is prepared was watched by it."""
        self.watch.poll()
        if not self.watch.lost or used:
            return
        self.watch.close()
        if self.watch.lacks:
            for space in self._work.spaces:
                space.spare_kernel()
        self.watch = Watch(self._patterns)
        for key in [key for key, ready in self._ready.items() if ready.layer]:
            self._throw(self._ready.pop(key))

    def discard_layers(self, transaction: Transaction) -> None:
        """Have the layers of a transaction removed."""
        for layer in transaction.layers:
            if layer:
                self._discard(layer)
