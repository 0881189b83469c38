# SPDX-License-Identifier: Apache-2.0
"""What waits at the same time is synced once, in order, and a failure reaches who waited for it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from sandbox.audit.writer import Writer


class Disk:
    """Notes what is written and synced."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.free = threading.Event()
        self.problem: Exception | None = None

    def sync(self) -> None:
        """Sync."""
        if self.problem is not None:
            raise self.problem
        self.seen.append("sync")

    def work(self, name: str) -> Any:
        """Return a job that writes."""

        def write(durable: bool) -> None:
            if name == "first":
                assert self.free.wait(60)
            if name == "broken":
                raise OSError("no space")
            self.seen.append(name + "!" if durable else name)

        return write


async def together(disk: Disk, *names: str) -> list[Any]:
    """Have jobs done that all wait while a first one goes on; all but `later` are durable."""
    writer = Writer(disk.sync)
    first = writer.put(disk.work("first"), durable=False)
    while writer._jobs:  # the thread has taken it
        await asyncio.sleep(0.001)
    rest = [writer.put(disk.work(name), durable=name != "later") for name in names]
    disk.free.set()
    await first
    return await asyncio.gather(*rest, return_exceptions=True)


def test_one_sync_serves_all_that_wait() -> None:
    disk = Disk()
    assert asyncio.run(together(disk, "a", "later", "b", "c")) == [None] * 4
    assert disk.seen == ["first", "a", "later", "b", "c", "sync"]


def test_one_that_waits_alone_syncs_itself() -> None:
    disk = Disk()
    asyncio.run(together(disk, "a", "later"))
    assert disk.seen == ["first", "a!", "later"]


def test_a_job_that_fails_does_not_touch_the_others() -> None:
    disk = Disk()
    found = asyncio.run(together(disk, "a", "broken", "b"))
    assert [found[0], str(found[1]), found[2]] == [None, "no space", None]
    assert disk.seen == ["first", "a", "b", "sync"]


def test_a_sync_that_fails_reaches_everybody_who_waited_for_it() -> None:
    disk = Disk()
    disk.problem = OSError("gone")
    found = asyncio.run(together(disk, "a", "later", "b"))
    assert [str(one) for one in found] == ["gone", "None", "gone"]


def test_a_job_is_done_though_nobody_waits_any_more() -> None:
    disk = Disk()

    async def cancelled() -> None:
        writer = Writer(disk.sync)
        first = writer.put(disk.work("first"), durable=False)
        second = writer.put(disk.work("a"), durable=True)
        second.cancel()
        disk.free.set()
        await first
        await writer.put(disk.work("b"), durable=False)
        with pytest.raises(asyncio.CancelledError):
            await second

    asyncio.run(cancelled())
    assert [one.rstrip("!") for one in disk.seen if one != "sync"] == ["first", "a", "b"]


def test_a_job_that_nobody_waits_for_keeps_its_place_and_is_heard_of_where_it_fails(
    capsys: pytest.CaptureFixture[str],
) -> None:
    disk = Disk()

    async def unheard() -> None:
        writer = Writer(disk.sync)
        first = writer.put(disk.work("first"), durable=False)
        writer.put_unheard(disk.work("later"))
        writer.put_unheard(disk.work("broken"))
        last = writer.put(disk.work("a"), durable=True)
        disk.free.set()
        await first
        await last

    asyncio.run(unheard())
    assert disk.seen == ["first", "later", "a!"]
    assert "OSError: no space" in capsys.readouterr().err
