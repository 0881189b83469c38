# SPDX-License-Identifier: Apache-2.0
"""Whether a landing explains how a path stands now, and whether one may still be on its way.

Changes nothing.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Mapping

from sandbox.cell import fs
from sandbox.guard.fingerprint import DIRECTORY, SYMLINK, Entry
from sandbox.guard.landings import Landed
from sandbox.workspaces.protected_paths import RECORDS

SETTLE_SECONDS = 3.0
"""How long after a landing its record may come."""
LANDING_SECONDS = 60.0
"""How long a landing that goes on is waited for."""
LANDED_BITS = 0o1777
"""Permission bits that land: a record never says more."""
CLOCK_SECONDS = 0.02
"""How far the kernel's time stamps may lie from the record's."""


def explains(
    landed: Landed, before: Entry | None, after: Entry | None, known: Mapping[str, Entry]
) -> bool:
    """Whether a path stands as a landing left it.

    Its content is compared where the record says what it is. Otherwise its ctime, which nobody can
    set, must lie in the time of the landing; what was moved keeps its ctime and is compared with
    what was known of it at its place before.
    """
    if after is None or landed.gone:
        return after is None and landed.gone
    if after.type != landed.type:
        return False
    if after.type == DIRECTORY:
        return True
    in_time = after.ctime <= landed.end + CLOCK_SECONDS
    if landed.exact and landed.mode is not None:
        same = after.type == SYMLINK or landed.mode == after.mode & LANDED_BITS
        return same and landed.sha256 == after.sha256 and (in_time or after.links == 1)
    if landed.exact and landed.kind != "meta":
        same_mode = before is not None and before.mode == after.mode and after.links == 1
        return landed.sha256 == after.sha256 and (in_time or same_mode)
    source = known.get(landed.source) if landed.kind == "renamed" and landed.source else None
    if source is not None and source.sha256 == after.sha256 and source.mode == after.mode:
        return in_time
    return in_time and landed.start <= after.ctime


def awaited(root: str, after: Entry | None, seconds: float) -> bool:
    """Whether a change, first seen `seconds` ago, may be that of a landing not recorded yet."""
    going_on, last = _landing_state(root)
    if going_on:
        return seconds < LANDING_SECONDS
    if last < time.time() - 2 * SETTLE_SECONDS:
        return False
    if after is not None and after.type != DIRECTORY and last < after.ctime:
        return False  # it changed after the last landing had ended
    return seconds < SETTLE_SECONDS


def _landing_state(root: str) -> tuple[bool, float]:
    """Return whether a landing goes on, and when the last one began or ended."""
    try:
        top = fs.open_directory(root)
    except OSError:
        return False, 0.0
    try:
        last = 0.0
        for name in ("landing", "undo"):
            status = fs.lstat(top, f"{RECORDS}/{name}")
            if status is not None and stat.S_ISDIR(status.st_mode):
                last = max(last, status.st_mtime)
        return _going_on(top), last
    except OSError:
        return False, 0.0
    finally:
        os.close(top)


def _going_on(top: int) -> bool:
    try:
        lock = fs.open_beneath(top, f"{RECORDS}/lock", os.O_RDONLY | os.O_NONBLOCK)
    except PermissionError:  # the keeper made it as root: an unfinished landing tells
        folder = fs.open_beneath(top, f"{RECORDS}/landing")
        try:
            with os.scandir(folder) as entries:
                return any(entries)
        finally:
            os.close(folder)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False
