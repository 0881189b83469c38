# SPDX-License-Identifier: Apache-2.0
"""Layers of cells that are gone: each keeper locks its own folder, and removes unlocked ones.

The lock goes with the process that holds it, however that ends, so no age and no list of names
has to say which folders are in use. Several keepers share one volume.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator

from .. import fs
from ..journal.removal import remove


def occupy(live: str, name: str) -> int:
    """Make the folder of a cell's layers and lock it; return the descriptor that holds the lock."""
    path = os.path.join(live, name)
    while True:
        os.makedirs(path, exist_ok=True)
        try:
            descriptor = fs.open_directory(path)
        except FileNotFoundError:  # another keeper took it for a leftover
            continue
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _stands(descriptor, path):
            return descriptor
        os.close(descriptor)


def sweep(live: str) -> list[str]:
    """Remove the folders that no keeper holds; return their names.

    Each is held while it is removed: of several keepers that start at once, one removes it. What
    cannot be removed stays, since it must keep no keeper from starting.
    """
    os.makedirs(live, exist_ok=True)
    gone = []
    parent = fs.open_directory(live)
    try:
        for name in sorted(os.listdir(parent)):
            with contextlib.suppress(OSError), _held(parent, name) as free:
                if free:
                    remove(parent, name)
                    gone.append(name)
    finally:
        os.close(parent)
    return gone


@contextlib.contextmanager
def _held(parent: int, name: str) -> Iterator[bool]:
    """Hold a folder if nobody does; say whether it may be removed."""
    try:
        descriptor = fs.open_directory(name, parent)
    except FileNotFoundError:
        yield False
        return
    except OSError:  # no folder: nothing that a keeper made
        yield True
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


def _stands(descriptor: int, path: str) -> bool:
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        return False
    ours = os.fstat(descriptor)
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)
