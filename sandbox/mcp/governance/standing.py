# SPDX-License-Identifier: Apache-2.0
"""The tools about an agent's reputation: how it stands, and what it says of its own actions."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from policy.autonomy.reputation import Domain, TrustLevel, autonomy_status
from sandbox.agents.reputation import ReputationEvent, ReputationSource
from sandbox.errors import BadInput
from sandbox.mcp.governance.standpoint import Standpoint, Who, short_action


class Standing:
    """Says how an agent stands, and notes what it says of itself."""

    def __init__(self, at: Standpoint) -> None:
        self._at = at

    def get_reputation(self, who: Who, domain: str) -> dict[str, Any]:
        """Return the agent's reputation in a domain ("Check Reputation"). Raises BadInput."""
        wanted_domain = _domain(domain)
        state = self._at.kept.states(who.agent, self._at.trust_of(who))[wanted_domain]
        level = self._at.level_of(who, wanted_domain)
        return {"agent": who.agent, **state.model_dump(mode="json"), "current_level": level.value}

    def record_outcome(
        self, who: Who, action: str, *, success: bool, confidence: float = 1.0
    ) -> dict[str, Any]:
        """Note what an agent says of its own action ("Build Reputation")."""
        trust = self._at.trust_of(who)
        event = ReputationEvent(
            trust.domain(short_action(action)),
            success=success,
            confidence=confidence,
            source=ReputationSource.AGENT,
            what=f"it says that {action} {'went well' if success else 'failed'}",
        )
        state = self._at.kept.record(who.agent, event, trust)
        return {
            "agent": who.agent,
            "action": action,
            "recorded": True,
            "domain": state.domain.value,
            "score": state.score,
            "current_level": self._at.level_of(who, state.domain).value,
        }

    def autonomy_status(self, who: Who) -> dict[str, Any]:
        """Return overall and per-domain reputation, open approvals, constraints."""
        now = time.time()
        active = [
            {
                "id": grant.id,
                "action_id": grant.wanted.action_id,
                "scope": grant.scope.value,
                "covers": grant.words(),
                "uses_left": grant.uses - grant.used,
                "expires_in_seconds": round(grant.until - now),
            }
            for grant in self._at.grants.all()
            if grant.open(now) and grant.wanted.agent == who.agent
        ]
        states = self._at.kept.states(who.agent, self._at.trust_of(who)).values()
        levels = {domain: self._at.level_of(who, domain) for domain in Domain}
        said = self._constraints(who, levels)
        status = autonomy_status(states, active, said, levels=levels).model_dump(mode="json")
        below = self._at.kept.violations_below(who.agent)
        return {**status, "violations_below": below} if below else status

    def _constraints(self, who: Who, levels: Mapping[Domain, TrustLevel]) -> list[str]:
        said = [f"{domain.value}: {level.value}" for domain, level in levels.items()]
        if who.role:
            said.append(f"role: {who.role}")
        said.append("network: none, but for what a call is given by name")
        said += [f"workspace: {workspace.path}" for workspace in self._at.known.all()]
        return said


def _domain(name: str) -> Domain:
    try:
        return Domain(name)
    except ValueError:
        known: Sequence[str] = [domain.value for domain in Domain]
        raise BadInput(f"`{name}` is no domain; use one of {', '.join(known)}") from None
