# SPDX-License-Identifier: Apache-2.0
"""What takes long for one agent keeps neither the event loop nor another agent from anything."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from policy.model import ActionPlan, Decision, Params
from sandbox.audit.events.record import AuditRecord
from sandbox.audit.store import Store
from sandbox.calls import record_fields
from sandbox.calls.flow.output import Output
from sandbox.calls.recorder import Recorder
from sandbox.config.settings import Dirs
from sandbox.host.off_loop import QUICK, LoopTurns, OffLoop
from sandbox.results import Ending
from tests.fakes import lines_of
from tests.sandbox.calls.test_supervisor import Bench

WAIT_SECONDS = 120.0
LONG = ActionPlan(
    tool="Bash", workspace="/w", agent="a", params=Params(command="echo " + "x" * 20_000)
)
SHORT = ActionPlan(tool="Bash", workspace="/w", agent="b", params=Params(command="ls"))


class Slow:
    """Work that waits in its thread until it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go = threading.Event()

    def __call__(self) -> str:
        self.begun.set()
        assert self.go.wait(WAIT_SECONDS)
        return "slow"


def run(work: Any) -> Any:
    """Run a coroutine, with a bound."""
    return asyncio.run(asyncio.wait_for(work, WAIT_SECONDS))


def test_of_one_agent_one_piece_is_done_at_a_time() -> None:
    async def scene() -> None:
        off_loop, slow, again = OffLoop(), Slow(), Slow()
        first = asyncio.create_task(off_loop.do("a", slow))
        await asyncio.to_thread(slow.begun.wait, WAIT_SECONDS)
        second = asyncio.create_task(off_loop.do("a:sub", again))
        assert await off_loop.do("b", lambda: "at once") == "at once"  # another's
        assert not again.begun.is_set()
        slow.go.set()
        again.go.set()
        assert [await first, await second] == ["slow", "slow"]
        off_loop.close()

    run(scene())


def test_a_turn_is_not_given_on_before_cancelled_work_has_ended() -> None:
    async def scene() -> None:
        off_loop, slow = OffLoop(), Slow()
        first = asyncio.create_task(off_loop.do("a", slow))
        await asyncio.to_thread(slow.begun.wait, WAIT_SECONDS)
        first.cancel()
        second = asyncio.create_task(off_loop.do("a", slow.go.is_set))
        await asyncio.sleep(0)
        slow.go.set()
        assert await second is True
        with pytest.raises(asyncio.CancelledError):
            await first
        off_loop.close()

    run(scene())


def test_between_two_turns_of_one_agent_another_has_its_own() -> None:
    async def scene() -> list[str]:
        turns, order = LoopTurns(), []

        async def read(agent: str) -> None:
            async with turns.of(agent):
                order.append(agent)

        async with turns.of("a"):
            tasks = [asyncio.create_task(read(one)) for one in "aaaaab"]
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        return order

    assert run(scene()) == ["b", "a", "a", "a", "a", "a"]


def test_who_writes_faster_than_it_is_masked_is_made_to_wait(tmp_path: Path) -> None:
    async def scene() -> None:
        slow = Slow()
        off_loop = OffLoop()

        async def do(work: Callable[[], None]) -> None:
            await off_loop.do("a", slow)
            await off_loop.do("a", work)

        store = Store(Dirs.under(tmp_path).create())
        output = Output(store, "c1", 100, None, do)
        line = b"x" * 1023 + b"\n"
        assert output.room_wanted() is None
        output.take(1, line * 1024 * 6)
        wanted = output.room_wanted()
        assert wanted is not None
        waiting = asyncio.ensure_future(wanted)
        await asyncio.to_thread(slow.begun.wait, WAIT_SECONDS)
        assert not waiting.done()
        slow.go.set()
        await waiting
        await output.finish()
        assert store.output("c1")[0] == line * 1024 * 6
        off_loop.close()

    run(scene())


def test_output_that_cannot_be_written_fails_the_call(tmp_path: Path) -> None:
    async def scene() -> None:
        store = Store(Dirs.under(tmp_path).create())
        (store.folders / "c1").mkdir(parents=True)
        (store.folders / "c1" / "stdout").mkdir()  # nothing can be written there
        output = Output(store, "c1", 100, None)
        output.take(1, b"x" * (6 << 20))
        while (wanted := output.room_wanted()) is not None:
            await wanted
        with pytest.raises(IsADirectoryError):
            await output.finish()

    run(scene())


def test_while_one_agents_text_is_read_others_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, monkeypatch)
    slow = Slow()
    usual = bench._decide

    def decide(plan: ActionPlan, *rest: Any) -> Decision:
        if plan.agent == "hostile":
            slow()
        return usual(plan, *rest)

    monkeypatch.setattr("sandbox.gates.gate1.decide", decide)

    async def scene() -> None:
        hostile = [
            asyncio.create_task(
                bench.supervisor.call(
                    bench.plan("echo " + "x" * QUICK).model_copy(update={"agent": "hostile"})
                )
            )
            for _ in range(20)
        ]
        await asyncio.to_thread(slow.begun.wait, WAIT_SECONDS)
        assert (await bench.supervisor.call(bench.plan("echo"))).ending is Ending.RAN
        assert not any(one.done() for one in hostile)
        slow.go.set()
        await asyncio.gather(*hostile)

    run(scene())


def test_a_decision_on_a_long_text_keeps_no_other_one_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow()
    decision = Bench(tmp_path, monkeypatch)._decide(LONG, cast(Any, None), None)
    usual = record_fields.masked_record

    def masked(record: AuditRecord) -> AuditRecord:
        if record.call == "long":
            slow()
        return usual(record)

    monkeypatch.setattr("sandbox.calls.recorder.masked_record", masked)

    async def scene() -> None:
        recorder = Recorder(Dirs.under(tmp_path / "other").create())
        first = asyncio.create_task(recorder.decided("long", LONG, decision))
        await asyncio.to_thread(slow.begun.wait, WAIT_SECONDS)
        await recorder.decided("short", SHORT, decision)
        assert [one["call"] for one in lines_of(recorder.store)] == ["short"]
        slow.go.set()
        await first
        assert [one["call"] for one in lines_of(recorder.store)] == ["long", "short"]

    run(scene())
