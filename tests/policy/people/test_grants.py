# SPDX-License-Identifier: Apache-2.0
"""What a grant covers, and what it never does (P8)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.gate1.decide import Policy, decide
from policy.model import Access, ActionPlan, Context, Limits, Params, Rights, Verdict, Workspace
from policy.people.approval import Grant, Scope, Wanted, covers, wanted

HOME = "/home/me/project"
CONTEXT = Context((Workspace(HOME), Workspace("/home/me/other")), home="/home/me")
POLICY = Policy.default()
NOW = 1_000_000.0


def asked(command: str, **fields: Any) -> Wanted:
    """Return what a command wants that gate 1 asks about."""
    plan = ActionPlan(tool="Bash", params=Params(command=command), **{"workspace": HOME, **fields})
    decision = decide(plan, CONTEXT, POLICY)
    assert decision.verdict is Verdict.ASK, decision.message
    return wanted(plan, decision, CONTEXT, POLICY)


def grant(what: Wanted, scope: Scope = Scope.EXACT, **fields: Any) -> Grant:
    """Return a grant of five minutes."""
    fields = {"issued": NOW, "until": NOW + 300, **fields}
    return Grant(id="g1", scope=scope, wanted=what, by="me", **fields)


def test_an_exact_grant_covers_the_call_that_was_shown() -> None:
    assert covers(grant(asked("rm notes.txt")), asked("rm notes.txt"), NOW)


@pytest.mark.parametrize(
    "other",
    [
        {"command": "rm notes.txt "},
        {"command": "rm other.txt"},
        {"agent": "another"},
        {"user": "another"},
        {"intent": "something else"},
        {"cwd": HOME + "/src"},
        {"workspace": "/home/me/other"},
        {"also": ("/home/me/other",)},
        {"derived_from": "task-2"},
    ],
)
def test_an_exact_grant_covers_nothing_else(other: dict[str, Any]) -> None:
    fields = {"command": "rm notes.txt", **other}
    command = fields.pop("command")
    assert not covers(grant(asked("rm notes.txt")), asked(command, **fields), NOW)


def test_other_rights_or_another_policy_ask_anew() -> None:
    plan = ActionPlan(tool="Bash", params=Params(command="rm notes.txt"), workspace=HOME)
    decision = decide(plan, CONTEXT, POLICY)
    given_ = grant(wanted(plan, decision, CONTEXT, POLICY))
    wider = decision.model_copy(
        update={"rights": Rights(workspace=Access.WRITE, limits=Limits(seconds=9999))}
    )
    assert not covers(given_, wanted(plan, wider, CONTEXT, POLICY), NOW)
    changed = decision.model_copy(update={"policy": "another"})
    for scope in Scope:
        other = given_.model_copy(update={"scope": scope})
        assert not covers(other, wanted(plan, changed, CONTEXT, POLICY), NOW)
        assert covers(other, wanted(plan, decision, CONTEXT, POLICY), NOW)


def test_it_ends_at_the_exact_second() -> None:
    what = asked("rm notes.txt")
    assert covers(grant(what), what, NOW + 299.999)
    assert not covers(grant(what), what, NOW + 300)
    assert not covers(grant(what), what, NOW - 0.001)  # a clock that went back


def test_it_ends_with_its_uses_and_when_it_is_revoked() -> None:
    what = asked("rm notes.txt")
    assert covers(grant(what, uses=2, used=1), what, NOW)
    assert not covers(grant(what, uses=2, used=2), what, NOW)
    assert not covers(grant(what, revoked=NOW), what, NOW)


def test_a_task_binds_it_to_calls_derived_from_that_task() -> None:
    what = asked("rm notes.txt", derived_from="task-1")
    assert covers(grant(what, task="task-1"), what, NOW)
    assert not covers(grant(what, task="task-2"), what, NOW)
    free = asked("rm notes.txt")
    assert not covers(grant(free, task="task-1"), free, NOW)


def test_the_same_program_on_the_same_paths() -> None:
    one = grant(asked("rm a.txt b.txt"), Scope.PROGRAM)
    assert covers(one, asked("rm -f a.txt"), NOW)
    assert covers(one, asked("rm b.txt", intent="again"), NOW)
    assert not covers(one, asked("rm c.txt"), NOW)
    assert not covers(one, asked("rm a.txt", agent="another"), NOW)
    assert not covers(one, asked("rm $UNKNOWN"), NOW)
    assert not covers(one, asked("rm a.txt; git push"), NOW)


def test_a_category_covers_its_kind_of_question_only() -> None:
    one = grant(asked("git push origin main"), Scope.CATEGORY)
    assert covers(one, asked("git push origin dev"), NOW)
    assert not covers(one, asked("rm notes.txt"), NOW)
    assert not covers(one, asked("git push origin main && rm notes.txt"), NOW)


ASKED = [
    asked(command, agent=agent)
    for command in ("rm a.txt", "rm b.txt", "git push", "git push origin x", "rfkill x")
    for agent in ("main", "other")
]


@given(st.sampled_from(ASKED), st.sampled_from(ASKED), st.integers(-10, 400))
def test_a_grant_never_authorises_another_plan(one: Wanted, other: Wanted, later: int) -> None:
    held = grant(one)
    assert covers(held, other, NOW + later) == (one.digest == other.digest and 0 <= later < 300)
    for scope in (Scope.PROGRAM, Scope.CATEGORY):
        if covers(held.model_copy(update={"scope": scope}), other, NOW + later):
            assert (one.agent, one.workspace, one.policy) == (
                other.agent,
                other.workspace,
                other.policy,
            )
            assert set(other.rules) <= set(one.rules)
