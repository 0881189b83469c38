# SPDX-License-Identifier: Apache-2.0
"""What is kept of agents' reputation, and what moves it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.autonomy.reputation import Domain, ReputationBounds, TrustLevel, begin, rank
from policy.autonomy.trust import TrustFile
from policy.model import Tier, Verdict
from sandbox.agents.reputation import (
    EARNED_SECONDS,
    ReputationEvent,
    Reputations,
    ReputationSource,
    after,
    observed,
)
from sandbox.config.settings import Dirs
from sandbox.results import CallResult, ChangeView, Ending
from tests.sandbox.shells import Shell

TRUST = TrustFile()
CODE = Domain.CODE_CHANGES
DAY = 86_400.0


class Clock:
    """A clock that a test sets."""

    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def kept(tmp_path: Path, clock: Clock) -> Reputations:
    return Reputations(Dirs.under(tmp_path).create(), clock)


def good(**fields: object) -> ReputationEvent:
    """Return a success by a person's word, which counts as often as it is given."""
    return ReputationEvent(CODE, success=True, **{"source": ReputationSource.PERSON, **fields})  # type: ignore[arg-type]


def test_nothing_is_earned_until_something_was_done(kept: Reputations) -> None:
    assert kept.earned("a", TRUST) == ()
    assert kept.agents() == []
    assert kept.states("a", TRUST)[CODE] == begin(CODE)


def test_of_whom_nothing_is_known_is_looked_up_again_where_anything_is_new(
    kept: Reputations, tmp_path: Path
) -> None:
    def pinned(level: TrustLevel) -> TrustFile:
        return TrustFile(agents={"m*": TrustLevel.AUTONOMOUS}, pins={"m": level})

    first, second = pinned(TrustLevel.SUPERVISED), pinned(TrustLevel.SEMI_AUTO)
    for _ in range(2):
        assert kept.earned("m:x", first) == tuple((one.value, "supervised") for one in Domain)
        assert kept.earned("m:x", first) is kept.earned("m:x", first)  # nothing is worked out anew
        assert kept.earned("m:x", second) == tuple((one.value, "semi-auto") for one in Domain)
    other = Reputations(Dirs.under(tmp_path), lambda: Clock.now)  # as another process
    other.record("m:x", ReputationEvent(CODE, success=False, violation=True), second)
    assert dict(kept.earned("m:x", second))["code_changes"] == "propose"


def test_what_is_earned_is_seen_by_the_next_process(kept: Reputations, tmp_path: Path) -> None:
    for _ in range(10):
        kept.record("a", good(), TRUST)
    other = Reputations(Dirs.under(tmp_path), lambda: Clock.now)
    assert other.states("a", TRUST)[CODE].score == pytest.approx(0.5)
    assert other.earned("a", TRUST) == (("code_changes", "supervised"),)
    assert other.agents() == ["a"]
    assert other.earned("b", TRUST) == ()


def test_a_success_that_was_seen_counts_once_in_a_while(
    kept: Reputations, clock: Clock, tmp_path: Path
) -> None:
    """An agent that runs tests that always pass, a hundred times, has earned nothing by that."""
    seen = good(source=ReputationSource.OBSERVED)
    first = kept.record("a", seen, TRUST)
    for _ in range(100):
        assert kept.record("a", seen, TRUST) == first
    other = Reputations(Dirs.under(tmp_path), lambda: clock.now)  # another process keeps to it too
    assert other.record("a", seen, TRUST) == first
    clock.now -= DAY  # a clock that was set back earns nothing either
    assert kept.record("a", seen, TRUST).successes == 1
    clock.now += DAY + EARNED_SECONDS
    assert kept.record("a", seen, TRUST).successes == 2
    bad = ReputationEvent(CODE, success=False)  # what speaks against it counts each time
    assert [kept.record("a", bad, TRUST).failures for _ in range(2)] == [1, 2]


def test_a_violation_drops_it_at_once(kept: Reputations) -> None:
    for _ in range(25):
        kept.record("a", good(), TRUST)
    assert kept.states("a", TRUST)[CODE].level is TrustLevel.SEMI_AUTO
    fallen = kept.record("a", ReputationEvent(CODE, success=False, violation=True), TRUST)
    assert fallen.level is TrustLevel.PROPOSE


def test_it_fades_with_time_and_never_rises_by_it(kept: Reputations, clock: Clock) -> None:
    for _ in range(20):
        kept.record("a", good(), TRUST)
    before = kept.states("a", TRUST)[CODE]
    clock.now += 90 * DAY
    faded = kept.states("a", TRUST)[CODE]
    assert faded.score == pytest.approx(0.3 + (before.score - 0.3) / 2)
    clock.now -= 200 * DAY
    assert kept.states("a", TRUST)[CODE].score == before.score


def test_a_person_pins_a_level_and_takes_the_pin_away(kept: Reputations) -> None:
    assert kept.pin("a", CODE, TrustLevel.SEMI_AUTO, TRUST).current is TrustLevel.SEMI_AUTO
    assert kept.earned("a", TRUST) == (("code_changes", "semi-auto"),)
    assert kept.pin("a", CODE, None, TRUST).current is TrustLevel.PROPOSE


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 1)), max_size=200))
def test_no_agent_rises_by_its_own_word(said: list[tuple[bool, float]]) -> None:
    state = begin(CODE, TrustLevel.SUPERVISED)
    for success, confidence in said:
        event = ReputationEvent(
            CODE, success=success, confidence=confidence, source=ReputationSource.AGENT
        )
        new = after(state, event, TRUST)
        assert rank(new.level) <= rank(state.level)
        state = new


def test_seen_outcomes_do_raise_it() -> None:
    state = begin(CODE, TrustLevel.SUPERVISED)
    for _ in range(40):
        state = after(state, good(), TRUST)
    assert state.level is TrustLevel.AUTONOMOUS
    capped = TRUST.model_copy(
        update={"bounds": {CODE: ReputationBounds(highest=TrustLevel.SUPERVISED)}}
    )
    state = begin(CODE, TrustLevel.SUPERVISED)
    for _ in range(40):
        state = after(state, good(), capped)
    assert state.level is TrustLevel.SUPERVISED


def result(**fields: object) -> CallResult:
    base = {
        "id": "c1",
        "tool": "Bash",
        "verdict": Verdict.REPORT,
        "tier": Tier.CAUTION,
        "rules": ("tests",),
        "message": "",
        "ending": Ending.RAN,
        "exit_status": 0,
    }
    return CallResult(**{**base, **fields})  # type: ignore[arg-type]


def test_what_is_observed() -> None:
    def seen(**fields: object) -> tuple[bool, bool] | None:
        event = observed(result(**fields), lambda: CODE, vouched=True)
        return None if event is None else (event.success, event.violation)

    held = ChangeView(path="a", kind="modified", type="file", outcome="hold", reason="x")
    conflict = held.model_copy(update={"reason": "the real file changed while the call ran"})
    assert seen() == (True, False)
    assert seen(exit_status=1) == (False, False)
    assert seen(rules=("write",)) is None
    assert seen(ending=Ending.TIMED_OUT, exit_status=124) is None
    assert seen(judgement="discard") == (False, True)
    assert seen(judgement="discard", objected=True) == (False, False)
    assert seen(judgement="hold", rules=(), changes=(held,)) is None
    assert seen(judgement="hold", rules=(), changes=(conflict,)) == (False, False)


def test_an_objection_counts_like_an_undo() -> None:
    """Found when one objection took an agent to the lowest level, as a violation does."""
    start = begin(CODE, TrustLevel.SEMI_AUTO)

    def then(**fields: object) -> tuple[int, int]:
        event = observed(result(judgement="discard", **fields), lambda: CODE, vouched=True)
        assert event is not None
        state = after(start, event, TRUST)
        return state.reverts, state.violations

    assert then(objected=True) == (1, 0)
    assert then() == (0, 1)


def test_the_status_of_an_agent_says_the_levels_that_count(tmp_path: Path) -> None:
    """What was earned stands beside them: the policy pins `main`, whatever it lost."""
    shell = Shell(tmp_path)
    shell.dirs.create()
    for _ in range(3):
        Reputations(shell.dirs).record(
            "main", ReputationEvent(CODE, success=False, reverted=True), TRUST
        )
    status, out, _ = shell("trust", "show", "main", "--json")
    found = json.loads(out)["main"]
    assert status == 0
    assert found["domains"]["code_changes"]["reverts"] == 3
    assert found["current_levels"]["code_changes"] == "autonomous"
    assert "code_changes: autonomous" in found["constraints"]
    assert "autonomous" in shell("trust", "show", "main")[1]


def test_a_violation_of_a_child_is_shown_at_its_parent_and_lowers_the_child_alone(
    tmp_path: Path,
) -> None:
    shell = Shell(tmp_path)
    kept = Reputations(shell.dirs.create())
    trust = TrustFile(agents={"lead*": TrustLevel.SEMI_AUTO})
    kept.record("lead", good(), trust)
    for _ in range(2):
        kept.record("lead:x:y", ReputationEvent(CODE, success=False, violation=True), trust)
    assert kept.violations_below("lead") == kept.violations_below("lead:x") == {"lead:x:y": 2}
    assert kept.violations_below("lead:x:y") == kept.violations_below("le") == {}
    assert kept.states("lead", trust)[CODE].current is TrustLevel.SEMI_AUTO
    found = json.loads(shell("trust", "show", "lead", "--json")[1])["lead"]
    assert found["violations_below"] == {"lead:x:y": 2}
    assert "lead:x:y, which works for lead, changed" in shell("trust", "show", "lead")[1]
    assert "works for" not in shell("trust", "show", "lead:x:y")[1]


def test_a_child_is_never_above_an_agent_that_it_works_for(kept: Reputations) -> None:
    """Found when an agent that had lost its level made the same calls as its own sub-agent."""
    trust = TrustFile(agents={"a*": TrustLevel.AUTONOMOUS})
    assert kept.earned("a:sub:1", trust) == ()  # nothing is known: both are autonomous
    kept.record("a", ReputationEvent(CODE, success=False, violation=True), trust)
    assert kept.earned("a", trust) == (("code_changes", "propose"),)
    for child in ("a:sub:1", "a:x", "a:x:y"):
        assert kept.earned(child, trust) == (("code_changes", "propose"),)
    assert kept.earned("ab:sub:1", trust) == ()  # another family
    kept.pin("a:x", CODE, TrustLevel.AUTONOMOUS, trust)
    assert kept.earned("a:x", trust) == (("code_changes", "propose"),)
    kept.pin("a", CODE, TrustLevel.SUPERVISED, trust)
    assert kept.earned("a:x", trust) == (("code_changes", "supervised"),)
    assert kept.earned("a:x:y", trust) == (("code_changes", "supervised"),)
    kept.record("a:z", ReputationEvent(CODE, success=False, violation=True), trust)
    assert kept.earned("a:z", trust) == (("code_changes", "propose"),)  # nor raised by it


def test_what_a_parent_is_pinned_to_counts_and_not_what_it_lost(kept: Reputations) -> None:
    trust = TrustFile(
        agents={"m*": TrustLevel.SEMI_AUTO},
        pins={"m": TrustLevel.SUPERVISED, "n": TrustLevel.AUTONOMOUS},
    )
    assert kept.earned("m:x", trust) == tuple((one.value, "supervised") for one in Domain)
    kept.record("n", ReputationEvent(CODE, success=False, violation=True), trust)
    kept.pin("n:x", CODE, TrustLevel.AUTONOMOUS, trust)
    assert dict(kept.earned("n:x", trust))["code_changes"] == "autonomous"


LEVELS = st.sampled_from(list(TrustLevel))
LINE = ("a", "a:b", "a:b:c")


@settings(deadline=None, max_examples=40)  # each event is on disk
@given(
    events=st.lists(st.tuples(st.sampled_from(LINE), st.booleans(), st.booleans()), max_size=8),
    pins=st.dictionaries(st.sampled_from(LINE), LEVELS),
    starts=st.dictionaries(st.sampled_from(("a", "a*", "a:b", "*:c")), LEVELS),
)
def test_a_line_of_agents_only_falls(
    tmp_path_factory: pytest.TempPathFactory,
    events: list[tuple[str, bool, bool]],
    pins: dict[str, TrustLevel],
    starts: dict[str, TrustLevel],
) -> None:
    kept = Reputations(Dirs.under(tmp_path_factory.mktemp("line")).create())
    trust = TrustFile(agents=starts)
    for agent, level in pins.items():
        kept.pin(agent, CODE, level, trust)
    for agent, success, violation in events:
        bad = violation and not success
        kept.record(
            agent,
            ReputationEvent(CODE, success=success, violation=bad, source=ReputationSource.PERSON),
            trust,
        )
    known = [name for name in LINE if name in kept.agents()]
    levels = [rank(trust.level(one, CODE, dict(kept.earned(one, trust)))) for one in known]
    assert levels == sorted(levels, reverse=True)
