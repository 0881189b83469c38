# SPDX-License-Identifier: Apache-2.0
"""Asks a person whether a call that runs may reach a host to which it holds a connection.

The question stands among all others, under an id of its own. INVARIANT (P8, host): the answer is
bound to one host and port, one call, its agent, place and command; it opens nothing else.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from policy.model import ActionPlan, Decision, Host, Network, Tier
from policy.people.approval import Wanted, host_digest
from policy.people.reports import action_id
from sandbox.agents.told_sessions import CURRENT
from sandbox.approvals.approver import Approver
from sandbox.approvals.desk import MOST_OPEN, TOO_MANY, Desk
from sandbox.approvals.store.grants import Grants
from sandbox.approvals.store.request import Request, WantedHost
from sandbox.cells.transaction import uninterrupted
from sandbox.text.durations import say_duration

TOOL = "Network"
"""Begins the short name of such a question."""


class TellHost(Protocol):
    """Tells whoever made the call of a question: its id, and what is wanted."""

    def __call__(self, question: str, wants: str, /) -> None: ...


@dataclass(frozen=True, slots=True)
class HostDoor:
    """What a door says of questions about hosts."""

    approver: Approver
    """Who is waited for, and how long."""
    tell: TellHost | None = None


HOST_DOOR: ContextVar[HostDoor | None] = ContextVar("host_door", default=None)
"""Set by the door of a call; None: whoever answers gate 1's question is waited for."""


@dataclass(frozen=True, slots=True)
class HostAnswer:
    """What became of a question about a host."""

    opened: Host | None
    """What a person opened; None: nothing."""
    by: str = ""
    reason: str = ""
    grant: str = ""


@dataclass(frozen=True, slots=True)
class Connecting:
    """A call that runs, and the host to which it holds a connection."""

    call: str
    plan: ActionPlan
    decision: Decision
    host: Host
    env: Mapping[str, str]
    """Variables that are set for the call beside the usual ones."""

    def question(self, seconds: float) -> Request:
        """Return the question about it, which waits for so many seconds."""
        plan, host, now = self.plan, self.host, time.time()
        place = plan.cwd or plan.workspace
        rights = self.decision.rights.model_copy(update={"network": Network(hosts=(host,))})
        alike = {"agent": plan.agent, "place": place, "does": plan.params.model_dump(mode="json"),
                 "host": host.words()}  # fmt: skip
        return Request(
            call="n" + secrets.token_hex(5),
            wanted=Wanted.of_plan(
                plan,
                self.decision,
                digest=host_digest(plan, host, self.call),
                action_id=action_id(TOOL, alike),
                rights=rights,
                said=(plan.params.command or plan.tool,),
                session=CURRENT.get(),
            ),
            plan=plan,
            decision=self.decision.model_copy(
                update={
                    "tier": Tier.DANGER,
                    "rights": rights,
                    "layers": (),
                    "message": f"call {self.call} connects to {host.words()}, and none of its "
                    "rights names that",
                }
            ),
            asked=now,
            until=now + seconds,
            env=dict(self.env),
            reach=WantedHost(
                call=self.call,
                host=host,
                lasting=not (self.env or plan.derived_from or plan.params.run_in_background),
            ),
        )


class HostDesk:
    """Asks about hosts in the name of one supervisor."""

    def __init__(self, grants: Grants, desk: Desk) -> None:
        self._grants = grants
        self._desk = desk

    async def ask(
        self, request: Request, approver: Approver, tell: TellHost | None = None
    ) -> HostAnswer:
        """Put a question and return its answer; a yes is used when this returns. The question goes
        away with whoever waits for it."""
        reach, grants, action = request.reach, self._grants, request.wanted.action_id
        assert reach is not None
        no = await asyncio.to_thread(grants.refused_alike, action, time.time())
        if no is not None:
            return HostAnswer(None, no.by, no.reason)
        count = await asyncio.to_thread(grants.waiting, request.plan.agent, time.time())
        if count >= MOST_OPEN:
            return HostAnswer(None, reason=TOO_MANY)
        if tell is not None:
            tell(request.call, reach.words())
        answer = await self._desk.put(request, approver)
        if not answer.approved:
            await uninterrupted(asyncio.to_thread(grants.close, request.call, "expired"))
            waited = say_duration(max(1.0, time.time() - request.asked))
            return HostAnswer(
                None, answer.by, answer.reason if answer.by else f"nobody answered within {waited}"
            )
        use = partial(grants.use_reach, request.call, reach, time.time())
        used = await uninterrupted(asyncio.to_thread(use))
        if used is None:
            return HostAnswer(None, answer.by, "the yes was taken back")
        grant, host = used
        return HostAnswer(host, grant.by, grant.reason, grant.id)
