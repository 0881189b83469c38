# SPDX-License-Identifier: Apache-2.0
"""The time of a command: it ends it, and stands still for so long while a person is asked."""

from __future__ import annotations

import asyncio
import time

from sandbox.cells.pair.clock import CallClock


def lasted(seconds: float, *, stands: float = 0.0, asked: float = 0.0) -> float:
    """Return after how long a clock ended a command of which a person was asked meanwhile."""

    async def go() -> float:
        over, clock, began = asyncio.Event(), CallClock(seconds, stands=stands), time.monotonic()
        clock.start(over.set)
        if asked:
            with clock.standing_still(), clock.standing_still():
                await asyncio.wait([asyncio.create_task(over.wait())], timeout=asked)
        async with asyncio.timeout(30):
            await over.wait()
        clock.stop()
        return time.monotonic() - began

    return asyncio.run(go())


def test_it_ends_a_command_in_time() -> None:
    assert 0.2 <= lasted(0.2) < 5


def test_what_a_question_takes_does_not_count() -> None:
    assert lasted(0.2, stands=60, asked=0.6) >= 0.8


def test_it_stands_still_for_so_long_and_no_longer() -> None:
    assert 0.4 <= lasted(0.2, stands=0.2, asked=20) < 15


def test_what_has_ended_is_not_ended() -> None:
    async def go() -> bool:
        clock = CallClock(60)
        clock.start(lambda: None)
        with clock.standing_still():
            clock.stop()
        assert clock._timer is not None
        return clock._timer.cancelled()

    assert asyncio.run(go())
