# SPDX-License-Identifier: Apache-2.0
"""Process attributes beyond the standard library: prctl, and who descends from whom."""

from __future__ import annotations

import ctypes
import os
import signal

_libc = ctypes.CDLL(None, use_errno=True)
_PDEATHSIG, _DUMPABLE, _SUBREAPER = 1, 4, 36


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), f"prctl {option}")


def hide() -> None:
    """Make this process non-dumpable: nobody of the same user can trace it or open its files."""
    _prctl(_DUMPABLE, 0)


def adopt_orphans() -> None:
    """Become the parent of every orphaned descendant (child subreaper)."""
    _prctl(_SUBREAPER, 1)


def die_with_parent() -> None:
    """Be killed when the parent ends."""
    _prctl(_PDEATHSIG, signal.SIGKILL)


def children() -> set[int]:
    """Return the pids of this process's own children, zombies among them."""
    me = os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children", "rb") as file:
            return {int(word) for word in file.read().split()}
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        return {pid for pid, parent in parents().items() if parent == me}


def parents() -> dict[int, int]:
    """Return {pid: parent pid} of every process that is seen here."""
    out: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                text = file.read()
        except OSError:
            continue
        out[int(name)] = int(text.rpartition(b")")[2].split()[1])
    return out


def descendants(root: int, but: frozenset[int] | set[int] = frozenset()) -> list[int]:
    """Return the pids that descend from `root`, without the trees of `but`, in no order."""
    below: dict[int, list[int]] = {}
    for pid, parent in parents().items():
        below.setdefault(parent, []).append(pid)
    found: list[int] = []
    waiting = [root]
    while waiting:
        for pid in below.get(waiting.pop(), ()):
            if pid in but:
                continue
            found.append(pid)
            waiting.append(pid)
    return found
