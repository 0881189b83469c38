# SPDX-License-Identifier: Apache-2.0
"""The layers that wait for a person, and which parts of each have landed already.

    HELD/CALL/N         the layer over workspace N
    HELD/CALL/N.since   when its transaction opened, in ns
    HELD/CALL/N.done    what of it has landed: `+path` for what stays, `-path` for what goes

What is about to land is put down before, with the id under which it lands, so that after a crash
the workspace's own record tells whether it did.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable
from typing import Any

from .choosing import part
from .steps import Walk

Landed = Callable[[str], bool]
MOST_ENTRIES = 100_000
"""Entries of one layer that are counted for its size."""


class Waiting:
    """The folder with held layers."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def there(self, call: str) -> bool:
        """Whether a call's layers are there."""
        return os.path.isdir(f"{self._folder}/{call}")

    def list(self) -> list[dict[str, Any]]:
        """Return name, time (seconds since 1970) and bytes of each held transaction."""
        return [
            {
                "name": name,
                "time": os.stat(f"{self._folder}/{name}").st_mtime,
                "bytes": _size(f"{self._folder}/{name}"),
            }
            for name in sorted(os.listdir(self._folder))
        ]

    def layer(self, call: str, index: int) -> tuple[str, int] | None:
        """Return the path of a held layer and when its transaction opened; None for no layer."""
        layer = f"{self._folder}/{call}/{index}"
        if not os.path.isdir(layer):
            return None
        with open(f"{layer}.since") as file:
            return f"{layer}/upper", int(file.read())

    def rest(self, call: str, index: int, walked: Walk, landed: Landed) -> Walk:
        """Return what of a held layer has not landed yet; `landed` says whether an id has."""
        done = self._done(call, index, landed)
        if not done:
            return walked
        left = {n for n, change in enumerate(walked.changes) if _marks(change)[0] not in done}
        return part(walked, left, lambda path: f"+{path}" not in done)

    def begin(
        self, call: str, index: int, name: str, changes: Iterable[dict[str, Any]], landed: Landed
    ) -> None:
        """Put down what is about to land as `name`, on disk when this returns."""
        marks = sorted({mark for change in changes for mark in _marks(change)})
        done = sorted(self._done(call, index, landed))
        self._write(call, index, {"done": done, "next": {"name": name, "marks": marks}})

    def _write(self, call: str, index: int, what: dict[str, Any]) -> None:
        path = f"{self._folder}/{call}/{index}.done"
        with open(path + ".new", "w") as file:
            json.dump(what, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".new", path)

    def remove(self, call: str) -> bool:
        """Remove a call's layers; return whether there were any."""
        there = self.there(call)
        shutil.rmtree(f"{self._folder}/{call}", ignore_errors=True)
        return there

    def settle(self, call: str, index: int, landed: Landed) -> None:
        """Put down for good whether what was about to land has: its record may go one day."""
        done = self._done(call, index, landed)
        if done:
            self._write(call, index, {"done": sorted(done)})

    def _done(self, call: str, index: int, landed: Landed) -> set[str]:
        try:
            with open(f"{self._folder}/{call}/{index}.done") as file:
                what = json.load(file)
        except FileNotFoundError:
            return set()
        done = set(what["done"])
        going = what.get("next")
        if going is not None and landed(going["name"]):
            done.update(going["marks"])
        return done


def _marks(change: dict[str, Any]) -> list[str]:
    marks = [("-" if change["kind"] == "deleted" else "+") + change["path"]]
    return [*marks, "-" + change["source"]] if "source" in change else marks


def _size(folder: str) -> int:
    total = seen = 0
    waiting = [folder]
    while waiting and seen < MOST_ENTRIES:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                seen += 1
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    total += entry.stat(follow_symlinks=False).st_size
    return total
