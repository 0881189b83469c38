# SPDX-License-Identifier: Apache-2.0
"""Layers of cells that are gone: each keeper locks its own folder, and removes unlocked ones.

The lock goes with the process that holds it, however that ends, so no age and no list of names
has to say which folders are in use. Several keepers share one volume.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import fcntl
import os

from . import fs
from .removal import remove


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
    """Remove the folders that no keeper holds; return their names."""
    os.makedirs(live, exist_ok=True)
    gone = []
    parent = fs.open_directory(live)
    try:
        for name in sorted(os.listdir(parent)):
            if _is_free(parent, name):
                remove(parent, name)
                gone.append(name)
    finally:
        os.close(parent)
    return gone


def _is_free(parent: int, name: str) -> bool:
    try:
        descriptor = fs.open_directory(name, parent)
    except FileNotFoundError:
        return False
    except OSError:  # no folder: nothing that a keeper made
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def _stands(descriptor: int, path: str) -> bool:
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        return False
    ours = os.fstat(descriptor)
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)
