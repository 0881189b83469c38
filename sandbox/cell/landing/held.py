# SPDX-License-Identifier: Apache-2.0
"""The layers that wait for a person, and which parts of each have landed already.

    HELD/CALL/N         the layer over workspace N
    HELD/CALL/N.since   when its transaction opened, in ns
    HELD/CALL/N.done    what of it has landed, and what was no conflict then, as JSON:
                        `+path` for what stays, `-path` for what goes; and the path that files
                        had which the layer keeps under another one

What is about to land is put down before, with the id under which it lands, so that after a crash
the workspace's own record tells whether it did.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from ..journal import removal
from ..overlay.selection import part
from ..overlay.steps import Change, Walk

Landed = Callable[[str], bool]
MOST_ENTRIES = 100_000
"""Entries of one layer that are counted for its size."""


class Waiting:
    """The folder with held layers, and one beside it where nobody keeps what lies there."""

    def __init__(self, folder: str, beside: str) -> None:
        self._folder = folder
        self._beside = beside

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

    def rest(self, call: str, index: int, walked: Walk, since: int, landed: Landed) -> Walk:
        """Return what of a held layer has not landed yet; `landed` says whether an id has.

        `since` is when its transaction opened. A folder in which a part has landed has changed
        since then, but what it held and lost before is no conflict for that.
        """
        done, clean, origins = self._done(call, index, landed)
        if not done:
            return walked
        walked.own = {mark[1:] for mark in done if mark.startswith("-")}
        moved = {
            change["path"]: change["source"]
            for change in walked.changes
            if "source" in change and _mark(change) in done
        }
        left = {
            number
            for number, change in enumerate(walked.changes)
            if _mark(change) not in done and not _came_later(change, moved)
        }
        rest = part(walked, left, lambda path: f"+{path}" not in done)
        times = {take.path: take.identity for take in rest.takes}
        for take in rest.takes:
            for name, held in (take.inner or {}).items():
                times[f"{take.path}/{name}"] = held
        for change in rest.changes:
            identity = times.get(change["path"]) if _mark(change) in clean else None
            if change["kind"] == "deleted" and identity is not None and _old(identity, since):
                change["conflict"] = False
            # What it was made of is gone, since the part that took it away has landed.
            if change["kind"] == "created" and _mark(change) in clean:
                origin = origins.get(change["path"])
                if origin is not None and {f"-{origin}", f"+{origin}"} & done:
                    change["conflict"] = False
        return rest

    def begin(
        self, call: str, index: int, name: str, held: Walk, chosen: Walk, landed: Landed
    ) -> None:
        """Put down what is about to land of what is held as `name`; on disk when this returns."""
        done, _, origins = self._done(call, index, landed)
        self._write(
            call,
            index,
            {
                "done": sorted(done),
                "clean": [_mark(change) for change in held.changes if not change["conflict"]],
                "origins": {**origins, **held.origins},
                "next": {"name": name, "marks": sorted(_marks(chosen))},
            },
        )

    def _write(self, call: str, index: int, what: dict[str, Any]) -> None:
        path = f"{self._folder}/{call}/{index}.done"
        with open(path + ".new", "w") as file:
            json.dump(what, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".new", path)

    def remove(self, call: str) -> bool:
        """Remove a call's layers; return whether there were any. Raises OSError.

        They go at once, before they are emptied: a crash leaves all of them or none, since half of
        a layer would be another change than the one that was judged.
        """
        gone = f"{call}.gone"  # no cell's folder has such a name
        try:
            removal.remove(self._beside, gone)
            os.rename(f"{self._folder}/{call}", f"{self._beside}/{gone}")
        except FileNotFoundError:
            return False
        with contextlib.suppress(OSError):  # else the next keeper that starts removes it
            removal.remove(self._beside, gone)
        return True

    def settle(self, call: str, index: int, landed: Landed) -> None:
        """Put down for good whether what was about to land has: its record may go one day."""
        done, clean, origins = self._done(call, index, landed)
        if done:
            what = {"done": sorted(done), "clean": sorted(clean), "origins": origins}
            self._write(call, index, what)

    def _done(
        self, call: str, index: int, landed: Landed
    ) -> tuple[set[str], set[str], dict[str, str]]:
        """Return what has landed; what was no conflict when the last part landed; origins."""
        try:
            with open(f"{self._folder}/{call}/{index}.done") as file:
                what = json.load(file)
        except FileNotFoundError:
            return set(), set(), {}
        done = set(what["done"])
        going = what.get("next")
        if going is not None and landed(going["name"]):
            done.update(going["marks"])
        return done, set(what["clean"]), what.get("origins", {})


def _old(identity: list[int], since: int) -> bool:
    """Whether an object is a folder, or a file whose ctime is known to be earlier than `since`."""
    return identity[1] < 0 or 0 < identity[3] < since


def _came_later(change: Change, moved: Mapping[str, str]) -> bool:
    """Whether a change is said only because a folder that has moved is read at its old place, where
    something else stands since then. `moved` gives old paths by new ones."""
    path, source = change["path"], change.get("source")
    if source is None:
        return False
    parts = path.split("/")
    above = ("/".join(parts[:count]) for count in range(1, len(parts)))
    return any(one in moved and source == moved[one] + path[len(one) :] for one in above)


def _mark(change: Change) -> str:
    return ("-" if change["kind"] == "deleted" else "+") + str(change["path"])


def _marks(walked: Walk) -> set[str]:
    """Return the marks of all that a walk lands, times that are no change among it.

    What stands at a path since then is never a deletion of this layer's.
    """
    marks = {_mark(change) for change in walked.changes}
    marks |= {"-" + change["path"] for change in walked.changes}
    marks |= {"-" + change["source"] for change in walked.changes if "source" in change}
    return marks | {"+" + (meta.path or ".") for meta in walked.metas}


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
