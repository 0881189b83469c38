# SPDX-License-Identifier: Apache-2.0
"""Gate 1 as a call meets it: the policy that counts for its workspaces, both readings, one answer.

Decides nothing itself: `policy.gate1.decide` does. A policy file that is wrong denies every call.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol
from urllib.parse import unquote

from policy.facts import Facts
from policy.gate1.decide import (
    Policy,
    apply_second_reading,
    decide,
    denied_address,
    depends_on_files,
    lacking_second_reading,
    wanted,
    wants_second_opinion,
)
from policy.model import ActionPlan, Context, Decision, Limits
from policy.protected.paths import PathPolicy
from policy.shell.state import NOTHING_SEEN, Seen
from policy.sources import precedence as layers
from policy.sources.precedence import Effective
from policy.tools.reading import facts as facts_of
from policy.tools.sent import sent
from policy.values.strict_yaml import PolicyError
from sandbox.gates.second_opinion import MOST_TEXT, SecondOpinion
from sandbox.host.off_loop import LoopTurns, OffLoop, is_quick
from sandbox.text.redaction import mask
from sandbox.workspaces.project_files import ProjectFiles

MOST_LOOKS = 3
"""Scripts that run scripts are followed as deep."""


@dataclass(frozen=True, slots=True)
class Gate1Answer:
    """Gate 1's answer, and what gate 2 goes by."""

    decision: Decision
    effective: Effective | None
    """The policy; None where it cannot be read, which denies every call."""
    second: tuple[str, ...] | None = None
    """The programs that the second reading saw; None: it was not asked, or had no opinion."""
    facts: Facts | None = field(default=None, compare=False, repr=False)
    """What the text of the call alone says that it does; None where nobody has read it."""

    @property
    def paths(self) -> PathPolicy:
        """What gate 2 goes by."""
        return self.effective.paths if self.effective else PathPolicy.default()


def within(answer: Gate1Answer, limits: Limits) -> Gate1Answer:
    """Return the answer with rights that are within the limits of the settings."""
    rights = answer.decision.rights
    rights = rights.model_copy(update={"limits": rights.limits.meet(limits)})
    return replace(answer, decision=answer.decision.model_copy(update={"rights": rights}))


class PolicySource(Protocol):
    """Knows the policy that counts for workspaces."""

    def of(self, workspaces: tuple[str, ...]) -> Effective:
        """Return the policy. Raises PolicyError."""


class Gate1:
    """Gate 1 of one process."""

    def __init__(
        self,
        policies: PolicySource,
        opinion: SecondOpinion,
        files: ProjectFiles | None = None,
        off_loop: OffLoop | None = None,
    ) -> None:
        """`files` looks at scripts that a call runs; without it none is known."""
        self.policies = policies
        self.opinion = opinion
        self.files = files
        self._turns = LoopTurns()
        self._off_loop = off_loop or OffLoop()

    async def decide(
        self,
        plan: ActionPlan,
        context: Context,
        workspaces: tuple[str, ...],
        effective: Effective | None = None,
    ) -> Gate1Answer:
        """Return the answer to a plan that sees `workspaces`; both readings are heard.

        One text of an agent is read at a time, so that between two of them others have their turn.
        `effective` is the policy where it was looked up just now, without a pause since.
        """
        try:
            effective = effective or self.policies.of(workspaces)
        except PolicyError as problem:
            return Gate1Answer(layers.refused(problem), None)
        policy = effective.policy
        question = None

        def read() -> tuple[Facts, Decision]:
            facts = facts_of(plan, context, policy.catalog, policy.tools)
            return facts, decide(plan, context, policy, NOTHING_SEEN, facts)

        if is_quick(plan):
            async with self._turns.of(plan.agent):
                text = _wanted(plan, policy)
                if text is not None:
                    question = self.opinion.ask(text)  # it reads while we decide
                facts, decision = read()
        else:
            text, (facts, decision) = await self._off_loop.do(
                plan.agent, lambda: (_wanted(plan, policy), read())
            )
        texts = sent(plan, policy.tools)
        holds = bool(texts) and await self._off_loop.do(plan.agent, lambda: _hold_secrets(texts))
        if holds:
            return Gate1Answer(denied_address(decision), effective, facts=facts)
        if self.files is not None and depends_on_files(decision):
            decision = await self._off_loop.do(
                plan.agent, lambda: self._followed(plan, context, policy, decision)
            )
        if text is None or not decision.allowed:
            return Gate1Answer(decision, effective, facts=facts)
        if question is None and await self.opinion.until_ready():
            question = self.opinion.ask(text)
        if question is None:
            return Gate1Answer(lacking_second_reading(decision), effective, facts=facts)
        heard = await self.opinion.answer(question)
        decision = apply_second_reading(decision, heard or (), policy)
        return Gate1Answer(decision, effective, heard, facts)

    def decide_now(
        self, plan: ActionPlan, context: Context, workspaces: tuple[str, ...]
    ) -> Gate1Answer:
        """Return the answer without an event loop, for a person who asks about a plan.

        Waits for the second reading's start, where that could matter.
        """
        try:
            effective = self.policies.of(workspaces)
        except PolicyError as problem:
            return Gate1Answer(layers.refused(problem), None)
        policy = effective.policy
        decision = self._followed(plan, context, policy, decide(plan, context, policy))
        if _hold_secrets(sent(plan, policy.tools)):
            return Gate1Answer(denied_address(decision), effective)
        text = _wanted(plan, policy) if decision.allowed else None
        if text is None:
            return Gate1Answer(decision, effective)
        question = self.opinion.ask(text) if self.opinion.wait_ready() else None
        if question is None:
            return Gate1Answer(lacking_second_reading(decision), effective)
        seen = self.opinion.wait(question)
        return Gate1Answer(apply_second_reading(decision, seen or (), policy), effective, seen)

    def _followed(
        self, plan: ActionPlan, context: Context, policy: Policy, decision: Decision
    ) -> Decision:
        """Return the decision with what is known of the scripts that the call runs."""
        if self.files is None:
            return decision
        found: dict[str, Seen] = {}
        for _ in range(MOST_LOOKS):
            paths = wanted(plan, decision, context, policy, found)
            ignored_may_go = policy.ignored_may_go
            more = self.files.look(plan, paths, ignored_may_go=ignored_may_go) if paths else {}
            if not more:
                break
            found |= more
            decision = decide(plan, context, policy, found)
        return decision


def _hold_secrets(texts: tuple[str, ...]) -> bool:
    """Whether something of what a call sends out is masked wherever it is shown."""
    return any(mask(one) != one for text in texts for one in (text, unquote(text)))


def _wanted(plan: ActionPlan, policy: Policy) -> str | None:
    """Return the text that wants a second reading, or None. A longer one than the second reading
    takes gets none, like one that it cannot read."""
    text = plan.params.command
    if text is None or len(text) > MOST_TEXT or not wants_second_opinion(plan, policy):
        return None
    return text
