# SPDX-License-Identifier: Apache-2.0
"""Whether a pass over the host can have overlooked somebody. Pure.

A program that forks and ends all the time has another number at each look: the one that was listed
is gone before it shows whose it is, and the next one is not listed yet. INVARIANT (P10): an agent
has no process left only when a pass found none and knew whose each process was.
"""

from __future__ import annotations

from collections.abc import Collection

from sandbox.processes.table import Known, Table
from sandbox.processes.targets import KERNEL

MOST = 6
"""So many passes are made that find nothing and are not sure: others start programs too."""


class Passes:
    """What several passes, one after the other, have left open."""

    def __init__(self, since: int) -> None:
        """`since`: processes that started before it (ticks) are nobody's of interest."""
        self._since = since
        self._standing: set[Known] = set()
        self._open = 0

    def again(self, table: Table, shown: Collection[Known], found: Collection[int]) -> bool:
        """Whether to look again after a pass that found nothing to do.

        `shown`: processes that showed whether they carry a mark; `found`: the numbers of those
        whose they are known. A dead one may have forked after the next number was looked at. One
        that is dead or shows nothing (another user's) and is so at the next pass leaves nothing
        open.
        """
        silent = {
            one.known
            for pid, one in table.items()
            if one.created >= self._since
            and one.ppid != KERNEL
            and (one.ended or (pid not in found and one.known not in shown))
        }
        fresh = silent - self._standing
        self._standing |= silent
        self._open = self._open + 1 if fresh or table.missed else 0
        return 0 < self._open < MOST

    @property
    def sure(self) -> bool:
        """Whether the last pass left nothing open."""
        return self._open == 0
