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
from typing import Any

from . import landing
from .fates import became

NOTES = "/tx/together"


@contextlib.contextmanager
def noted(name: str, paths: Sequence[str], folder: str = NOTES) -> Iterator[None]:
    """Keep a note of `name`, the id that is landing in the workspaces at `paths`, meanwhile.

    Whoever fails in the middle takes back what it did; only a crash leaves the note.
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


def take_back(name: str, roots: Sequence[str], **options: Any) -> list[str]:
    """Undo what `name` did in these workspaces; return the roots where that was done."""
    done = []
    for root in roots:
        if became(root, name) is not None:
            landing.undo(root, name, f"{name}-back", **options)
            done.append(root)
    return done


def settle(roots: Mapping[str, str], folder: str = NOTES) -> list[str]:
    """Take back what a crash left done in some workspaces only; return the names.

    `roots` maps a workspace's path to where its files are seen here. Each workspace's own journal
    must have been recovered.
    """
    settled = []
    for note in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        with open(os.path.join(folder, note)) as file:
            if note.endswith(".new") or not _is_left(file.fileno()):
                continue  # nothing had landed yet, or somebody is at work
            told = json.load(file)
        if not set(told["paths"]) <= set(roots):
            continue
        mine = [roots[path] for path in told["paths"]]
        if not all(became(root, told["name"]) is not None for root in mine):
            take_back(told["name"], mine)
        os.unlink(os.path.join(folder, note))
        settled.append(told["name"])
    return settled


def _is_left(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
