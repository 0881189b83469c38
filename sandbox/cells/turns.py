# SPDX-License-Identifier: Apache-2.0
"""The order in which calls land in a workspace: one after the other, as they asked to."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from weakref import WeakValueDictionary

from sandbox.cells import work


class Turns:
    """A lock for each workspace of a supervisor.

    The keepers' own lock keeps two landings apart. This one also spans what is judged anew between
    two tries of a landing: where many land at once, everyone's turn comes.
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._counts: Counter[str] = Counter()
        self._holders: dict[str, work.Work | None] = {}
        """Whose turn it is, by workspace."""

    @contextlib.asynccontextmanager
    async def take(self, workspaces: Sequence[str]) -> AsyncIterator[None]:
        """Wait until nobody else lands in these workspaces; keep others waiting meanwhile."""
        paths = sorted(set(workspaces))
        async with contextlib.AsyncExitStack() as stack:
            for path in paths:  # in one order for all, so that no two wait for each other
                lock = self._locks.setdefault(path, asyncio.Lock())
                with work.waiting(lambda: work.say_first(map(self._holders.get, paths))):
                    await stack.enter_async_context(lock)
                self._holders[path] = work.current()
                stack.callback(self._holders.pop, path)
            self._counts.update(paths)
            try:
                yield
            finally:
                self._counts.update(paths)

    def count(self, workspaces: Iterable[str]) -> int | None:
        """Return how many turns there were in these workspaces, so that the same number twice says
        that nothing landed in between; None while one of them has somebody's turn."""
        counts = [self._counts[path] for path in set(workspaces)]
        return None if any(one % 2 for one in counts) else sum(counts)
