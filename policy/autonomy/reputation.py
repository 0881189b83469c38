# SPDX-License-Identifier: Apache-2.0
"""Reputation per domain, and how it moves the level of trust (orchestration.md).

The rules of "Reputation System" as pure arithmetic on frozen states; where states are kept is
somebody else's business. A success raises the score, a failure lowers it more, a revert more again;
confidence weighs. A level rises one step after several successes in a row at a sufficient score,
and falls as soon as the score has fallen below what the level needs. A violation drops it to the
lowest at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Annotated, Any

from pydantic import Field, model_validator

from policy.model import Frozen


class TrustLevel(str, Enum):
    """The four levels of "Autonomy Levels", from the lowest to the highest."""

    PROPOSE = "propose"
    SUPERVISED = "supervised"
    SEMI_AUTO = "semi-auto"
    AUTONOMOUS = "autonomous"


class Domain(str, Enum):
    """What reputation is kept for ("Domains")."""

    CODE_CHANGES = "code_changes"
    INCIDENT_RCA = "incident_rca"
    DECISIONS = "decisions"
    DEPLOYMENTS = "deployments"


TRUST_LEVELS = tuple(TrustLevel)
Share = Annotated[float, Field(ge=0, le=1)]
_DIGITS = 6


def rank(level: TrustLevel) -> int:
    """Return the place of a level, from the lowest."""
    return TRUST_LEVELS.index(level)


def lower(levels: Iterable[TrustLevel]) -> TrustLevel:
    """Return the lowest of some levels; none at all is PROPOSE."""
    return min(levels, key=rank, default=TrustLevel.PROPOSE)


class ReputationBounds(Frozen):
    """Between which levels reputation may move an agent; a person sets them."""

    lowest: TrustLevel = TrustLevel.PROPOSE
    highest: TrustLevel = TrustLevel.AUTONOMOUS

    @model_validator(mode="after")
    def _ordered(self) -> ReputationBounds:
        if rank(self.lowest) > rank(self.highest):
            raise ValueError(
                f"lowest `{self.lowest.value}` is above highest `{self.highest.value}`"
            )
        return self


class Arithmetic(Frozen):
    """By how much an outcome moves a score, and where levels begin."""

    start: Share = 0.3
    success: Share = 0.02
    failure: Share = 0.06
    revert: Share = 0.1
    violation: Share = 0.3
    thresholds: dict[TrustLevel, Share] = Field(
        default_factory=lambda: {
            TrustLevel.SUPERVISED: 0.4,
            TrustLevel.SEMI_AUTO: 0.6,
            TrustLevel.AUTONOMOUS: 0.8,
        }
    )
    """The score from which a level can be reached."""
    slack: Share = 0.1
    """How far the score may fall below that before the level is lost."""
    successes_per_step: Annotated[int, Field(ge=1)] = 10
    """Successes in a row before a level rises by one."""
    half_life_days: Annotated[float, Field(gt=0)] = 90.0
    """Days without an outcome after which half of what was earned above the start is gone."""

    @model_validator(mode="after")
    def _ordered(self) -> Arithmetic:
        if not self.success < self.failure <= self.revert <= self.violation:
            raise ValueError("success must move less than failure, revert and violation, in order")
        scores = [self.threshold(level) for level in TRUST_LEVELS]
        if scores != sorted(scores):
            raise ValueError("thresholds must not fall from one level to the next")
        return self

    def threshold(self, level: TrustLevel) -> float:
        """Return the score from which a level can be reached; the lowest needs none."""
        missing = 0.0 if level is TrustLevel.PROPOSE else 1.0
        return self.thresholds.get(level, missing)


class Reputation(Frozen):
    """What one agent has earned in one domain."""

    domain: Domain
    score: Share
    level: TrustLevel = TrustLevel.PROPOSE
    """What was earned; a pin does not change it."""
    pinned: TrustLevel | None = None
    """What a person set in its place."""
    successes: Annotated[int, Field(ge=0)] = 0
    failures: Annotated[int, Field(ge=0)] = 0
    reverts: Annotated[int, Field(ge=0)] = 0
    violations: Annotated[int, Field(ge=0)] = 0
    streak: Annotated[int, Field(ge=0)] = 0
    """Successes since the last failure or the last change of the level."""

    @property
    def current(self) -> TrustLevel:
        """The level that counts."""
        return self.pinned or self.level


def begin(
    domain: Domain,
    level: TrustLevel = TrustLevel.PROPOSE,
    bounds: ReputationBounds | None = None,
    arithmetic: Arithmetic | None = None,
) -> Reputation:
    """Return the state of an agent that has done nothing yet, at the level where it starts."""
    numbers = arithmetic or Arithmetic()
    start = _clamped(level, bounds or ReputationBounds())
    return Reputation(
        domain=domain, level=start, score=max(numbers.start, numbers.threshold(start))
    )


def record_outcome(
    state: Reputation,
    *,
    success: bool,
    confidence: float = 1.0,
    reverted: bool = False,
    violation: bool = False,
    bounds: ReputationBounds | None = None,
    arithmetic: Arithmetic | None = None,
) -> Reputation:
    """Return the state after an outcome ("Build Reputation"). `confidence` is clamped to 0..1; a
    revert or a violation is never a success."""
    numbers, within = arithmetic or Arithmetic(), bounds or ReputationBounds()
    weight = min(max(confidence, 0.0), 1.0) if confidence == confidence else 0.0
    if violation:
        return _violated(state, numbers, within)
    if reverted:
        changed = _fallen(state, numbers.revert * weight, {"reverts": state.reverts + 1})
    elif not success:
        changed = _fallen(state, numbers.failure * weight, {"failures": state.failures + 1})
    else:
        score = round(min(state.score + numbers.success * weight, 1.0), _DIGITS)
        done = {"successes": state.successes + 1, "streak": state.streak + (weight > 0)}
        changed = state.model_copy(update={"score": score, **done})
    return _moved(changed, numbers, within)


def _fallen(state: Reputation, by: float, done: Mapping[str, int]) -> Reputation:
    score = round(max(state.score - by, 0.0), _DIGITS)
    return state.model_copy(update={"score": score, "streak": 0, **done})


def _violated(state: Reputation, numbers: Arithmetic, bounds: ReputationBounds) -> Reputation:
    fallen = _fallen(state, numbers.violation, {"violations": state.violations + 1})
    return fallen.model_copy(update={"level": bounds.lowest})


def _moved(
    state: Reputation, numbers: Arithmetic, bounds: ReputationBounds, *, rise: bool = True
) -> Reputation:
    level = _clamped(state.level, bounds)
    streak = state.streak
    while rank(level) > rank(bounds.lowest) and (
        state.score < round(numbers.threshold(level) - numbers.slack, _DIGITS)
    ):
        level, streak = TRUST_LEVELS[rank(level) - 1], 0
    if rise and level is state.level and rank(level) < rank(bounds.highest):
        above = TRUST_LEVELS[rank(level) + 1]
        if streak >= numbers.successes_per_step and state.score >= numbers.threshold(above):
            level, streak = above, 0
    return state.model_copy(update={"level": level, "streak": streak})


def _clamped(level: TrustLevel, bounds: ReputationBounds) -> TrustLevel:
    return TRUST_LEVELS[min(max(rank(level), rank(bounds.lowest)), rank(bounds.highest))]


def decayed(
    state: Reputation,
    days: float,
    *,
    bounds: ReputationBounds | None = None,
    arithmetic: Arithmetic | None = None,
) -> Reputation:
    """Return the state after days without an outcome; what was earned fades, what was lost stays.

    Time never raises a score or a level, and days below zero are none.
    """
    numbers = arithmetic or Arithmetic()
    earned = state.score - numbers.start
    if earned <= 0 or not days > 0:
        return state
    kept = earned * 0.5 ** (days / numbers.half_life_days)
    score = round(numbers.start + kept, _DIGITS)
    return _moved(
        state.model_copy(update={"score": score}), numbers, bounds or ReputationBounds(), rise=False
    )


def pin(state: Reputation, level: TrustLevel | None) -> Reputation:
    """Return the state with the level that a person sets, or without it (None)."""
    return state.model_copy(update={"pinned": level})


class AutonomyStatus(Frozen):
    """The answer of `autonomy_status` ("Autonomy Status")."""

    overall_reputation: float
    """The mean of the domains' scores."""
    domains: dict[Domain, Reputation]
    """What was earned; a pin or a bound of the policy may set another level."""
    current_levels: dict[Domain, TrustLevel] = Field(default_factory=dict)
    """The levels that count."""
    active_approvals: tuple[dict[str, Any], ...] = ()
    constraints: tuple[str, ...] = ()


def autonomy_status(
    states: Iterable[Reputation],
    active_approvals: Sequence[Mapping[str, Any]] = (),
    constraints: Sequence[str] = (),
    *,
    levels: Mapping[Domain, TrustLevel] | None = None,
) -> AutonomyStatus:
    """Return overall reputation, per-domain scores, active approvals and current constraints."""
    reputations = {state.domain: state for state in states}
    total = sum(state.score for state in reputations.values())
    return AutonomyStatus(
        overall_reputation=round(total / len(reputations), _DIGITS) if reputations else 0.0,
        domains={domain: reputations[domain] for domain in Domain if domain in reputations},
        current_levels={
            domain: (levels or {}).get(domain, state.current)
            for domain, state in reputations.items()
        },
        active_approvals=tuple(dict(approval) for approval in active_approvals),
        constraints=tuple(constraints),
    )
