# SPDX-License-Identifier: Apache-2.0
"""Asking a person: the one protocol that every front door answers gate 1's question through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from policy.model import ActionPlan, Decision


@dataclass(frozen=True, slots=True)
class Answer:
    """A person's answer to gate 1's question."""

    approved: bool
    by: str = ""
    reason: str = ""
    later: bool = False
    """It is no answer: whoever called does not wait any longer, and the question stays open."""
    gone: bool = False
    """It is no answer: whoever called has ended, and the question is withdrawn."""


UNSEEN = "--yes"
"""The reason of a yes that was said beforehand: nothing was shown for it."""


class Approver(Protocol):
    """Somebody who can be asked."""

    async def __call__(self, call_id: str, plan: ActionPlan, decision: Decision) -> Answer: ...


async def nobody(call_id: str, plan: ActionPlan, decision: Decision) -> Answer:
    """Answer no: there is nobody to ask."""
    return Answer(approved=False, reason="nobody to ask")


async def yes(call_id: str, plan: ActionPlan, decision: Decision) -> Answer:
    """Answer yes: a person said so beforehand, about exactly this call (a replay's `approve`)."""
    return Answer(approved=True, by="replay", reason=UNSEEN)
