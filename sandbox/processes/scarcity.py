# SPDX-License-Identifier: Apache-2.0
"""What could not be looked at for want of open files or memory.

INVARIANT (P8, P10, scarce): that something cannot be seen just now never counts as its not being
there. Who answers, who asks and what runs is found out by looking; an agent that makes a process
run out of descriptors must not be taken for nobody's.
"""

from __future__ import annotations

import errno
import resource

from sandbox.errors import Unavailable

SCARCE = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS))
OPEN_FILES = 65_536
"""Files that a process which serves many may have open, where the system lets it."""

MOST_CONNECTIONS = 2_000
"""Connections of one server at once."""


def refuse_scarcity(error: OSError) -> None:
    """Raise Unavailable where a file could not be looked at for want of open files or memory."""
    if error.errno in SCARCE:
        raise Unavailable(
            f"{(error.strerror or str(error)).lower()}: who is asking cannot be found out now, so "
            "nothing is done; try again"
        ) from None


def most_connections() -> int:
    """Return how many connections a server of this process may hold: what is left of its open files
    is enough to look at all who ask."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, soft // 4)


def raise_open_files() -> None:
    """Let this process have more files open, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
