# SPDX-License-Identifier: Apache-2.0
"""Calls that were admitted and are made later: by a ticket that is good once, for a while."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from policy.model import ActionPlan, Decision, Verdict
from sandbox.agents.told_sessions import CURRENT
from sandbox.approvals.approver import Answer
from sandbox.approvals.script_capture import Script
from sandbox.errors import BadInput
from sandbox.results import CallResult

TICKET_SECONDS = 900.0
_MOST = 1000


@dataclass(frozen=True, slots=True)
class Admission:
    """Gate 1's decision on a call that is not made yet."""

    call: str
    plan: ActionPlan
    decision: Decision
    """What was decided; where a person was asked, it was approved."""
    refused: CallResult | None
    """The refusal; None: it may be made."""
    preview: Mapping[str, Any] | None = None
    """What the person was shown of its effects, if it was rehearsed."""
    scripts: tuple[Script, ...] = ()
    """The files that it runs, as the person approved them."""
    session: str = field(default_factory=CURRENT.get)
    """The agent's session in which it was admitted."""
    patience: float = 0.0
    """For how many seconds a person is waited for where something is asked while it runs."""

    async def said(self, call_id: str, plan: ActionPlan, decision: Decision) -> Answer:
        """Answer gate 1's question as it was answered before, if it is the same question."""
        same = (call_id, plan, decision) == (self.call, self.plan, self.decision)
        if same and self.decision.verdict is Verdict.ASK and self.refused is None:
            return Answer(approved=True, by="a person, before")
        return Answer(approved=False, reason="it is not what was approved; make the call again")


class Tickets:
    """Admissions that are not used yet, each under an unguessable name."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._open: dict[str, tuple[float, Admission, str]] = {}

    def issue(self, admission: Admission, label: str = "") -> str:
        """Return a new ticket, with the label that stands behind it. Raises BadInput where too many
        are open."""
        now = self._clock()
        self._open = {name: one for name, one in self._open.items() if one[0] > now}
        if len(self._open) >= _MOST:
            raise BadInput("too many calls were admitted and not made")
        name = secrets.token_urlsafe(24)
        self._open[name] = (now + TICKET_SECONDS, admission, label)
        return name + label

    def knows(self, ticket: str) -> bool:
        """Whether a ticket, with exactly the label that it was issued with, can be used."""
        name = ticket.partition(" ")[0]
        found = self._open.get(name)
        return found is not None and found[0] > self._clock() and ticket == name + found[2]

    def take(self, name: str) -> Admission:
        """Return what a ticket admits, and end the ticket. Raises BadInput."""
        found = self._open.pop(name, None)
        if found is None or found[0] <= self._clock():
            raise BadInput("the ticket is used, too old or not one of ours; make the call again")
        return found[1]
