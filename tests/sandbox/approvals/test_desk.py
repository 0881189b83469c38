# SPDX-License-Identifier: Apache-2.0
"""Waiting for a person: answers from elsewhere, a reminder, the end, what changed meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from policy.model import ActionPlan, Context, Decision, Params, Workspace
from policy.sources import precedence as layers
from policy.values.strict_yaml import PolicyError
from sandbox.agents.told_sessions import CURRENT
from sandbox.approvals.approver import Answer, Approver, nobody
from sandbox.approvals.desk import MOST_OPEN, Desk, Patient, Permission, waiting
from sandbox.approvals.store.grants import Grants
from sandbox.approvals.store.request import Request, Terms
from sandbox.audit.events.calls import AskedRecord
from sandbox.config.settings import Dirs
from sandbox.gates.gate1 import Gate1
from sandbox.gates.gate1 import Gate1Answer as GateAnswer
from sandbox.gates.policy_files import BuiltIn
from sandbox.gates.second_opinion import SecondOpinion

CONTEXT = Context((Workspace("/w"),), home="/home/me")
WAIT_SECONDS = 120.0


class Office:
    """A desk over real gate 1, and what people outside were told."""

    def __init__(self, root: Path, seconds: float = 60) -> None:
        self.dirs = Dirs.under(root).create()
        self.grants = Grants(self.dirs)
        self.told: list[str] = []
        self.desk = Desk(self.grants, seconds=seconds, notify=self._notify)
        self.gate = Gate1(BuiltIn(), SecondOpinion())
        self.change: Callable[[Decision], Decision] = lambda decision: decision

    async def _notify(self, question: AskedRecord, plan: ActionPlan) -> None:
        self.told.append(question.event)

    async def again(self, plan: ActionPlan) -> GateAnswer:
        answer = await self.gate.decide(plan, CONTEXT, ("/w",))
        return GateAnswer(self.change(answer.decision), answer.effective)

    async def ask(self, approver: Approver, call: str = "c1", command: str = "rm a") -> Permission:
        """Ask about a command."""
        plan = ActionPlan(tool="Bash", params=Params(command=command), workspace="/w")
        first = await self.gate.decide(plan, CONTEXT, ("/w",))
        return await self.desk.permission(
            call, plan, first, CONTEXT, approver, again=lambda: self.again(plan)
        )

    async def question(self) -> Request:
        """Return the question, once it waits."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not (found := self.grants.open_questions(time.time())):
                await asyncio.sleep(0.02)
        return found[0].request


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


async def yes(call_id: str, plan: ActionPlan, decision: Decision) -> Answer:
    return Answer(approved=True, by="me")


def run(work: Any) -> Any:
    async def bounded() -> Any:
        return await asyncio.wait_for(work, WAIT_SECONDS)

    return asyncio.run(bounded())


def test_a_yes_here_becomes_a_grant_that_is_used_at_once(office: Office) -> None:
    said = run(office.ask(yes))
    assert (said.approved, said.by) == (True, "me")
    [grant] = office.grants.all()
    assert (grant.id, grant.used, grant.uses) == (said.grant, 1, 1)
    assert office.told == ["asked"]
    assert not run(office.ask(nobody, "c2")).approved  # it was good for one call


def test_an_answer_from_another_terminal_lets_it_go_on(office: Office) -> None:
    async def both() -> Permission:
        asked = asyncio.create_task(office.ask(waiting))
        request = await office.question()
        office.grants.approve(request, Terms(), by="her", reason="", now=time.time())
        return await asked

    said = run(both())
    assert (said.approved, said.by) == (True, "her")


def test_a_no_from_another_terminal_ends_the_wait(office: Office) -> None:
    async def both() -> Permission:
        asked = asyncio.create_task(office.ask(waiting))
        await office.question()
        assert office.grants.close("c1", "denied", by="her", reason="not now")
        return await asked

    said = run(both())
    assert (said.approved, said.by, said.reason) == (False, "her", "not now")
    assert office.grants.all() == []


def test_a_no_counts_for_the_same_call_made_again_and_a_grant_goes_before_it(
    office: Office,
) -> None:
    run(office.ask(nobody))
    assert office.grants.close("c1", "denied", by="me", reason="use staging")
    again = run(office.ask(nobody, "c2"))
    assert not again.approved
    assert "a person refused exactly this: use staging" in again.reason
    assert office.told == ["asked"]  # nobody is asked anew
    assert run(office.ask(yes, "c3")).approved  # but for a person at the call's own front door
    assert "nobody to ask" in run(office.ask(nobody, "c4", "rm b")).reason
    office.grants.approve(
        office.grants.asked("c4").request, Terms(), by="me", reason="", now=time.time()
    )
    office.grants.close("c4", "denied")
    assert run(office.ask(nobody, "c5", "rm b")).approved


def test_a_no_at_the_calls_own_front_door_is_no_answer_to_a_later_call(office: Office) -> None:
    async def no(call_id: str, plan: ActionPlan, decision: Decision) -> Answer:
        return Answer(approved=False, by="me", reason="not now")

    assert run(office.ask(no)).reason == "not now"
    assert "nobody to ask" in run(office.ask(nobody, "c2")).reason


def test_where_nobody_is_a_grant_given_later_counts_for_the_same_call(office: Office) -> None:
    first = run(office.ask(nobody))
    assert "`lockgate approve c1`" in first.reason
    request = office.grants.asked("c1").request
    office.grants.approve(request, Terms(), by="me", reason="", now=time.time())
    assert not run(office.ask(nobody, "c2", "rm b")).approved
    assert run(office.ask(nobody, "c3", "rm a")).approved
    assert not run(office.ask(nobody, "c4", "rm a")).approved


def test_a_question_reminds_once_and_then_is_cancelled(tmp_path: Path) -> None:
    office = Office(tmp_path, seconds=1.0)
    said = run(office.ask(waiting))
    assert not said.approved
    assert "nobody answered within 1 s" in said.reason
    assert office.told == ["asked", "reminded"]
    assert office.grants.asked("c1").state == "expired"


def test_a_call_that_is_cancelled_closes_its_question(office: Office) -> None:
    async def both() -> None:
        asked = asyncio.create_task(office.ask(waiting))
        await office.question()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked

    run(both())
    assert office.grants.asked("c1").state == "cancelled"


def test_what_changed_while_the_person_thought_is_asked_anew(office: Office) -> None:
    changed = []

    def change(decision: Decision) -> Decision:
        changed.append(1)
        return decision.model_copy(update={"policy": "another"}) if len(changed) < 2 else decision

    office.change = change
    said = run(office.ask(yes))
    assert office.told == ["asked", "asked"]  # the first yes was about something else
    assert said.approved
    assert sorted(one.used for one in office.grants.all()) == [0, 1]


def test_what_keeps_changing_is_refused(office: Office) -> None:
    numbers = iter(range(100))
    office.change = lambda one: one.model_copy(update={"policy": f"number {next(numbers)}"})
    said = run(office.ask(yes))
    assert (said.approved, said.reason) == (False, "what it is about keeps changing")


def test_a_policy_that_became_stricter_counts(office: Office) -> None:
    def change(decision: Decision) -> Decision:
        return layers.refused(PolicyError("now it is denied"))

    office.change = change
    assert not run(office.ask(yes)).approved


def test_a_sub_agent_may_not_ask_itself_and_says_what_its_parent_must_ask(office: Office) -> None:
    async def ask(call: str) -> Permission:
        plan = ActionPlan(
            tool="Bash", params=Params(command="rm a"), workspace="/w", agent="sub:abc123"
        )
        first = await office.gate.decide(plan, CONTEXT, ("/w",))
        return await office.desk.permission(
            call, plan, first, CONTEXT, yes, again=lambda: office.again(plan)
        )

    said = run(ask("c1"))
    assert not said.approved
    assert "`lockgate approve c1`" in said.reason
    request = office.grants.asked("c1").request
    office.grants.approve(request, Terms(), by="me", reason="", now=time.time())
    assert run(ask("c2")).approved  # for just this action, once
    assert not run(ask("c3")).approved


def test_who_waits_no_longer_leaves_the_question_open(office: Office) -> None:
    said = run(office.ask(Patient(0.1)))
    assert (said.approved, "`lockgate approve c1`" in said.reason) == (False, True)
    assert office.grants.asked("c1").state == "open"
    request = office.grants.asked("c1").request
    office.grants.approve(request, Terms(), by="me", reason="", now=time.time())
    assert run(office.ask(Patient(0.1), "c2")).approved


def test_a_grant_for_a_session_is_used_in_that_session_alone(office: Office) -> None:
    async def asked(session: str, call: str) -> Permission:
        CURRENT.set(session)
        return await office.ask(nobody, call)

    run(asked("s-1", "c1"))
    request = office.grants.asked("c1").request
    terms = Terms(uses=9, session=request.wanted.session)
    office.grants.approve(request, terms, by="me", reason="", now=time.time())
    assert not run(asked("s-2", "c2")).approved
    assert not run(asked("", "c3")).approved
    assert run(asked("s-1", "c4")).approved


def test_the_question_of_who_has_ended_is_withdrawn(office: Office) -> None:
    async def both() -> Permission:
        gone = asyncio.Event()
        asked = asyncio.create_task(office.ask(Patient(WAIT_SECONDS, gone)))
        await office.question()
        assert office.desk.asking() == [{"id": "c1", "agent": "main"}]
        gone.set()
        return await asked

    said = run(both())
    assert (said.approved, said.reason) == (False, "withdrawn: whoever asked has ended")
    assert office.grants.asked("c1").state == "withdrawn"
    assert office.desk.asking() == []


async def flood(office: Office, agents: list[str]) -> list[Permission]:
    """Return what many questions that nobody waits for come to, one after the other."""
    found = []
    for number, agent in enumerate(agents):
        plan = ActionPlan(
            tool="Bash", params=Params(command=f"rm {number}"), workspace="/w", agent=agent
        )
        first = await office.gate.decide(plan, CONTEXT, ("/w",))

        async def again(plan: ActionPlan = plan) -> GateAnswer:
            return await office.again(plan)

        found.append(
            await office.desk.permission(f"c{number}", plan, first, CONTEXT, nobody, again=again)
        )
    return found


def test_an_agent_cannot_bury_a_person_in_questions(tmp_path: Path) -> None:
    office = Office(tmp_path)
    names = ["a", *(f"a:x{number}" for number in range(MOST_OPEN)), "b"]
    *most, last, other = asyncio.run(flood(office, names))
    assert all("approves it" in one.reason for one in most)
    assert last.reason.startswith(f"{MOST_OPEN} questions of this agent wait")
    assert "approves it" in other.reason  # another agent's are put
    assert office.told == ["asked"] * (MOST_OPEN + 1)
    office.grants.close("c0", "withdrawn")
    assert "approves it" in asyncio.run(flood(office, ["a"]))[0].reason  # there is room again
