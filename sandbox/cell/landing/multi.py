# SPDX-License-Identifier: Apache-2.0
"""Landings and undos over several workspaces: in all of them or in none, even after a crash.

Each workspace has a journal of its own. Before the first of several is changed, a note in the
keepers' volume says which belong together; after a crash the next keeper that has all of them takes
back what had come to its end in some only.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence

from ..journal.planning import Fault
from ..overlay.layer import LandingError
from . import land as landing
from .fates import became

NOTES = "/tx/together"
STANDS = ".stands"
"""After the name of a note: where what it told of stands alone."""
NAMED = 10
"""Paths that one message names."""


@contextlib.contextmanager
def noted(name: str, paths: Sequence[str], folder: str = NOTES) -> Iterator[None]:
    """Keep a note of `name`, the id that is landing in the workspaces at `paths`, meanwhile.

    Whoever fails in the middle takes back what it did (see `whole`); only a crash leaves the note.
    """
    if len(paths) < 2:
        yield
        return
    os.makedirs(folder, exist_ok=True)
    note = os.path.join(folder, name)
    with open(note + ".new", "w") as file:
        json.dump({"name": name, "paths": list(paths)}, file)
        file.flush()
        os.fsync(file.fileno())
        fcntl.flock(file, fcntl.LOCK_EX)  # goes with this process: says that it is at work
        os.rename(note + ".new", note)
        try:
            yield
        finally:
            os.unlink(note)


class Parted(LandingError):
    """What was to be done in all of several workspaces stands in some of them only."""

    def __init__(self, why: str, stands: Mapping[str, str]) -> None:
        said = "; ".join(
            f"in `{path}` it is done and stays so: {how}" for path, how in stands.items()
        )
        super().__init__(f"{why}; {said}")
        self.stands = dict(stands)
        """Paths of workspaces, and why it could not be taken back there."""


@contextlib.contextmanager
def whole(
    name: str, roots: Mapping[str, str], fault: Fault | None = None, folder: str = NOTES
) -> Iterator[list[str]]:
    """Do `name` in all of these workspaces: an error takes back what was done in some.

    `roots` maps a workspace's path to where its files are seen here. Gives a list to which the path
    of each is added as it is done. Raises Parted, which says where it stands, where it could not be
    taken back; nothing of it is lost there.
    """
    done: list[str] = []
    with noted(name, list(roots), folder):
        try:
            yield done
        except (LandingError, OSError, RecursionError) as error:
            stands = take_back(name, {path: roots[path] for path in done}, fault)
            if stands:
                raise Parted(str(error), stands) from None
            raise


def take_back(name: str, roots: Mapping[str, str], fault: Fault | None = None) -> dict[str, str]:
    """Undo what `name` did in these workspaces; return where it stands all the same, and why."""
    stands = {}
    for path, root in roots.items():
        try:
            if became(root, name) is None:
                continue
            result = landing.retract(root, name, fault=fault)
            if result.conflicts:
                named = ", ".join(f"`{conflict}`" for conflict in result.conflicts[:NAMED])
                stands[path] = f"{named} changed since"
        except (LandingError, OSError, RecursionError) as error:
            stands[path] = str(error)
    return stands


def settle(roots: Mapping[str, str], folder: str = NOTES) -> list[str]:
    """Take back what a crash left done in some workspaces only; return the names.

    `roots` maps a workspace's path to where its files are seen here. Each workspace's own journal
    must have been recovered. What cannot be taken back is put down, see `standing`.
    """
    settled = []
    for note in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        if "." in note:
            continue  # nothing had landed yet, or it was settled before
        told = _left(os.path.join(folder, note), roots)
        if told is not None:
            settled.append(told)
    return settled


def _left(note: str, roots: Mapping[str, str]) -> str | None:
    """Settle what one note tells; return its name if that was left to do here."""
    try:
        file = open(note)  # noqa: SIM115
    except FileNotFoundError:  # another keeper was faster
        return None
    with file:
        if not _is_left(file.fileno()) or not os.fstat(file.fileno()).st_nlink:
            return None  # somebody is at work, or was until now
        told = json.load(file)
        name, paths = told["name"], told["paths"]
        if not set(paths) <= set(roots):
            return None
        mine = {path: roots[path] for path in paths}
        if not all(became(root, name) is not None for root in mine.values()):
            stands = take_back(name, mine)
            if stands:
                with open(note + ".new", "w") as kept:
                    json.dump(stands, kept)
                os.rename(note + ".new", note + STANDS)
        os.unlink(note)
        return str(name)


def standing(name: str, folder: str = NOTES) -> dict[str, str]:
    """Return where alone `name` stands since a crash: paths of workspaces, and why it does."""
    try:
        with open(os.path.join(folder, name + STANDS)) as file:
            return dict(json.load(file))
    except FileNotFoundError:
        return {}


def _is_left(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
