# SPDX-License-Identifier: Apache-2.0
"""Which process is behind a container or a record: named so that no later process is taken for it.

A process id alone is given out again; together with the time at which the process began it is not.
"""

from __future__ import annotations

import os
from functools import lru_cache

import psutil


@lru_cache(maxsize=1)
def _mine(pid: int) -> str:
    return f"{pid}:{psutil.Process(pid).create_time():.2f}"


def owner_label() -> str:
    """Return what names this very process: its pid and creation time."""
    return _mine(os.getpid())  # by pid: a fork is another process


def lives(owner: str) -> bool:
    """Whether the process that a label names still is that process."""
    pid, _, created = owner.partition(":")
    try:
        process = psutil.Process(int(pid))
        return (
            f"{process.create_time():.2f}" == created and process.status() != psutil.STATUS_ZOMBIE
        )
    except (psutil.Error, ValueError):
        return False
