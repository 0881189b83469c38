# SPDX-License-Identifier: Apache-2.0
"""The order in which calls land in a workspace: one after the other, as they asked to."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from weakref import WeakValueDictionary


class Turns:
    """A lock for each workspace of a supervisor.

    The keepers' own lock keeps two landings apart. This one also spans what is judged anew between
    two tries of a landing: where many land at once, everyone's turn comes.
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @contextlib.asynccontextmanager
    async def take(self, workspaces: Sequence[str]) -> AsyncIterator[None]:
        """Wait until nobody else lands in these workspaces; keep others waiting meanwhile."""
        locks = [self._locks.setdefault(path, asyncio.Lock()) for path in sorted(set(workspaces))]
        async with contextlib.AsyncExitStack() as stack:
            for lock in locks:  # in one order for all, so that no two wait for each other
                await stack.enter_async_context(lock)
            yield
