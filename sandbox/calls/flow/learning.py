# SPDX-License-Identifier: Apache-2.0
"""How the outcome of a call changes its agent's reputation."""

from __future__ import annotations

import asyncio

from policy.autonomy.reputation import Domain
from policy.autonomy.trust import TrustFile
from policy.model import ActionPlan
from policy.people.approval import domain
from policy.values.strict_yaml import PolicyError
from sandbox.agents.reputation import ReputationEvent, Reputations, ReputationSource, observed
from sandbox.audit.events.agents import ReputationRecord
from sandbox.calls.flow.call import Call
from sandbox.calls.recorder import Recorder
from sandbox.gates.gate1 import PolicySource
from sandbox.results import CallResult


class Learning:
    """The reputations of one supervisor's agents."""

    def __init__(self, reputations: Reputations, policies: PolicySource, record: Recorder) -> None:
        self.reputations = reputations
        self._policies = policies
        self._record = record

    async def from_call(self, call: Call, result: CallResult, *, vouched: bool) -> None:
        """Learn from how a call ended, if that says anything; `vouched`: its program is known."""
        if call.answer.effective is None:
            return
        policy = call.answer.effective.policy

        def of_call() -> Domain:
            return domain(call.plan, call.context, policy, call.answer.facts)

        if event := observed(result, of_call, vouched=vouched):
            await self._note(call.plan.agent, event, policy.autonomy.trust)

    async def from_undo(self, agent: str, workspaces: tuple[str, ...]) -> None:
        """Learn that a person took a call back."""
        trust = self._trust(workspaces)
        if trust is not None:
            event = ReputationEvent(
                Domain.CODE_CHANGES,
                success=False,
                reverted=True,
                source=ReputationSource.PERSON,
                what="a person took a change back",
            )
            await self._note(agent, event, trust)

    async def claimed(
        self, plan: ActionPlan, *, success: bool, confidence: float, workspaces: tuple[str, ...]
    ) -> None:
        """Note what an agent says of its own action (orchestration.md, `record_outcome`)."""
        trust = self._trust(workspaces)
        if trust is None:
            return
        event = ReputationEvent(
            trust.domain(plan.tool),
            success=success,
            confidence=confidence,
            source=ReputationSource.AGENT,
            what=f"it says that `{plan.tool}` {'went well' if success else 'failed'}",
        )
        await self._note(plan.agent, event, trust)

    def _trust(self, workspaces: tuple[str, ...]) -> TrustFile | None:
        try:
            return self._policies.of(workspaces).policy.autonomy.trust
        except PolicyError:  # said by the gate, which denies every call
            return None

    async def _note(self, agent: str, event: ReputationEvent, trust: TrustFile) -> None:
        """Note an outcome; a change of level, and a violation, stand in the record."""
        before = self.reputations.states(agent, trust)[event.domain].current
        after = await asyncio.to_thread(self.reputations.record, agent, event, trust)
        if after.current is before and not event.violation:
            return
        await self._record.event(
            ReputationRecord(
                agent=agent,
                domain=event.domain.value,
                because=event.what,
                score=after.score,
                level_before=before.value,
                level_after=after.current.value,
            )
        )
