# SPDX-License-Identifier: Apache-2.0
"""Questions and grants on disk: one use is one use, whoever races for it."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from policy.gate1.decide import Policy, decide
from policy.model import ActionPlan, Context, Host, Params, Workspace
from policy.people.approval import Scope, covers, opening, wanted
from sandbox.approvals.store.grants import Grants
from sandbox.approvals.store.request import Request, Terms
from sandbox.calls.flow.prepare import Preparation
from sandbox.config.settings import Dirs
from sandbox.errors import BadInput, Unavailable
from sandbox.gates.gate1 import Gate1Answer
from sandbox.stopping.stop import APPROVALS

CONTEXT = Context((Workspace("/w"),), home="/home/me")
NOW = time.time()


@pytest.fixture
def dirs(tmp_path: Path) -> Dirs:
    return Dirs(tmp_path / "state", tmp_path / "config", tmp_path / "run").create()


def question(command: str = "rm a.txt", call: str = "c1", seconds: float = 1800) -> Request:
    plan = ActionPlan(tool="Bash", params=Params(command=command), workspace="/w")
    decision = decide(plan, CONTEXT, Policy.default())
    what = wanted(plan, decision, CONTEXT, Policy.default())
    return Request(
        call=call, wanted=what, plan=plan, decision=decision, asked=NOW, until=NOW + seconds
    )


def test_a_question_waits_and_its_answer_becomes_a_grant(dirs: Dirs) -> None:
    grants, one = Grants(dirs), question()
    grants.ask(one)
    assert [asked.request for asked in grants.open_questions(NOW)] == [one]
    grant = grants.approve(one, Terms(), by="me", reason="fine", now=NOW)
    assert grants.state("c1") == ("approved", "me", "fine")
    assert not grants.open_questions(NOW)
    used = grants.use("c1", one.wanted, NOW)
    assert used is not None
    assert used.id == grant.id
    assert grants.use("c1", one.wanted, NOW) is None


def test_one_answer_settles_all_that_ask_for_the_same(dirs: Dirs) -> None:
    grants = Grants(dirs)
    for call in ("c1", "c2"):
        grants.ask(question(call=call))
    grants.ask(question("rm b.txt", "c3"))
    one = grants.asked("c2").request
    grants.approve(one, Terms(), by="me", reason="fine", now=NOW)
    assert [asked.request.call for asked in grants.open_questions(NOW)] == ["c3"]
    assert grants.state("c1") == ("approved", "me", "fine")
    assert grants.use("c1", one.wanted, NOW) is not None
    assert grants.use("c2", one.wanted, NOW) is None  # it was one yes
    for call in ("c4", "c5"):
        grants.ask(question(call=call))
    assert grants.close("c4", "cancelled")  # its agent left; nobody has answered
    assert grants.state("c5")[0] == "open"
    grants.ask(question(call="c6"))
    assert grants.close("c6", "denied", by="me", reason="no")
    assert grants.state("c5") == ("denied", "me", "no")
    assert grants.state("c3")[0] == "open"


def test_a_grant_can_be_taken_back_while_the_clock_is_behind(dirs: Dirs) -> None:
    grants, one = Grants(dirs), question()
    grants.ask(one)
    grant = grants.approve(one, Terms(), by="me", reason="", now=NOW)
    grants.revoke(grant.id, NOW - 3600)
    assert grants.use("c1", one.wanted, NOW) is None


def test_a_question_that_was_put_anew_meanwhile_is_not_the_one_that_was_shown(dirs: Dirs) -> None:
    """The grant is bound to what was shown; what a rehearsal showed is read from the question."""
    grants, shown_ = Grants(dirs), question()
    grants.ask(shown_)
    grants.ask(shown_.model_copy(update={"asked": NOW + 1, "preview": {"diff": "another"}}))
    with pytest.raises(BadInput, match="not open any more"):
        grants.approve(shown_, Terms(), by="me", reason="", now=NOW)
    grants.ask(question("rm b.txt"))
    with pytest.raises(BadInput, match="not open any more"):
        grants.approve(shown_, Terms(), by="me", reason="", now=NOW)
    assert grants.all() == []


def test_a_question_that_nobody_answered_keeps_no_secret(dirs: Dirs) -> None:
    grants = Grants(dirs)
    secret = "Zx8Kq2Lm9Pw4Rt7Vb3Nc"
    grants.ask(question(f"rm a; PGPASSWORD={secret} psql", "c1", seconds=60))
    assert secret in grants.asked("c1").request.model_dump_json()  # a person sees it whole
    later = question(call="c2").model_copy(update={"asked": NOW + 60})
    grants.ask(later)
    assert grants.state("c1")[0] == "expired"
    assert secret not in grants.asked("c1").request.model_dump_json()
    assert grants.state("c2")[0] == "open"


def test_a_question_is_answered_once(dirs: Dirs) -> None:
    grants, one = Grants(dirs), question()
    grants.ask(one)
    assert grants.close("c1", "denied", by="me", reason="no")
    assert not grants.close("c1", "cancelled")
    with pytest.raises(BadInput, match="not open any more"):
        grants.approve(one, Terms(), by="me", reason="", now=NOW)
    assert grants.all() == []


def test_a_question_that_is_over_cannot_be_approved(dirs: Dirs) -> None:
    grants, one = Grants(dirs), question(seconds=10)
    grants.ask(one)
    assert grants.open_questions(NOW + 9.99)
    assert not grants.open_questions(NOW + 10)
    with pytest.raises(BadInput, match="not open any more"):
        grants.approve(one, Terms(), by="me", reason="", now=NOW + 10)


def test_of_two_that_race_for_one_use_one_gets_it(dirs: Dirs) -> None:
    one = question()
    Grants(dirs).ask(one)
    Grants(dirs).approve(one, Terms(uses=3), by="me", reason="", now=NOW)
    start = threading.Barrier(12)
    got = []

    def use() -> None:
        start.wait()
        if Grants(dirs).use("c1", one.wanted, NOW) is not None:
            got.append(1)

    threads = [threading.Thread(target=use) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 3


def test_a_grant_is_listed_and_taken_back(dirs: Dirs) -> None:
    grants, one = Grants(dirs), question()
    grants.ask(one)
    grant = grants.approve(one, Terms(Scope.PROGRAM, 5, 60, "t"), by="me", reason="", now=NOW)
    assert [(g.id, g.scope, g.uses, g.task, g.until) for g in grants.all()] == [
        (grant.id, Scope.PROGRAM, 5, "t", NOW + 60)
    ]
    assert grants.revoke(grant.id, NOW).revoked == NOW
    assert grants.use("c1", one.wanted, NOW) is None
    with pytest.raises(BadInput, match="revoked already"):
        grants.revoke(grant.id, NOW)
    with pytest.raises(BadInput, match="no grant"):
        grants.revoke("gx", NOW)


@pytest.mark.parametrize("agent, taken", [(None, 1), ("main", 1), ("mai", 0), ("main:x", 0)])
def test_a_stop_takes_grants_back(dirs: Dirs, agent: str | None, taken: int) -> None:
    grants, one = Grants(dirs), question()
    assert grants.revoke_all(NOW, agent=agent) == 0
    assert not (dirs.state / APPROVALS).exists()  # without one a stop need not look
    grants.ask(one)
    assert (dirs.state / APPROVALS).exists()
    grants.approve(one, Terms(uses=5), by="me", reason="", now=NOW)
    assert grants.revoke_all(NOW, agent=agent) == taken
    assert (grants.use("c1", one.wanted, NOW) is None) == bool(taken)


def test_a_file_that_is_no_database_is_said_and_nothing_is_granted(dirs: Dirs) -> None:
    (dirs.state / "approvals.sqlite").write_bytes(b"not a database, but long enough to be read" * 9)
    with pytest.raises(Unavailable, match="move the file away"):
        Grants(dirs).use("c1", question().wanted, NOW)


def test_a_file_of_a_newer_version_is_left_alone(dirs: Dirs) -> None:
    db = sqlite3.connect(dirs.state / "approvals.sqlite")
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(Unavailable, match="newer"):
        Grants(dirs).open_questions(NOW)


def test_a_grant_opens_hosts_for_exactly_its_command_as_often_as_it_says(dirs: Dirs) -> None:
    grants, hosts = Grants(dirs), (Host(name="api.example", port=443),)
    one = question("python3 fetch.py")
    assert grants.open_hosts("c0", one.plan, NOW) == ()
    grants.ask(one)
    terms = Terms(uses=2, opens=opening(one.plan, hosts))
    grant = grants.approve(one, terms, by="me", reason="", now=NOW)
    assert grant.words() == "to reach api.example:443: python3 fetch.py"
    assert not covers(grant, one.wanted, NOW)
    assert grants.use("c1", one.wanted, NOW) is None  # it answers no question
    others = [
        one.plan.model_copy(update={"params": Params(command="python3 other.py")}),
        *(one.plan.model_copy(update=changed) for changed in (
            {"agent": "other"}, {"cwd": "/w/sub"}, {"workspace": "/x"}, {"role": "Coder"},
            {"also": ("/y",)},
        )),
    ]  # fmt: skip
    assert [grants.open_hosts("c2", other, NOW) for other in others] == [()] * len(others)
    assert [each.host for each in grants.open_hosts("c3", one.plan, NOW)] == [*hosts]
    assert grants.open_hosts("c4", one.plan, grant.until) == ()
    assert [each.host for each in grants.open_hosts("c5", one.plan, NOW)] == [*hosts]
    assert grants.open_hosts("c6", one.plan, NOW) == ()


def test_hosts_are_opened_for_a_call_without_variables_of_its_own(dirs: Dirs) -> None:
    now = time.time()  # by which a call's own hosts are looked for
    one = question("python3 fetch.py").model_copy(update={"asked": now, "until": now + 60})
    grants = Grants(dirs)
    hosts = (Host(name="api.example", port=443),)
    grants.ask(one)
    grants.approve(one, Terms(opens=opening(one.plan, hosts)), by="me", reason="", now=now)
    preparation = Preparation(cast(Any, SimpleNamespace(grants=grants)))
    opened = []
    for env in ({"API": "https://b.example"}, None):
        answer = Gate1Answer(one.decision, None)
        call = SimpleNamespace(
            id="c1",
            plan=one.plan,
            decision=one.decision,
            answer=answer,
            env=env,
            on_host=False,
            hosts=[],
        )
        asyncio.run(preparation.open_hosts(cast(Any, call)))
        opened.append(call.answer.decision.rights.network.hosts)
    assert opened == [(), hosts]


def test_a_grant_of_a_session_says_so(dirs: Dirs) -> None:
    grants, one = Grants(dirs), question()
    grants.ask(one)
    grant = grants.approve(one, Terms(session="s-1"), by="me", reason="", now=NOW)
    assert grant.words().endswith(" (in session s-1)")
    assert "session" not in grant.model_copy(update={"session": None}).words()


def test_a_stop_takes_opened_hosts_back(dirs: Dirs) -> None:
    grants, one = Grants(dirs), question("python3 fetch.py")
    grants.ask(one)
    terms = Terms(uses=9, opens=opening(one.plan, (Host(name="api.example", port=443),)))
    grants.approve(one, terms, by="me", reason="", now=NOW)
    assert grants.open_hosts("c1", one.plan, NOW) != ()
    assert grants.revoke_all(NOW) == 1
    assert grants.open_hosts("c2", one.plan, NOW) == ()
