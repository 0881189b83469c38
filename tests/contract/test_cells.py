# SPDX-License-Identifier: Apache-2.0
"""What a fake cell and a real cell share, so that tests with the fake prove something."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import pytest

from policy.protected.paths import PathPolicy
from sandbox.cells.cell import Cell
from sandbox.cells.pair.outcomes import CellLost, Exit
from sandbox.cells.pool import CellPool
from sandbox.cells.request import ENVIRONMENT
from sandbox.cells.transaction import Transaction
from sandbox.config.settings import Dirs, Settings
from sandbox.containers.plan import LABEL_TEST
from sandbox.errors import SandboxError
from tests.container.lab import ME, remove_layers, repository
from tests.sandbox.fake_cell import FakeCell

Behaviour = Callable[[Cell, str], Coroutine[Any, Any, None]]


async def sh(cell: Cell, command: str, folder: str) -> tuple[Exit, bytes]:
    """Run a command in an open transaction."""
    heard = bytearray()
    request = {"argv": ["bash", "-c", command], "cwd": folder, "env": dict(ENVIRONMENT)}
    done = await cell.run(
        {**request, "exclusive": True},
        on_output=lambda _channel, data: heard.extend(data),
        seconds=30,
        most_bytes=1_000_000,
    )
    return done, bytes(heard)


def shape(changes: list[list[dict[str, Any]]]) -> list[list[tuple[str, str, str]]]:
    """Return what both sides say of changes."""
    return [[(c["path"], c["kind"], c["type"]) for c in one] for one in changes]


async def a_status_and_output_come_back(cell: Cell, folder: str) -> None:
    async with Transaction(cell, "t1", write=False):
        assert await sh(cell, "echo out", folder) == (
            Exit(0, None, oom=False, error=None, ended=None),
            b"out\n",
        )
        assert (await sh(cell, "exit 3", folder))[0].status == 3


async def a_change_is_listed_when_the_layer_is_closed(cell: Cell, folder: str) -> None:
    async with Transaction(cell, "t1", write=True) as one:
        await sh(cell, "echo x > new.txt", folder)
        changes, diff = await one.close()
        assert shape(changes) == [[("new.txt", "created", "file")]]
        assert isinstance(diff, str)
        assert await one.land() == []


async def a_deletion_is_listed(cell: Cell, folder: str) -> None:
    async with Transaction(cell, "t1", write=True) as one:
        await sh(cell, "rm README.md", folder)
        assert shape((await one.close())[0]) == [[("README.md", "deleted", "file")]]


async def a_call_that_changes_nothing_lists_nothing(cell: Cell, folder: str) -> None:
    async with Transaction(cell, "t1", write=True) as one:
        await sh(cell, "true", folder)
        assert await one.close() == ([[]], "")


async def what_is_left_is_thrown_away(cell: Cell, folder: str) -> None:
    async with Transaction(cell, "t1", write=True):
        await sh(cell, "echo x > new.txt", folder)
    async with Transaction(cell, "t2", write=True) as one:
        assert await one.close() == ([[]], "")


async def an_unknown_transaction_is_an_error(cell: Cell, folder: str) -> None:
    for op in ("close", "land", "hold"):
        with pytest.raises(SandboxError, match=f"the keeper could not {op}: unknown transaction"):
            await cell.ask({"tx": "nosuch"}, op=op)


async def dropping_what_is_not_there_is_fine(cell: Cell, folder: str) -> None:
    await cell.ask({"tx": "nosuch"}, op="drop")


async def a_held_layer_is_closed_for_the_call(cell: Cell, folder: str) -> None:
    async with Transaction(cell, "t1", write=True) as one:
        await sh(cell, "echo x > new.txt", folder)
        await one.close()
        await one.hold()
    with pytest.raises(SandboxError, match="unknown transaction"):
        await cell.ask({"tx": "t1"}, op="land")


async def reading_calls_share_a_turn_and_a_writing_call_waits(cell: Cell, folder: str) -> None:
    async with Transaction(cell, "r1", write=False), Transaction(cell, "r2", write=False):
        assert (cell.readers, cell.busy) == (2, 2)
        waiting = asyncio.ensure_future(Transaction(cell, "w", write=True).__aenter__())
        await asyncio.sleep(0)
        assert not waiting.done()
    one = await waiting
    assert (cell.readers, cell.busy) == (0, 1)
    await one.__aexit__(None, None, None)
    assert cell.busy == 0


async def an_ended_cell_takes_nothing(cell: Cell, folder: str) -> None:
    await cell.end()
    assert not cell.alive
    with pytest.raises(CellLost, match="is gone: it was ended; nothing landed"):
        await cell.ask(op="ping")
    with pytest.raises(CellLost, match="is gone"):
        await sh(cell, "true", folder)


async def a_cell_that_ends_under_a_transaction_lets_it_leave(cell: Cell, folder: str) -> None:
    async with Transaction(cell, "t1", write=True):
        await cell.end()
    assert cell.busy == 0


BEHAVIOURS: tuple[Behaviour, ...] = (
    a_status_and_output_come_back,
    a_change_is_listed_when_the_layer_is_closed,
    a_deletion_is_listed,
    a_call_that_changes_nothing_lists_nothing,
    what_is_left_is_thrown_away,
    an_unknown_transaction_is_an_error,
    dropping_what_is_not_there_is_fine,
    a_held_layer_is_closed_for_the_call,
    reading_calls_share_a_turn_and_a_writing_call_waits,
    an_ended_cell_takes_nothing,
    a_cell_that_ends_under_a_transaction_lets_it_leave,
)


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda one: one.__name__)
def test_the_fake(behaviour: Behaviour, tmp_path: Path) -> None:
    async def work() -> None:
        await behaviour(cast(Cell, FakeCell([])), str(tmp_path))

    asyncio.run(asyncio.wait_for(work(), 120))


def test_the_real_one(docker_client: Any, images: Any, run_id: str, tmp_path: Path) -> None:
    """All behaviours, each on a fresh cell of one pool."""
    dirs = Dirs.under(tmp_path / "lockgate").create()

    async def work() -> None:
        labels = {LABEL_TEST: run_id}
        pool = await asyncio.to_thread(
            CellPool.connect, dirs, Settings(), lambda _: PathPolicy.default(), labels
        )
        try:
            for number, behaviour in enumerate(BEHAVIOURS):
                folder = str(repository(tmp_path / f"w{number}", ME))
                await behaviour(await pool.get("main", (folder,)), folder)
        finally:
            await pool.end_all()

    asyncio.run(asyncio.wait_for(work(), 280))
    remove_layers(docker_client, dirs)
