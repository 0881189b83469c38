# SPDX-License-Identifier: Apache-2.0
"""A keeper that stands still ends its own call alone; others in its workspace go on."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
from dataclasses import replace
from typing import Any

import psutil
import pytest

from sandbox.cell.faults import HANG
from sandbox.cells.cell import Cell
from sandbox.cells.pair.outcomes import CellLost
from sandbox.cells.specs import Specs
from tests.container.crashing import pid_outside
from tests.container.lab import Lab, after, eventually

SHORT = 5.0
LANDING = 30.0
STEP = 13
"""Of a keeper: in the middle of its first landing."""


async def cell_of(lab: Lab, agent: str) -> Cell:
    """Return the cell of an agent, started."""
    await lab.call("true", agent=agent)
    assert lab.supervisor._live.pool is not None
    return await lab.supervisor._live.pool.get(agent, (str(lab.ws),))


def hurry(cell: Cell) -> None:
    """Have this cell's keeper taken for lost soon; those of others keep their time."""
    cell.spec = replace(cell.spec, look_seconds=SHORT, land_seconds=SHORT)


def keeper(lab: Lab, cell: Cell) -> int:
    """Return the pid, on this host, of a cell's keeper."""
    return pid_outside(lab.client.containers.get(cell._keeper_identity))


def test_a_keeper_that_stands_still_while_it_looks_discards_its_call_alone(lab: Lab) -> None:
    async def scenario() -> None:
        still, other = await cell_of(lab, "still"), await cell_of(lab, "other")
        stopped = asyncio.Event()
        call = asyncio.ensure_future(
            lab.call("echo x > a; read x", stdin=after(stopped), agent="still")
        )
        await eventually(lambda: still.busy > 0 and bool(still._runner._running), "it runs")
        hurry(still)
        os.kill(keeper(lab, still), signal.SIGSTOP)
        stopped.set()
        done = await lab.call("echo y > b", agent="other")
        assert done.landed
        with pytest.raises(CellLost) as lost:
            await call
        said = str(lost.value)
        assert "its keeper did not close within 5 s (`keeper.look_seconds`)" in said
        assert said.endswith("nothing landed")
        assert not (lab.ws / "a").exists()
        again = await lab.call("echo z > a", agent="still")  # with another keeper
        assert (again.landed, lab.text("a"), other.alive) == (True, "z\n", True)

    lab.run(scenario())


def test_a_keeper_that_stands_still_in_a_landing_holds_nobody_up_for_ever(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Specs.make

    def with_fault(self: Specs, agent: str, *more: Any, **named: Any) -> Any:
        spec = make(self, agent, *more, **named)
        if agent != "still" or faults:
            return spec
        faults.append(spec.name)
        fault = {"at": STEP, "act": HANG}
        return replace(spec, setup={**spec.setup, "fault": fault}, land_seconds=LANDING)

    faults: list[str] = []
    monkeypatch.setattr(Specs, "make", with_fault)

    async def scenario() -> None:
        await cell_of(lab, "other")
        assert lab.supervisor._live.pool is not None
        still = await lab.supervisor._live.pool.get("still", (str(lab.ws),))
        call = asyncio.ensure_future(lab.call("echo x > a; echo x > c", agent="still"))
        stopped = keeper(lab, still)
        await eventually(lambda: _state(stopped) == psutil.STATUS_STOPPED, "it stands still")
        with pytest.raises(BlockingIOError), (lab.ws / ".lockgate/lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # it stands still in the landing
        waiting = asyncio.ensure_future(lab.call("echo y > b", agent="other"))
        (done,) = await asyncio.gather(waiting, return_exceptions=True)
        (first,) = await asyncio.gather(call, return_exceptions=True)
        assert not isinstance(done, BaseException), done
        assert done.landed
        landed = not isinstance(first, BaseException) and first.landed
        assert (lab.ws / "a").exists() == (lab.ws / "c").exists() == landed
        again = await lab.call("echo z > a", agent="still")
        assert again.landed

    lab.run(scenario())


def _state(pid: int) -> str:
    return psutil.Process(pid).status()
