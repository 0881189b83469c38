# SPDX-License-Identifier: Apache-2.0
"""Trust: what an agent may execute, by what it has earned (orchestration.md).

`classify_action`, `check_permission` and `can_execute` give the answers of that document, for any
action and context. How reputation moves a level is `reputation`'s business.

An action's required level is the lowest at which it may be executed at all: reading needs none
beyond `propose`, everything with an effect needs `supervised`, where a person approves each one
("Autonomy Levels"). What destroys in production needs that approval at every level. What is said of
an action (the context) can make an answer stricter; it counts in favour only where the action's own
name says nothing, and never for less than `supervised`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import Field

from policy.autonomy.actions import ActionContext, ActionWords, Risk, words_of
from policy.autonomy.agent_globs import names_agent
from policy.autonomy.reputation import (
    TRUST_LEVELS,
    Arithmetic,
    Domain,
    ReputationBounds,
    TrustLevel,
    lower,
    rank,
)
from policy.model import Frozen, Landing, LayerAnswer, Tier, Verdict
from policy.values import strict_yaml

LANDINGS = {
    TrustLevel.PROPOSE: Landing.PROPOSAL,
    TrustLevel.SUPERVISED: Landing.APPROVED,
    TrustLevel.SEMI_AUTO: Landing.DELAYED,
    TrustLevel.AUTONOMOUS: Landing.AT_ONCE,
}


class Classification(Frozen):
    """The answer of `classify_action`."""

    domain: Domain
    risk_level: Risk
    required_autonomy: TrustLevel
    reason: str


class TrustPermission(Frozen):
    """The answer of `check_permission`."""

    allowed: bool
    reason: str
    required_level: TrustLevel
    current_level: TrustLevel


class Executable(Frozen):
    """The answer of `can_execute`."""

    can_execute: bool
    action_needed: Literal["none", "approve", "propose"]
    """`approve`: ask a person for this one action. `propose`: only suggest it."""
    reason: str


_NOUNS = {
    Domain.CODE_CHANGES: "code change",
    Domain.INCIDENT_RCA: "incident analysis",
    Domain.DECISIONS: "decision",
    Domain.DEPLOYMENTS: "deployment",
}


def _with_above(agent: str) -> tuple[str, ...]:
    """Return an agent's name and those of the agents above it (`a:b:c`, `a:b`, `a`)."""
    parts = agent.split(":")
    return tuple(":".join(parts[:count]) for count in range(len(parts), 0, -1))


class TrustFile(Frozen):
    """The file `trust.yaml`."""

    start: TrustLevel = TrustLevel.PROPOSE
    """Where a new agent starts ("Start Restricted")."""
    agents: dict[str, TrustLevel] = Field(default_factory=dict)
    """Where named agents start; globs, also of the end of a path that a kind begins (`sub:*` fits
    `main:sub:7`); the lowest that fits counts. What fits an agent fits its sub-agents (`agent:...`)
    too, so that a child is trusted no more than its parent (P7)."""
    pins: dict[str, TrustLevel] = Field(default_factory=dict)
    """Levels that a person sets for agents, whatever they earn; globs; the lowest that fits."""
    bounds: dict[Domain, ReputationBounds] = Field(default_factory=dict)
    objection_seconds: Annotated[float, Field(ge=0, le=86_400)] = 5.0
    """How long the changes of a `semi-auto` agent wait for an objection before they land."""
    reputation: Arithmetic = Arithmetic()
    words: ActionWords = ActionWords()
    domains: dict[Domain, frozenset[str]] = Field(default_factory=dict)

    @staticmethod
    @lru_cache(maxsize=1)
    def default() -> TrustFile:
        """Return the trust that comes with the package."""
        return strict_yaml.default(TrustFile, "trust.yaml")

    def level(
        self, agent: str, domain: Domain, earned: Mapping[str, str] | None = None
    ) -> TrustLevel:
        """Return an agent's current level: what a person pinned, or what it earned, or where it
        starts; within bounds.

        What one that works for another (`a:b`) is given as earned is a bound as well: its pin
        reaches no further, since the agents above it stand no higher (P7).
        """
        said = earned.get(domain.value) if earned else None
        known = TrustLevel(said) if said in TRUST_LEVELS else TrustLevel.PROPOSE
        pinned = [one for name, one in self.pins.items() if names_agent(name, agent)]
        if pinned:  # no pin of an agent above is lower
            bound = [known] if said is not None and ":" in agent else []
            trust_level = lower([*pinned, *self._said(self.pins, agent), *bound])
        elif said is not None:
            trust_level = known
        else:
            fits = self._said(self.agents, agent)
            trust_level = lower(fits) if fits else self.start
        bounds = self.bounds.get(domain)
        return trust_level if bounds is None else lower((trust_level, bounds.highest))

    def pinned(self, agent: str) -> bool:
        """Whether a person pinned an agent's level in a policy file."""
        return any(names_agent(name, agent) for name in self.pins)

    def most(self, agent: str, domain: Domain) -> TrustLevel:
        """Return the highest level that this file leaves an agent, by what it says itself of it and
        of those above it."""
        return lower(self._most(name, domain) for name in _with_above(agent))

    def _most(self, agent: str, domain: Domain) -> TrustLevel:
        fits = self._said(self.agents, agent)
        starts = [self.start] if "start" in self.model_fields_set and not fits else []
        bounds = self.bounds.get(domain)
        highest = [bounds.highest] if bounds is not None else []
        pins = self._said(self.pins, agent)
        levels = (*pins, *fits, *starts, *highest)
        return min(levels, key=rank, default=TrustLevel.AUTONOMOUS)

    @staticmethod
    def _said(levels: Mapping[str, TrustLevel], agent: str) -> list[TrustLevel]:
        """Return what globs say of an agent, or of one above it."""
        names = _with_above(agent)
        return [
            one for glob, one in levels.items() if any(names_agent(glob, name) for name in names)
        ]

    def domain(self, action: str) -> Domain:
        """Return the domain of an action by its words; deployments before all others."""
        words = words_of(action)
        for domain in (Domain.DEPLOYMENTS, Domain.INCIDENT_RCA, Domain.DECISIONS):
            if words & self.domains.get(domain, frozenset()):
                return domain
        return Domain.CODE_CHANGES

    def classify(self, action: str, context: ActionContext, hint: str = "") -> Classification:
        """Return domain, risk and required level of an action."""
        nature = self.words.nature(action, context, hint)
        domain = self.domain(f"{action} {hint}")
        if context.affects_production and not nature.reads:
            domain = Domain.DEPLOYMENTS
        if nature.reads:
            return Classification(
                domain=domain,
                risk_level=Risk.LOW,
                required_autonomy=TrustLevel.PROPOSE,
                reason="Reading is low-risk",
            )
        risk = nature.risk
        return Classification(
            domain=domain,
            risk_level=risk,
            required_autonomy=TrustLevel.SUPERVISED,
            reason=f"{nature.adjectives} {_NOUNS[domain]} is {risk.value}-risk",
        )

    def check(
        self, action: str, context: ActionContext, current: TrustLevel, *, approved: bool = False
    ) -> TrustPermission:
        """Return whether an agent at a level may execute an action."""
        classification = self.classify(action, context)
        kind = self.words.nature(action, context).kind
        required = classification.required_autonomy
        if classification.risk_level is Risk.CRITICAL and not approved:
            allowed, reason = False, f"{kind} action in production requires approval at every level"
        elif required is TrustLevel.PROPOSE:
            allowed, reason = True, "Reading requires no approval"
        elif rank(current) < rank(required) and not approved:
            allowed, reason = False, f"{kind} action requires approval"
        elif approved:
            allowed, reason = True, f"{kind} action was approved"
        else:
            allowed, reason = True, f"{kind} action is allowed at level `{current.value}`"
        return TrustPermission(
            allowed=allowed, reason=reason, required_level=required, current_level=current
        )

    def executable(
        self, tool: str, hint: str, current: TrustLevel, *, approved: bool = False
    ) -> Executable:
        """Return what a tool call needs before it may run, at a level."""
        context = ActionContext()
        classification = self.classify(tool, context, hint)
        kind = self.words.nature(tool, context, hint).kind
        if classification.required_autonomy is TrustLevel.PROPOSE:
            return Executable(can_execute=True, action_needed="none", reason="Operation only reads")
        if approved:
            return Executable(
                can_execute=True, action_needed="none", reason=f"{kind} operation was approved"
            )
        if current is TrustLevel.PROPOSE and classification.risk_level is Risk.LOW:
            return Executable(
                can_execute=False,
                action_needed="propose",
                reason=f"{kind} operation can only be proposed at level `propose`",
            )
        if (
            rank(current) <= rank(TrustLevel.SUPERVISED)
            or classification.risk_level is Risk.CRITICAL
        ):
            return Executable(
                can_execute=False,
                action_needed="approve",
                reason=f"{kind} operation requires approval",
            )
        return Executable(
            can_execute=True,
            action_needed="none",
            reason=f"{kind} operation is allowed at level `{current.value}`",
        )

    def answer(self, agent: str, domain: Domain, tier: Tier, current: TrustLevel) -> LayerAnswer:
        """Return the trust layer's answer on a call of a tier (design: how changes land)."""
        needs = TrustLevel.PROPOSE if tier is Tier.SAFE else TrustLevel.SUPERVISED
        said = f"`{agent}` is at `{current.value}` for {domain.value}, `{needs.value}` is required"
        verdict, rule = Verdict.ALLOW, ""
        if tier is Tier.SAFE:
            said = f"`{agent}` may read at every level"
        elif current is TrustLevel.SUPERVISED:
            verdict, rule = Verdict.ASK, "trust-supervised"
            said = f"`{agent}` is at `supervised` for {domain.value}: a person approves each change"
        elif current is TrustLevel.PROPOSE and tier is Tier.CAUTION:
            verdict = Verdict.REPORT
            said = f"`{agent}` is at `propose` for {domain.value}: what it changes is a proposal"
        elif current is TrustLevel.PROPOSE:
            verdict, rule = Verdict.ASK, "trust-propose"
        return LayerAnswer(layer="trust", verdict=verdict, reason=said, rule=rule)


def classify_action(
    action: str, context: Mapping[str, Any] | None = None, policy: TrustFile | None = None
) -> Classification:
    """Return domain, risk and required level of an action ("Classifying Actions")."""
    policy = policy or TrustFile.default()
    return policy.classify(action, ActionContext.model_validate(context or {}))


def check_permission(
    action: str,
    context: Mapping[str, Any] | None = None,
    current_level: TrustLevel | str = TrustLevel.PROPOSE,
    *,
    approved: bool = False,
    policy: TrustFile | None = None,
) -> TrustPermission:
    """Return whether an agent may execute an action ("Permission Checking")."""
    policy = policy or TrustFile.default()
    action_context = ActionContext.model_validate(context or {})
    return policy.check(action, action_context, TrustLevel(current_level), approved=approved)


def can_execute(
    tool_name: str,
    args_hint: str = "",
    current_level: TrustLevel | str = TrustLevel.PROPOSE,
    *,
    approved: bool = False,
    policy: TrustFile | None = None,
) -> Executable:
    """Return what a tool call needs before it may run ("Quick Pre-Check")."""
    policy = policy or TrustFile.default()
    return policy.executable(tool_name, args_hint, TrustLevel(current_level), approved=approved)
