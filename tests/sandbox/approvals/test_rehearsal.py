# SPDX-License-Identifier: Apache-2.0
"""What a person was shown of a call's effects is compared with what they turn out to be."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from policy.model import (
    Access,
    ActionPlan,
    Decision,
    Judgement,
    LayerAnswer,
    Outcome,
    Params,
    Rights,
    Tier,
    Verdict,
)
from policy.protected.paths import PathPolicy
from sandbox.approvals.approver import Answer
from sandbox.approvals.rehearsal import EFFECTS, LAST_LINES, Rehearsal, as_shown, effects_digest
from sandbox.approvals.store.request import Terms
from sandbox.cells.cell import Cell
from sandbox.cells.pair.outcomes import Exit
from sandbox.cells.transaction import Transaction
from sandbox.gates.gate2 import Effects
from sandbox.gates.shown_changes import Shown
from sandbox.present.card import card
from sandbox.workspaces.ignore_ledger import Ledger
from tests.sandbox.approvals.test_desk import CONTEXT, Office, run, yes
from tests.sandbox.fake_cell import FakeCell

FILE = {"path": "a.txt", "kind": "modified", "type": "file", "mode": 0o644, "size": 3}
RAW = [[FILE, {"path": "d", "kind": "deleted", "type": "file", "mode": 0}]]


class Closed:
    """A closed transaction that knows the contents of its files."""

    def __init__(self, content: str = "1") -> None:
        self.content = content
        self.asked: list[list[str]] = []

    async def digests(self, wanted: list[list[str]]) -> list[dict[str, str]]:
        """Return the contents' hashes."""
        self.asked += wanted
        return [dict.fromkeys(paths, self.content * 64) for paths in wanted]


def digest(raw: Any, content: str = "1") -> str:
    """Return what names the effects."""
    return asyncio.run(effects_digest(cast(Transaction, Closed(content)), raw))


def effects(outcome: Outcome = Outcome.LAND, total: int = 2) -> Effects:
    """Return effects as gate 2 judged them."""
    return Effects(Judgement(outcome, (), "why"), Shown((), (), total))


OTHERS: dict[str, tuple[Any, str]] = {
    "another content": (RAW, "2"),
    "another path": ([[{**FILE, "path": "b.txt"}, RAW[0][1]]], "1"),
    "another mode": ([[{**FILE, "mode": 0o755}, RAW[0][1]]], "1"),
    "another kind": ([[{**FILE, "kind": "created"}, RAW[0][1]]], "1"),
    "one change less": ([[FILE]], "1"),
    "one change more": ([[*RAW[0], {**FILE, "path": "c"}]], "1"),
    "in another workspace": ([[RAW[0][1]], [FILE]], "1"),
}


@pytest.mark.parametrize(("raw", "content"), OTHERS.values(), ids=OTHERS)
def test_any_other_effect_has_another_digest(raw: Any, content: str) -> None:
    assert digest(RAW) == digest([list(reversed(RAW[0]))])  # the order says nothing
    assert digest(raw, content) != digest(RAW)


def test_what_was_deleted_has_no_content_to_look_at() -> None:
    closed = Closed()
    asyncio.run(effects_digest(cast(Transaction, closed), RAW))
    assert closed.asked == [["a.txt"]]


def compared(shown: dict[str, Any] | None, found: Effects) -> Effects:
    """Return effects after they were compared."""
    return asyncio.run(as_shown(shown, cast(Transaction, Closed()), RAW, found))


def test_effects_that_were_shown_land_and_others_are_held() -> None:
    assert compared({EFFECTS: digest(RAW)}, effects()) == effects()
    other = compared({EFFECTS: "0" * 64}, effects())
    assert other.judgement.outcome is Outcome.HOLD
    assert [reason.rule for reason in other.judgement.reasons] == ["not-as-rehearsed"]


def test_comparing_never_loosens_and_needs_something_shown() -> None:
    wrong = {EFFECTS: "0" * 64}
    for found in (effects(Outcome.DISCARD), effects(total=0)):
        assert compared(wrong, found) == found
    for nothing in (None, {}, {"skipped": "it reads standard input"}):
        assert compared(nothing, effects()) == effects()


class Talking(FakeCell):
    """A cell whose command writes much, and a secret."""

    async def run(self, request: Any, *, on_output: Any, **_: Any) -> Exit:
        """Write."""
        for number in range(5000):
            on_output(1, b"line %d %s\n" % (number, b"x" * 40))
        on_output(2, b"token=abcdefgh12345678 \x1b[2J\n")
        return Exit(7, None, oom=False, error=None, ended=None)


def test_the_last_lines_are_shown_without_secrets(tmp_path: Path) -> None:
    decision = Decision(
        verdict=Verdict.ASK,
        tier=Tier.DANGER,
        rights=Rights(workspace=Access.READ),
        layers=(LayerAnswer(layer="test", verdict=Verdict.ASK, reason="a test"),),
        message="a test",
    )
    ledger = Ledger(tmp_path / "ledger")
    rehearsal = Rehearsal(
        {"argv": ["x"]}, decision, (str(tmp_path),), PathPolicy.default(), 9.0, ledger
    )
    shown, found = asyncio.run(rehearsal.run(cast(Cell, Talking([]))))
    assert (shown["ending"], shown["exit_status"], found) == ("ran", 7, None)
    lines = shown["output"].split("\n")
    assert len(lines) == LAST_LINES + 1
    assert lines[0] == "... lines before these are left out"
    assert lines[-1] == "token=[masked] \\x1b[2J"
    assert EFFECTS not in shown


@pytest.fixture
def office(tmp_path: Path) -> Office:
    """Return a desk."""
    return Office(tmp_path)


@pytest.mark.parametrize("scope", ["exact", "program"])
def test_a_grant_carries_what_was_shown_unless_it_is_wider(office: Office, scope: str) -> None:
    from policy.people.approval import Scope

    plan = ActionPlan(tool="Bash", params=Params(command="rm a"), workspace="/w")

    async def ask(approver: Any) -> Any:
        first = await office.gate.decide(plan, CONTEXT, ("/w",))

        async def rehearse(decision: Decision) -> dict[str, Any]:
            return {EFFECTS: "e" * 64, "exit_status": 0}

        return await office.desk.permission(
            "c1", plan, first, CONTEXT, approver,
            again=lambda: office.again(plan), rehearse=rehearse,
        )  # fmt: skip

    async def elsewhere(call: str, plan: ActionPlan, decision: Decision) -> Answer:
        request = office.grants.asked(call).request
        assert request.preview[EFFECTS] == "e" * 64
        office.grants.approve(request, Terms(Scope(scope)), by="me", reason="", now=request.asked)
        await asyncio.Event().wait()
        raise AssertionError

    if scope == "exact":
        assert run(ask(yes)).preview[EFFECTS] == "e" * 64
    said = run(ask(elsewhere))
    assert said.approved
    assert (said.preview or {}).get(EFFECTS) == ("e" * 64 if scope == "exact" else None)


def test_the_card_says_what_was_rehearsed_or_why_not() -> None:
    plan, decision = {"tool": "Bash", "params": {"command": "x"}}, {"tier": "danger"}
    text = card(plan, decision, preview={"ending": "ran", "exit_status": 3, "output": "bye"})
    assert "rehearsed    | without network: ran, status 3" in text
    assert "it printed   | bye" in text
    text = card(plan, decision, preview={"skipped": "it runs in the background"})
    assert "expected     | not rehearsed: it runs in the background" in text
