# SPDX-License-Identifier: Apache-2.0
"""Room to watch: where the kernel watches as much as it may, a cell that nobody needs is ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from sandbox.cells.pair.outcomes import Unwatchable

MakeRoom = Callable[[], Awaitable[bool]]
"""Ends a cell that nobody needs; False where there is none."""
T = TypeVar("T")


async def make_no_room() -> bool:
    """End nothing."""
    return False


async def with_room(work: Callable[[], Awaitable[T]], make_room: MakeRoom) -> T:
    """Do something that the kernel must watch; where it watches as much as it may, make room.

    Raises Unwatchable where there is none to be made.
    """
    while True:
        try:
            return await work()
        except Unwatchable:
            if not await make_room():
                raise
