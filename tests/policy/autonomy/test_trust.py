# SPDX-License-Identifier: Apache-2.0
"""The examples and tables of orchestration.md, and how reputation moves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.autonomy.reputation import (
    Arithmetic,
    Domain,
    Reputation,
    ReputationBounds,
    TrustLevel,
    autonomy_status,
    begin,
    decayed,
    pin,
    rank,
    record_outcome,
)
from policy.autonomy.trust import (
    LANDINGS,
    TrustFile,
    can_execute,
    check_permission,
    classify_action,
)
from policy.model import Landing, Tier, Verdict
from policy.people.reports import GateQuery, GateWord, action_id

FULL = ReputationBounds()
LEVELS = st.sampled_from(TrustLevel)
FLAGS = st.sampled_from([None, True, False])
CONTEXTS = st.fixed_dictionaries(
    {"is_destructive": FLAGS, "affects_production": FLAGS, "is_reversible": FLAGS}
)
NAMES = st.one_of(
    st.text(max_size=40),
    st.lists(
        st.sampled_from(["read", "delete", "deploy", "edit", "send", "prod", "x", "list", "and"]),
        max_size=4,
    ).map("_".join),
)


def test_the_example_of_check_permission() -> None:
    answer = check_permission(
        action="delete_file",
        context={"is_destructive": True, "affects_production": False, "is_reversible": False},
    )
    assert answer.model_dump(mode="json") == {
        "allowed": False,
        "reason": "Destructive action requires approval",
        "required_level": "supervised",
        "current_level": "propose",
    }


def test_the_example_of_can_execute() -> None:
    answer = can_execute(tool_name="duro_delete_artifact", args_hint="delete fact_xxx")
    assert answer.model_dump(mode="json") == {
        "can_execute": False,
        "action_needed": "approve",
        "reason": "Destructive operation requires approval",
    }


def test_the_example_of_classify_action() -> None:
    answer = classify_action(
        action="deploy_production", context={"affects_production": True, "is_reversible": False}
    )
    assert answer.model_dump(mode="json") == {
        "domain": "deployments",
        "risk_level": "high",
        "required_autonomy": "supervised",
        "reason": "Production deployment is high-risk",
    }


def test_the_example_of_record_outcome() -> None:
    before = begin(Domain.CODE_CHANGES)
    after = record_outcome(before, success=True, confidence=0.8)
    assert (before.score, after.score, after.successes) == (0.3, 0.316, 1)


def test_an_action_id_names_the_exact_arguments() -> None:
    one = action_id("duro_delete_artifact", {"id": "fact_1", "force": False})
    assert one == action_id("duro_delete_artifact", {"force": False, "id": "fact_1"})
    assert one != action_id("duro_delete_artifact", {"id": "fact_2", "force": False})


def test_the_example_of_gate_audit() -> None:
    query = GateQuery.model_validate({"decision": "DENY", "limit": 20})
    assert query.matches(Verdict.DENY, "Bash", "2026-02-11T10:00:00Z")
    assert not query.matches(Verdict.ASK, "Bash", "2026-02-11T10:00:00Z")


FILTERS = {
    "decision ALLOW": (GateQuery(decision=GateWord.ALLOW), [Verdict.ALLOW, Verdict.REPORT]),
    "decision DENY": (GateQuery(decision=GateWord.DENY), [Verdict.DENY]),
    "decision NEED_APPROVAL": (GateQuery(decision=GateWord.NEED_APPROVAL), [Verdict.ASK]),
    "tool": (GateQuery(tool="Bash"), list(Verdict)),
    "another tool": (GateQuery(tool="Write"), []),
    "since": (GateQuery(since="2026-02-11T10:00:00Z"), list(Verdict)),
    "since, in another time zone": (GateQuery(since="2026-02-11T12:00:00+02:00"), list(Verdict)),
    "since a later time": (GateQuery(since="2026-02-11T10:00:01Z"), []),
}


@pytest.mark.parametrize("query, found", FILTERS.values(), ids=FILTERS)
def test_a_filter_of_the_audit(query: GateQuery, found: list[Verdict]) -> None:
    at = "2026-02-11T10:00:00Z"
    assert [one for one in Verdict if query.matches(one, "Bash", at)] == found


AUTONOMY_LEVELS = {
    "propose can only suggest": (TrustLevel.PROPOSE, False, "approve", Landing.PROPOSAL),
    "supervised needs explicit approval": (
        TrustLevel.SUPERVISED,
        False,
        "approve",
        Landing.APPROVED,
    ),
    "semi-auto executes unless objected": (TrustLevel.SEMI_AUTO, True, "none", Landing.DELAYED),
    "autonomous executes without asking": (TrustLevel.AUTONOMOUS, True, "none", Landing.AT_ONCE),
}


@pytest.mark.parametrize(
    "level, runs, needed, landing", AUTONOMY_LEVELS.values(), ids=AUTONOMY_LEVELS
)
def test_a_row_of_the_autonomy_levels(
    level: TrustLevel, runs: bool, needed: str, landing: Landing
) -> None:
    answer = can_execute("delete_file", "delete notes.txt", level)
    assert (answer.can_execute, answer.action_needed) == (runs, needed)
    assert LANDINGS[level] is landing


DOMAINS = {
    "code_changes covers file edits": ("edit_file", "code_changes"),
    "code_changes covers code modifications": ("refactor_module", "code_changes"),
    "incident_rca covers debugging": ("debug_service", "incident_rca"),
    "incident_rca covers incident analysis": ("incident_analysis", "incident_rca"),
    "decisions covers architectural choices": ("choose_architecture", "decisions"),
    "deployments covers production changes": ("change_production_config", "deployments"),
}


@pytest.mark.parametrize("action, domain", DOMAINS.values(), ids=DOMAINS)
def test_a_row_of_the_domains(action: str, domain: str) -> None:
    assert classify_action(action).domain == domain


ACTIONS: dict[str, tuple[str, dict[str, Any], tuple[str, str, str, str]]] = {
    "reading is low-risk": (
        "read_file",
        {},
        ("code_changes", "low", "propose", "Reading is low-risk"),
    ),
    "reading of a deployment is low-risk": (
        "get_deployment_status",
        {},
        ("deployments", "low", "propose", "Reading is low-risk"),
    ),
    "an edit can be undone": (
        "edit_file",
        {},
        ("code_changes", "low", "supervised", "Reversible code change is low-risk"),
    ),
    "an edit that is said to be final is not taken for reversible": (
        "edit_file",
        {"is_reversible": False},
        ("code_changes", "medium", "supervised", "Irreversible code change is medium-risk"),
    ),
    "nothing known counts as irreversible": (
        "frobnicate",
        {},
        ("code_changes", "medium", "supervised", "Irreversible code change is medium-risk"),
    ),
    "a deletion cannot be talked down": (
        "delete_file",
        {"is_destructive": False, "is_reversible": True},
        ("code_changes", "high", "supervised", "Destructive code change is high-risk"),
    ),
    "reading that affects production is a change": (
        "read_file",
        {"affects_production": True},
        ("deployments", "high", "supervised", "Production deployment is high-risk"),
    ),
    "destroying in production is critical": (
        "drop_production_database",
        {},
        (
            "deployments",
            "critical",
            "supervised",
            "Destructive production deployment is critical-risk",
        ),
    ),
    "capital letters part words": (
        "DeleteFile",
        {},
        ("code_changes", "high", "supervised", "Destructive code change is high-risk"),
    ),
    "two acts joined are not a reading": (
        "read_and_frobnicate",
        {},
        ("code_changes", "medium", "supervised", "Irreversible code change is medium-risk"),
    ),
    "a value that is no boolean counts as the stricter": (
        "edit_file",
        {"is_destructive": "perhaps", "is_reversible": 7, "colour": "red"},
        ("code_changes", "high", "supervised", "Destructive code change is high-risk"),
    ),
}


@pytest.mark.parametrize("action, context, wanted", ACTIONS.values(), ids=ACTIONS)
def test_an_action_is_classified(
    action: str, context: dict[str, Any], wanted: tuple[str, str, str, str]
) -> None:
    found = classify_action(action, context)
    assert (
        found.domain.value,
        found.risk_level.value,
        found.required_autonomy.value,
        found.reason,
    ) == wanted


PERMISSIONS = {
    "reading is allowed at once": (
        ("read_file", "propose", False),
        (True, "Reading requires no approval"),
    ),
    "an edit is not executed at propose": (
        ("edit_file", "propose", False),
        (False, "Reversible action requires approval"),
    ),
    "a deployment is not executed at propose": (
        ("deploy", "propose", False),
        (False, "Production action requires approval"),
    ),
    "an approved deletion is executed at propose": (
        ("delete_file", "propose", True),
        (True, "Destructive action was approved"),
    ),
    "a deletion is within supervised": (
        ("delete_file", "supervised", False),
        (True, "Destructive action is allowed at level `supervised`"),
    ),
    "a deletion is within autonomous": (
        ("delete_file", "autonomous", False),
        (True, "Destructive action is allowed at level `autonomous`"),
    ),
    "destroying in production is never within a level": (
        ("delete_production", "autonomous", False),
        (False, "Destructive action in production requires approval at every level"),
    ),
    "destroying in production can be approved": (
        ("delete_production", "autonomous", True),
        (True, "Destructive action was approved"),
    ),
}


@pytest.mark.parametrize("asked, wanted", PERMISSIONS.values(), ids=PERMISSIONS)
def test_permission_of_an_action(asked: tuple[str, str, bool], wanted: tuple[bool, str]) -> None:
    action, level, approved = asked
    answer = check_permission(action, {}, level, approved=approved)
    assert (answer.allowed, answer.reason) == wanted
    assert answer.current_level == level


EXECUTIONS = {
    "a reading tool runs": (("Read", "delete.md", "propose", False), (True, "none")),
    "an edit is proposed at propose": (("Edit", "a.py", "propose", False), (False, "propose")),
    "an edit is approved at supervised": (
        ("Edit", "a.py", "supervised", False),
        (False, "approve"),
    ),
    "an edit runs at semi-auto": (("Edit", "a.py", "semi-auto", False), (True, "none")),
    "a command's first word counts": (("Bash", "rm x", "supervised", False), (False, "approve")),
    "a statement to a query tool counts": (
        ("db_query", "DROP TABLE users", "propose", False),
        (False, "approve"),
    ),
    "a push is approved at propose": (("Bash", "git push", "propose", False), (False, "approve")),
    "an approved deletion runs": (("delete_x", "", "propose", True), (True, "none")),
    "destroying in production asks at every level": (
        ("Bash", "rm -r production", "autonomous", False),
        (False, "approve"),
    ),
}


@pytest.mark.parametrize("asked, wanted", EXECUTIONS.values(), ids=EXECUTIONS)
def test_execution_of_a_tool(asked: tuple[str, str, str, bool], wanted: tuple[bool, str]) -> None:
    tool, hint, level, approved = asked
    answer = can_execute(tool, hint, level, approved=approved)
    assert (answer.can_execute, answer.action_needed) == wanted


@given(NAMES, CONTEXTS, LEVELS, st.booleans())
def test_every_action_and_context_gets_the_same_answer_twice(
    action: str, context: dict[str, Any], level: TrustLevel, approved: bool
) -> None:
    first = check_permission(action, context, level, approved=approved)
    assert check_permission(action, context, level, approved=approved) == first
    assert first.reason and "\n" not in first.reason


@given(NAMES, CONTEXTS, LEVELS, LEVELS)
def test_a_higher_level_never_allows_less(
    action: str, context: dict[str, Any], one: TrustLevel, other: TrustLevel
) -> None:
    low, high = sorted((one, other), key=rank)
    if check_permission(action, context, low).allowed:
        assert check_permission(action, context, high).allowed
    if can_execute(action, "", low).can_execute:
        assert can_execute(action, "", high).can_execute


@given(NAMES, LEVELS)
def test_a_worse_context_never_allows_more(action: str, level: TrustLevel) -> None:
    worst = {"is_destructive": True, "affects_production": True, "is_reversible": False}
    if check_permission(action, worst, level).allowed:
        assert check_permission(action, {}, level).allowed


@given(NAMES, CONTEXTS)
def test_what_does_not_only_read_is_never_executed_at_propose(
    action: str, context: dict[str, Any]
) -> None:
    found = classify_action(action, context)
    allowed = check_permission(action, context, "propose").allowed
    assert allowed == (found.required_autonomy is TrustLevel.PROPOSE)


TIERS = {
    "propose reads": ("propose", Tier.SAFE, "allow"),
    "propose works out a proposal": ("propose", Tier.CAUTION, "report"),
    "propose asks for what is dangerous": ("propose", Tier.DANGER, "ask"),
    "supervised reads": ("supervised", Tier.SAFE, "allow"),
    "supervised asks for a write": ("supervised", Tier.CAUTION, "ask"),
    "supervised asks for what is dangerous": ("supervised", Tier.DANGER, "ask"),
    "semi-auto runs": ("semi-auto", Tier.CAUTION, "allow"),
    "autonomous runs": ("autonomous", Tier.DANGER, "allow"),
}


@pytest.mark.parametrize("level, tier, verdict", TIERS.values(), ids=TIERS)
def test_the_layer_of_trust(level: str, tier: Tier, verdict: str) -> None:
    answer = TrustFile.default().answer("a", Domain.CODE_CHANGES, tier, TrustLevel(level))
    assert answer.verdict is Verdict(verdict)


def test_a_new_agent_starts_at_propose_and_main_is_trusted() -> None:
    trust = TrustFile.default()
    assert trust.level("stranger", Domain.CODE_CHANGES) is TrustLevel.PROPOSE
    assert trust.level("main", Domain.DEPLOYMENTS) is TrustLevel.AUTONOMOUS


def test_what_was_earned_counts_within_the_bounds() -> None:
    trust = TrustFile.default().model_copy(
        update={"bounds": {Domain.DEPLOYMENTS: ReputationBounds(highest=TrustLevel.SUPERVISED)}}
    )
    earned = {"deployments": "autonomous", "code_changes": "semi-auto"}
    assert trust.level("a", Domain.DEPLOYMENTS, earned) is TrustLevel.SUPERVISED
    assert trust.level("a", Domain.CODE_CHANGES, earned) is TrustLevel.SEMI_AUTO


STATES = st.builds(
    Reputation,
    domain=st.sampled_from(Domain),
    score=st.floats(0, 1).map(lambda x: round(x, 6)),
    level=LEVELS,
    pinned=st.none() | LEVELS,
    streak=st.integers(0, 12),
)
BOUNDS = st.tuples(LEVELS, LEVELS).map(
    lambda two: ReputationBounds(lowest=min(two, key=rank), highest=max(two, key=rank))
)
CONFIDENCES = st.floats(allow_nan=True, allow_infinity=True)


@given(STATES, st.floats(0, 1))
def test_a_failure_lowers_more_than_a_success_raises(state: Reputation, confidence: float) -> None:
    up = record_outcome(state, success=True, confidence=confidence)
    down = record_outcome(up, success=False, confidence=confidence)
    assert up.score >= state.score
    assert down.score <= max(state.score, 0.0) + 1e-6


@given(STATES, st.floats(0, 1))
def test_a_revert_lowers_at_least_as_much_as_a_failure(
    state: Reputation, confidence: float
) -> None:
    failed = record_outcome(state, success=False, confidence=confidence)
    reverted = record_outcome(state, success=True, reverted=True, confidence=confidence)
    assert reverted.score <= failed.score <= state.score
    assert (reverted.reverts, reverted.successes) == (state.reverts + 1, state.successes)


@given(STATES, st.floats(0, 1), st.floats(0, 1))
def test_confidence_weighs(state: Reputation, one: float, other: float) -> None:
    low, high = sorted((one, other))
    for success in (True, False):
        few = record_outcome(state, success=success, confidence=low).score
        many = record_outcome(state, success=success, confidence=high).score
        assert abs(few - state.score) <= abs(many - state.score) + 1e-6


@given(STATES, BOUNDS, CONFIDENCES, st.booleans(), st.booleans(), st.booleans())
def test_reputation_stays_within_its_bounds(
    state: Reputation,
    bounds: ReputationBounds,
    confidence: float,
    success: bool,
    revert: bool,
    bad: bool,
) -> None:
    after = record_outcome(
        state,
        success=success,
        confidence=confidence,
        reverted=revert,
        violation=bad,
        bounds=bounds,
    )
    assert 0 <= after.score <= 1
    assert rank(bounds.lowest) <= rank(after.level) <= rank(bounds.highest)
    assert after.pinned is state.pinned


@given(STATES, st.booleans())
def test_a_level_rises_by_one_step_at_most(state: Reputation, success: bool) -> None:
    after = record_outcome(state, success=success)
    assert rank(after.level) <= rank(state.level) + 1
    if not success:
        assert rank(after.level) <= rank(state.level)


@given(STATES)
def test_a_violation_drops_to_the_lowest_at_once(state: Reputation) -> None:
    after = record_outcome(state, success=True, violation=True)
    assert (after.level, after.streak) == (TrustLevel.PROPOSE, 0)
    assert after.score <= state.score


def test_small_successes_compound_into_autonomy() -> None:
    state, levels = begin(Domain.CODE_CHANGES), []
    for _ in range(40):
        state = record_outcome(state, success=True)
        levels.append(state.level.value)
    changes = {level: levels.index(level) + 1 for level in dict.fromkeys(levels)}
    assert changes == {"propose": 1, "supervised": 10, "semi-auto": 20, "autonomous": 30}


def test_a_few_failures_cost_what_many_successes_earned() -> None:
    state = begin(Domain.CODE_CHANGES, TrustLevel.AUTONOMOUS)
    levels = []
    for _ in range(8):
        state = record_outcome(state, success=False)
        levels.append(state.level.value)
    assert levels == [
        "autonomous", "semi-auto", "semi-auto", "semi-auto",
        "semi-auto", "supervised", "supervised", "supervised",
    ]  # fmt: skip


def test_a_success_without_confidence_moves_nothing() -> None:
    state = begin(Domain.DECISIONS)
    after = record_outcome(state, success=True, confidence=0.0)
    assert (after.score, after.streak, after.level) == (state.score, 0, state.level)


def test_what_was_earned_fades_by_half_in_a_half_life() -> None:
    state = begin(Domain.CODE_CHANGES, TrustLevel.AUTONOMOUS)
    scores = [decayed(state, days) for days in (-1, 0, 90, 180, 9000)]
    assert [one.score for one in scores] == [0.8, 0.8, 0.55, 0.425, 0.3]
    assert [one.level.value for one in scores] == [
        "autonomous", "autonomous", "semi-auto", "supervised", "supervised",
    ]  # fmt: skip


@given(STATES, BOUNDS, CONFIDENCES, st.integers(0, 400))
def test_time_never_raises(
    state: Reputation, bounds: ReputationBounds, days: float, more: int
) -> None:
    inside = state.model_copy(update={"level": bounds.lowest})
    for one in (inside, begin(state.domain, state.level, bounds)):
        after = decayed(one, days, bounds=bounds)
        assert after.score <= one.score
        assert rank(bounds.lowest) <= rank(after.level) <= rank(one.level)
    later = decayed(state, 100 + more)
    assert later.score <= decayed(state, 100).score + 1e-6


def test_a_level_that_does_not_exist_is_the_lowest() -> None:
    trust = TrustFile.default()
    assert trust.level("other", Domain.DECISIONS, {"decisions": "godlike"}) is TrustLevel.PROPOSE


def test_a_pinned_agent_is_where_a_person_put_it_whatever_it_earned() -> None:
    trust = TrustFile(pins={"main": TrustLevel.SUPERVISED, "ma*": TrustLevel.AUTONOMOUS})
    earned = {"code_changes": "autonomous"}
    assert trust.level("main", Domain.CODE_CHANGES, earned) is TrustLevel.SUPERVISED
    assert trust.level("mary", Domain.CODE_CHANGES, {}) is TrustLevel.AUTONOMOUS
    assert trust.level("other", Domain.CODE_CHANGES, earned) is TrustLevel.AUTONOMOUS
    capped = trust.model_copy(
        update={"bounds": {Domain.CODE_CHANGES: ReputationBounds(highest=TrustLevel.PROPOSE)}}
    )
    assert capped.level("mary", Domain.CODE_CHANGES, {}) is TrustLevel.PROPOSE


def test_a_pin_holds_the_level_while_the_score_goes_on() -> None:
    state = pin(begin(Domain.CODE_CHANGES), TrustLevel.SUPERVISED)
    for _ in range(40):
        state = record_outcome(state, success=True)
    assert (state.current, state.level) == (TrustLevel.SUPERVISED, TrustLevel.AUTONOMOUS)
    assert pin(state, None).current is TrustLevel.AUTONOMOUS


def test_the_status_shows_overall_domains_approvals_and_constraints() -> None:
    code = record_outcome(begin(Domain.CODE_CHANGES), success=True)
    deploy = begin(Domain.DEPLOYMENTS)
    status = autonomy_status([deploy, code], [{"action_id": "x:00000000"}], ["network: none"])
    assert status.model_dump(mode="json") == {
        "overall_reputation": 0.31,
        "domains": {
            "code_changes": code.model_dump(mode="json"),
            "deployments": deploy.model_dump(mode="json"),
        },
        "current_levels": {"code_changes": "propose", "deployments": "propose"},
        "active_approvals": [{"action_id": "x:00000000"}],
        "constraints": ["network: none"],
    }


def test_a_status_of_nothing_is_no_reputation() -> None:
    assert autonomy_status([]).overall_reputation == 0.0


WRONG: dict[str, dict[str, Any]] = {
    "a success that weighs as much as a failure": {"success": 0.06},
    "a revert that weighs less than a failure": {"revert": 0.01},
    "thresholds that fall": {"thresholds": {"supervised": 0.7, "semi-auto": 0.6}},
}


@pytest.mark.parametrize("values", WRONG.values(), ids=WRONG)
def test_arithmetic_that_loosens_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        Arithmetic.model_validate(values)


def test_a_limit_on_an_agent_holds_for_its_sub_agents() -> None:
    limit = TrustFile(agents={"a": TrustLevel.PROPOSE}, pins={"b": TrustLevel.SUPERVISED})
    assert limit.most("a:sub:1", Domain.CODE_CHANGES) is TrustLevel.PROPOSE
    assert limit.most("b:x", Domain.CODE_CHANGES) is TrustLevel.SUPERVISED
    assert limit.most("ab:x", Domain.CODE_CHANGES) is TrustLevel.AUTONOMOUS
    pinned = TrustFile(pins={"b": TrustLevel.SUPERVISED, "b:x": TrustLevel.AUTONOMOUS})
    assert pinned.level("b:x", Domain.CODE_CHANGES) is TrustLevel.SUPERVISED
    assert pinned.level("c:x", Domain.CODE_CHANGES) is TrustLevel.PROPOSE
