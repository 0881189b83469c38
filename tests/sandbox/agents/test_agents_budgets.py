# SPDX-License-Identifier: Apache-2.0
"""Budgets: what is counted, who is paused or stopped, and that time alone ends a pause."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from policy.model import Tier, Verdict
from sandbox.agents.budget_keeper import BudgetKeeper
from sandbox.agents.budgets import Budgets, BudgetUse, Exceeded
from sandbox.audit.events.record import AuditRecord
from sandbox.config.budgets import AgentBudget, BudgetSettings, Then
from sandbox.errors import Stopped, Unavailable
from sandbox.host.dirs import Dirs
from sandbox.host.latch import Latch
from sandbox.results import CallResult, Ending

GOOD, FAILED, DENIED = BudgetUse(), BudgetUse(failed=True), BudgetUse(denied=True)


def budgets(**limits: Any) -> Budgets:
    """Return budgets that hold for everybody."""
    return Budgets(BudgetSettings(everybody=AgentBudget(**limits)))


def ended(one: Budgets, *uses: BudgetUse, agent: str = "a") -> list[Exceeded | None]:
    """Count uses; return what each of them meant."""
    return [one.end(agent, use, now=100.0) for use in uses]


def test_nothing_is_limited_unless_it_is_set() -> None:
    one = Budgets(BudgetSettings())
    for number in range(2000):
        assert one.begin("a", now=float(number) / 1000) is None
        assert one.end("a", BudgetUse(failed=True, output_bytes=10**9), now=1.0) is None
        assert one.end("a", DENIED, now=1.0) is None
    assert list(one.tick([("a", 0.0)], now=1e9)) == []


def test_calls_within_a_minute() -> None:
    one = budgets(calls_per_minute=3)
    assert [one.begin("a", now=now) for now in (0, 1, 2)] == [None] * 3
    assert one.begin("a", now=3) == Exceeded(
        "a", "it used 4 calls within a minute, and 3 are its budget", Then.PAUSE, 303
    )
    assert one.begin("a", now=4) is None  # it has begun anew


def test_calls_spread_over_time_are_no_haste() -> None:
    one = budgets(calls_per_minute=3)
    assert [one.begin("a", now=30.0 * number) for number in range(20)] == [None] * 20


ROWS = {
    "failures": ({"failures_in_a_row": 2}, [FAILED, FAILED], [False, True]),
    "a success between failures": ({"failures_in_a_row": 2}, [FAILED, GOOD, FAILED], [False] * 3),
    "a refusal between failures": ({"failures_in_a_row": 2}, [FAILED, DENIED, FAILED],
                                   [False, False, True]),
    "refusals": ({"denials_in_a_row": 2}, [DENIED, DENIED], [False, True]),
    "a call between refusals": ({"denials_in_a_row": 2}, [DENIED, FAILED, DENIED], [False] * 3),
    "output": (
        {"output_mib": 1},
        [BudgetUse(output_bytes=2**20), BudgetUse(output_bytes=1)],
        [False, True],
    ),
    "changes": ({"changed_mib": 1}, [BudgetUse(changed_bytes=2**20), BudgetUse(changed_bytes=1)],
                [False, True]),
}  # fmt: skip


@pytest.mark.parametrize("limits, uses, wanted", ROWS.values(), ids=ROWS)
def test_rows_and_amounts(
    limits: dict[str, Any], uses: list[BudgetUse], wanted: list[bool]
) -> None:
    assert [one is not None for one in ended(budgets(**limits), *uses)] == wanted
    assert ended(budgets(), *uses) == [None] * len(uses)  # the control: without a limit, nothing


def test_running_time_counts_while_a_call_runs() -> None:
    one = budgets(running_seconds=10)
    one.ran("a", 6)
    assert list(one.tick([("a", 100.0)], now=104.0)) == []
    (found,) = one.tick([("a", 100.0)], now=104.5)
    assert (found.agent, found.why) == (
        "a",
        "it used 10.5 seconds of running time, and 10 are its budget",
    )


def test_a_sub_agents_use_is_its_parents_too() -> None:
    one = budgets(failures_in_a_row=3)
    assert ended(one, FAILED, agent="a:b") == [None]
    assert ended(one, FAILED, agent="a:c") == [None]
    (found,) = ended(one, FAILED, agent="a:d")
    assert found is not None
    assert found.agent == "a"
    assert ended(one, FAILED, agent="other") == [None]


def test_a_name_can_only_tighten() -> None:
    one = Budgets(
        BudgetSettings(
            everybody=AgentBudget(failures_in_a_row=2),
            agents={
                "a*": AgentBudget(failures_in_a_row=100),
                "ab": AgentBudget(denials_in_a_row=1, then=Then.STOP),
            },
        )
    )
    assert [one is not None for one in ended(one, FAILED, FAILED, agent="ab")] == [False, True]
    (found,) = ended(one, DENIED, agent="ab")
    assert found is not None
    assert found.then is Then.STOP


# acted on


def result(ending: Ending, status: int | None = 0) -> CallResult:
    """Return a call's result."""
    return CallResult(
        id="c1", tool="Bash", verdict=Verdict.ALLOW, tier=Tier.SAFE, rules=(), message="",
        ending=ending, exit_status=status,
    )  # fmt: skip


class Kept:
    """A keeper over a state folder, and what it did."""

    def __init__(self, dirs: Dirs, **limits: Any) -> None:
        self.latch = Latch(dirs)
        self.records: list[dict[str, Any]] = []
        self.stopped: list[tuple[str, str]] = []
        self.ended: list[str] = []
        self.keeper = BudgetKeeper(
            BudgetSettings(everybody=AgentBudget(**limits)),
            self.latch,
            record=self.record,
            stop=self.stop,
            end_running=self.ended.append,
        )

    async def record(self, record: AuditRecord) -> None:
        """Note a record."""
        self.records.append(record.as_json())

    async def stop(self, reason: str, agent: str) -> None:
        """Note a stop."""
        self.stopped.append((reason, agent))

    async def call(self, ending: Ending = Ending.RAN, status: int | None = 0) -> CallResult:
        """Make a call."""

        async def made() -> CallResult:
            return result(ending, status)

        self.latch.check("a")
        return await self.keeper.counted("a", made)


@pytest.fixture
def dirs(tmp_path: Any) -> Dirs:
    """Return folders of our own."""
    return Dirs.under(tmp_path).create()


def test_a_paused_agent_is_told_until_when_and_why(dirs: Dirs) -> None:
    kept = Kept(dirs, denials_in_a_row=2)

    async def calls() -> None:
        await kept.call(Ending.DENIED, None)
        await kept.call(Ending.NOT_APPROVED, None)  # answered; the next one is not
        with pytest.raises(
            Stopped,
            match=r"agent `a` is paused until \d.*, because 2 calls in a row were refused, and 2 "
            "are its budget; a person ends that with `lockgate agent resume a`",
        ):
            await kept.call()
        kept.latch.clear("a")
        assert (await kept.call()).ending is Ending.RAN

    asyncio.run(calls())
    assert [(one["event"], one["agent"]) for one in kept.records] == [("paused", "a")]
    assert kept.stopped == []


def test_the_call_that_is_too_much_is_not_made(dirs: Dirs) -> None:
    kept = Kept(dirs, calls_per_minute=1)
    made = []

    async def calls() -> None:
        async def one() -> CallResult:
            made.append(1)
            return result(Ending.RAN)

        await kept.keeper.counted("a", one)
        with pytest.raises(Stopped, match="2 calls within a minute"):
            await kept.keeper.counted("a", one)

    asyncio.run(calls())
    assert made == [1]


def test_an_agent_is_stopped_where_its_budget_says_so(dirs: Dirs) -> None:
    kept = Kept(dirs, failures_in_a_row=2, then="stop")

    async def calls() -> None:
        async def fails() -> CallResult:
            raise Unavailable("a test")

        await kept.call(status=1)
        with pytest.raises(Unavailable):
            await kept.keeper.counted("a", fails)
        await asyncio.sleep(0)
        with pytest.raises(Stopped, match="agent `a` was stopped at"):
            await kept.call()

    asyncio.run(calls())
    assert kept.stopped == [("2 calls in a row failed, and 2 are its budget", "a")]


def test_running_time_ends_what_runs(dirs: Dirs) -> None:
    kept = Kept(dirs, running_seconds=5)
    asyncio.run(kept.keeper.look([{"agent": "a", "started": 0.0}]))
    assert kept.ended == ["a"]
    with pytest.raises(Stopped, match="running time"):
        kept.latch.check("a")
