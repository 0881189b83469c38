# SPDX-License-Identifier: Apache-2.0
"""A question about a host of a running call: put, answered, bound to that host and that call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from policy.gate1.decide import Policy, decide
from policy.model import ActionPlan, Context, Decision, Host, Params, Workspace
from policy.people.approval import Scope, covers
from sandbox.approvals import answers, offers
from sandbox.approvals.approver import Answer, Approver, nobody, yes
from sandbox.approvals.desk import MOST_OPEN, TOO_MANY, Desk, Patient, elsewhere, said_of, waiting
from sandbox.approvals.host_desk import Connecting, HostAnswer, HostDesk
from sandbox.approvals.store.grants import Grants
from sandbox.approvals.store.request import Request, Terms
from sandbox.audit.events.calls import AskedRecord
from sandbox.cli.people.waiting_list import View, waiting_list
from sandbox.config.settings import Dirs
from sandbox.errors import BadInput

WAIT_SECONDS = 60.0
API = Host(name="api.example", port=443)


def connecting(call: str = "c1", host: Host = API, **changed: Any) -> Connecting:
    """Return a call of `python3 fetch.py` that connects to a host."""
    env = changed.pop("env", {})
    params = Params(command=changed.pop("command", "python3 fetch.py"))
    plan = ActionPlan(**{"tool": "Bash", "params": params, "workspace": "/w", **changed})
    context = Context((Workspace("/w"),), home="/home/me")
    return Connecting(call, plan, decide(plan, context, Policy.default()), host, env)


class Office:
    """A desk, and what people outside were told."""

    def __init__(self, root: Path) -> None:
        self.dirs = Dirs.under(root).create()
        self.grants = Grants(self.dirs)
        self.asked: list[AskedRecord] = []
        self.told: list[tuple[str, str]] = []
        self.desk = HostDesk(self.grants, Desk(self.grants, seconds=60, notify=self._notify))

    async def _notify(self, question: AskedRecord, plan: ActionPlan) -> None:
        self.asked.append(question)

    def ask(
        self, answer: Callable[[Request], object], approver: Approver = waiting, **about: Any
    ) -> HostAnswer:
        """Ask, and let somebody answer what waits."""

        async def go() -> HostAnswer:
            request = connecting(**about).question(60)
            tell = lambda *said: self.told.append(said)  # noqa: E731 - told of two words
            async with asyncio.timeout(WAIT_SECONDS):
                asking = asyncio.create_task(self.desk.ask(request, approver, tell))
                while not asking.done():
                    if self.grants.open_questions(time.time()):
                        answer(request)
                        break
                    await asyncio.sleep(0.01)
                return await asking

        return asyncio.run(go())

    def allow(self, request: Request, terms: Terms | None = None) -> None:
        """Say yes at a terminal."""
        answers.approve(self.dirs, request, terms or Terms(), by="me")

    def deny(self, request: Request) -> None:
        """Say no at a terminal."""
        answers.refuse(self.dirs, request, by="her", reason="not there")


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


def test_a_yes_opens_that_host_for_that_call_alone(office: Office) -> None:
    said = office.ask(office.allow)
    assert (said.opened, said.by) == (API, "me")
    [grant] = office.grants.all()
    assert (grant.id, grant.used, grant.uses) == (said.grant, 1, 1)
    assert grant.words() == "to reach api.example:443 in call c1 alone: python3 fetch.py"
    question = connecting().question(60)
    assert not covers(grant, question.wanted, time.time())
    [asked] = office.asked
    assert (asked.of, asked.host, asked.port) == ("c1", "api.example", 443)
    assert asked.call != "c1"
    assert office.told == [(asked.call, "to reach api.example:443")]


def test_a_yes_that_came_too_late_for_its_call_opens_nothing_to_another(office: Office) -> None:
    """The positive control: the same yes is used where its own call waits."""
    one = connecting().question(60)
    office.grants.ask(one)
    office.allow(one)
    assert office.grants.open_hosts("c1", one.plan, time.time()) == ()
    assert office.grants.open_hosts("c2", one.plan, time.time()) == ()
    assert one.reach is not None
    other = one.reach.model_copy(update={"call": "c2"})
    elsewhere_ = one.reach.model_copy(update={"host": Host(name="other.example", port=443)})
    port = one.reach.model_copy(update={"host": Host(name="api.example", port=80)})
    now = time.time()
    for reach in (other, elsewhere_, port):
        assert office.grants.use_reach(one.call, reach, now) is None
    assert office.grants.use_reach("n0", one.reach, now) is None
    assert office.grants.use_reach(one.call, one.reach, now + 301) is None
    assert office.grants.use_reach(one.call, one.reach, now) is not None
    assert office.grants.use_reach(one.call, one.reach, now) is None  # once


def test_a_yes_that_is_taken_back_at_once_opens_nothing(office: Office) -> None:
    one = connecting().question(60)
    office.grants.ask(one)
    office.allow(one)
    answers.revoke(office.dirs, "last", by="me")
    assert one.reach is not None
    assert office.grants.use_reach(one.call, one.reach, time.time()) is None


def test_a_no_counts_for_the_same_command_and_host_again(office: Office) -> None:
    said = office.ask(office.deny)
    assert (said.opened, said.by, said.reason) == (None, "her", "not there")
    again = office.ask(office.allow, call="c2")
    assert (again.opened, again.reason, len(office.asked)) == (None, "not there", 1)
    port = Host(name="api.example", port=80)
    for about in ({"host": port}, {"command": "python3 b.py"}, {"agent": "other"}):
        assert office.ask(office.allow, **about).opened is not None
    assert len(office.asked) == 4


def test_nobody_is_waited_for_longer_than_whoever_called_waits(office: Office) -> None:
    said = office.ask(lambda _: None, Patient(0.2))
    assert said.opened is None
    assert said.reason.startswith("nobody answered within")
    assert office.grants.open_questions(time.time()) == []
    [asked] = office.asked
    assert office.grants.asked(asked.call).state == "expired"


def test_so_many_questions_wait_and_no_more(office: Office) -> None:
    for number in range(MOST_OPEN):
        office.grants.ask(connecting(f"c{number}").question(60))
    request = connecting("cx").question(60)
    assert asyncio.run(office.desk.ask(request, waiting)) == HostAnswer(None, reason=TOO_MANY)
    assert office.asked == []


def test_a_yes_for_the_command_counts_for_later_calls_of_it(office: Office) -> None:
    said = office.ask(lambda one: office.allow(one, Terms(Scope.PROGRAM, 3, 600)))
    plan, now = connecting().plan, time.time()
    [found] = office.grants.open_hosts("c2", plan, now)
    assert (found.host, found.grant, found.by) == (API, said.grant, "me")
    assert office.grants.open_hosts("c3", connecting(command="python3 b.py").plan, now) == ()
    assert office.grants.open_hosts("c3", connecting(agent="other").plan, now) == ()


def test_a_yes_for_a_session_counts_in_it_alone(office: Office) -> None:
    office.ask(lambda one: office.allow(one, Terms(Scope.PROGRAM, 3, 600, session="s1")))
    plan, now = connecting().plan, time.time()
    assert office.grants.open_hosts("c2", plan, now) == ()
    assert office.grants.open_hosts("c2", plan, now, session="s2") == ()
    [found] = office.grants.open_hosts("c2", plan, now, session="s1")
    assert found.host == API


def test_a_kind_of_question_is_no_answer(office: Office) -> None:
    one = connecting().question(60)
    with pytest.raises(BadInput, match="one host"):
        office.allow(one, Terms(Scope.CATEGORY))


@pytest.mark.parametrize(
    "about", [{"env": {"A": "b"}}, {"derived_from": "t1"}], ids=["env", "task"]
)
def test_what_no_later_call_can_be_compared_with_is_opened_once(
    office: Office, about: dict[str, Any]
) -> None:
    one = connecting(**about).question(60)
    assert offers.always_here(one) is None
    assert offers.once(one).scope == "call c1 alone, until it ends"
    with pytest.raises(BadInput, match="this call alone"):
        office.allow(one, Terms(Scope.PROGRAM))
    assert offers.always_here(connecting().question(60)) is not None


LONG = "api.github.com." + "a" * 20 + "." + "b" * 20 + ".evil.example"


def test_a_card_and_the_lists_show_whose_host_it_is() -> None:
    one = connecting(host=Host(name=LONG, port=443), env={"TOKEN_FILE": "x"}).question(60)
    shown = answers.card_of(one)
    assert LONG in shown.replace("\n", "").replace(" " * 15 + "| ", "")
    assert "c1, which runs and waits" in shown
    assert "TOKEN_FILE=x" in shown
    drawn = waiting_list(View([one], one.call, ""), now=one.asked, width=100, height=10).plain
    assert ".evil.example:443 wanted by c1: python3 fetch.py" in drawn
    assert said_of(one)["action"] == f"to reach {LONG}:443: python3 fetch.py"


def test_who_is_asked_while_a_call_runs() -> None:
    async def front(call_id: str, plan: ActionPlan, decision: Decision) -> Answer:
        raise AssertionError("its output goes there")

    assert elsewhere(nobody) is nobody
    assert elsewhere(yes) is nobody  # a replay
    assert elsewhere(front) is waiting
    assert elsewhere(Patient(3.0, asyncio.Event())) == Patient(3.0)
