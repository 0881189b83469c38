# SPDX-License-Identifier: Apache-2.0
"""Objects of git that an undo would take away though something reaches them by now.

    needed(root, pieces, now) -> list[str]    their places, which are in the way of the undo

A call's objects go when it is undone. Where a later call, or a person, built upon them (a merge, a
branch, a stash, something staged), the undo would break that: it is refused.

An object cannot name one that came after it, so that only what is not older than the objects that
go is looked into.

Runs in the keeper: standard library only, Python 3.9. Reads only.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence

from ..git.files import Coming, Files, OnDisk, is_repository, within
from ..git.packs import Odd
from ..journal.format import Op
from ..overlay.sides import Piece
from .lost import repositories
from .reach import reached
from .remains import Remains
from .sides import Side, Sides, indexes, staged

_SLACK_NS = 2 * 10**9
"""By how much the times of files that were placed together may differ."""
_UNREADABLE = (Odd, OSError, struct.error, zlib.error, ValueError, IndexError, RecursionError)


def concerns(ops: Iterable[Op]) -> bool:
    """Whether operations may touch the objects of a repository."""
    return any(
        "objects" in path.split("/")
        for op in ops
        for path in (op.path, *(f"{op.path}/{name}" for name in op.inner or ()))
    )


def needed(root: int, pieces: Sequence[Piece], now: float) -> list[str]:
    """Return the places of objects that a run takes away and that are reached after it.

    Where that cannot be found out, the repository.
    """
    changes = [piece.change for piece in pieces]
    looks = {piece.change["path"]: piece.new for piece in pieces}

    def place(path: str) -> tuple[int, str] | None:
        side = looks[path]()
        if side is None or side.directory is None:
            return None
        return side.directory, side.path

    standing, coming = OnDisk(root), Coming(root, changes, place)
    found = []
    for folder in sorted(repositories(changes, standing)):
        if not is_repository(coming, folder):
            continue  # all of it goes, and nothing came to it later
        prefix = folder + "/" if folder else ""
        touched = {
            path[len(prefix) :]: change
            for change in changes
            for path in (change["path"], change.get("source"))
            if path is not None and path.startswith(prefix)
        }
        try:
            sides = Sides(within(standing, folder), within(coming, folder), now)
        except ValueError:
            found.append(folder or ".")
            continue
        try:
            places = Remains(sides, touched, coming, None).removed()
            found += [prefix + path for path in _reached(sides, places)]
        except _UNREADABLE:
            found.append(folder or ".")
        finally:
            sides.close()
    return found


def _reached(sides: Sides, places: dict[bytes, str]) -> list[str]:
    if not places:
        return []
    new = sides.new
    starts = sides.named(new) | sides.logged(new) | {*new.refs.noted()}
    for path in indexes(new):
        entries = staged(new.files, path)
        if entries is None:
            raise Odd(f"`{path}` cannot be read")
        starts |= {entry.oid for entry in entries if entry.oid in places}
    since = min(_time(sides.old.files, path) for path in places.values()) - _SLACK_NS
    age = _Age(new, since)
    for oid in reached(new.objects, starts, age.is_young):
        if oid in places:
            return [places[oid]]
    return []


class _Age:
    """When objects came, by the files that hold them."""

    def __init__(self, side: Side, since: int) -> None:
        self._side = side
        self._since = since
        packs = ((pack, f"objects/{pack.path}.pack") for pack in side.objects.packs())
        self._packs = [(pack, _time(side.files, path)) for pack, path in packs]

    def is_young(self, oid: bytes) -> bool:
        """Whether an object is not known to be older than what goes."""
        name = oid.hex()
        path = f"objects/{name[:2]}/{name[2:]}"
        times = [time for pack, time in self._packs if pack.find(oid)]
        if self._side.files.status(path) is not None:
            times.append(_time(self._side.files, path))
        return not times or min(times) >= self._since


def _time(files: Files, path: str) -> int:
    status = files.status(path)
    return 0 if status is None else status.st_ctime_ns
