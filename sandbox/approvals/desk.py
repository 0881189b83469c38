# SPDX-License-Identifier: Apache-2.0
"""Where a call waits for a person: looks for a grant, asks, waits, and uses what was granted.

INVARIANT (P8): a call that gate 1 asks about runs only by the use of a grant that covers it, and a
grant covers exactly what the person was shown: what changed while they thought is asked anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from policy.autonomy.authority import ESCALATION
from policy.model import ActionPlan, Context, Decision, Verdict
from policy.people.approval import Grant, Scope, Wanted
from sandbox.agents.told_sessions import CURRENT
from sandbox.approvals.approver import UNSEEN, Answer, Approver, nobody, yes
from sandbox.approvals.rehearsal import NAMED
from sandbox.approvals.script_capture import (
    Script,
    TooManyScripts,
    shown_scripts,
    wanted_with_scripts,
)
from sandbox.approvals.stdin_capture import Given
from sandbox.approvals.store.grants import Grants
from sandbox.approvals.store.request import Request, Terms
from sandbox.audit.events.calls import AskedRecord
from sandbox.cells.transaction import uninterrupted
from sandbox.gates.gate1 import Gate1Answer as GateAnswer
from sandbox.host.off_loop import OffLoop
from sandbox.text.durations import say_duration

POLL_SECONDS = 0.2
"""How soon an answer from another terminal is noticed."""
MOST_OPEN = 50
"""So many questions of one agent may wait, with those of agents below it: a person reads them."""
ROUNDS = 3
"""How often a question is asked anew because what it was about changed under it."""

Notify = Callable[[AskedRecord, ActionPlan], Awaitable[None]]
"""Tells people outside: the kind (`asked`, `reminded`), what it is about, and the plan."""
Again = Callable[[], Awaitable[GateAnswer]]
"""Decides about the call once more, by the policy as it is now."""
Rehearse = Callable[[Decision], Awaitable[dict[str, Any]]]
"""Shows beforehand what the call would do."""


@dataclass(frozen=True, slots=True)
class Permission:
    """Whether a call may run after all, and by whose word."""

    approved: bool
    answer: GateAnswer
    """Gate 1's word that counts now: the policy may have changed while the person thought."""
    by: str = ""
    reason: str = ""
    grant: str | None = None
    preview: dict[str, Any] | None = None
    """What the person was shown of its effects, if it was rehearsed."""
    scripts: tuple[Script, ...] = ()
    """The files that it runs, as they were read for the word that counts."""

    @property
    def decision(self) -> Decision:
        """Gate 1's decision that counts now."""
        return self.answer.decision


class Desk:
    """Asks people in the name of one supervisor."""

    def __init__(
        self,
        grants: Grants,
        *,
        seconds: float,
        notify: Notify,
        off_loop: OffLoop | None = None,
    ) -> None:
        """`seconds`: how long a question waits before it is cancelled."""
        self._off_loop = off_loop or OffLoop()
        self._grants = grants
        self._seconds = seconds
        self._notify = notify
        self._asking: dict[str, str] = {}

    def asking(self) -> list[dict[str, Any]]:
        """Return the calls that are waited for here: `id`, `agent`."""
        return [{"id": call, "agent": agent} for call, agent in self._asking.items()]

    async def permission(
        self,
        call_id: str,
        plan: ActionPlan,
        first: GateAnswer,
        context: Context,
        approver: Approver,
        *,
        again: Again,
        rehearse: Rehearse | None = None,
        env: Mapping[str, str] | None = None,
        given: Given | None = None,
    ) -> Permission:
        """Return whether a call that gate 1 asks about may run now.

        `env` are the variables that are set for it, `given` is what it gets on standard input: the
        person's word covers these and no others.
        """
        answer, given = first, given or Given(b"")
        for _ in range(ROUNDS):
            decision = answer.decision
            if decision.verdict is not Verdict.ASK or answer.effective is None:
                return Permission(decision.allowed, answer, reason=decision.message)
            try:
                what, scripts = await self._wanted(plan, answer, context, env, given)
            except TooManyScripts as error:
                return Permission(False, answer, reason=str(error))
            if grant := await asyncio.to_thread(self._grants.use, call_id, what, time.time()):
                return await self._granted(grant, answer, scripts)
            if not _asks_here(approver):
                no = await asyncio.to_thread(self._grants.refused, what, time.time())
                if no is not None:
                    return Permission(
                        False, answer, no.by, _REFUSED.format(reason=no.reason or "no reason given")
                    )
            if await asyncio.to_thread(self._grants.waiting, plan.agent, time.time()) >= MOST_OPEN:
                return Permission(False, answer, reason=TOO_MANY)
            if escalates(decision):
                request = self._request(call_id, plan, decision, what, {}, env, given, scripts)
                await self._put(request)
                return Permission(False, answer, reason=_UPWARDS.format(call=call_id))
            preview = await rehearse(decision) if rehearse is not None else {}
            request = self._request(call_id, plan, decision, what, preview, env, given, scripts)
            said = await self.put(request, approver)
            if not said.approved:
                return Permission(False, answer, said.by, said.reason)
            answer = await again()
            if answer.effective is None or answer.decision.verdict is not Verdict.ASK:
                continue
            try:
                now, scripts = await self._wanted(plan, answer, context, env, given)
            except TooManyScripts:
                continue
            if grant := await asyncio.to_thread(self._grants.use, call_id, now, time.time()):
                return await self._granted(grant, answer, scripts)
        return Permission(False, answer, reason="what it is about keeps changing")

    async def _wanted(
        self,
        plan: ActionPlan,
        answer: GateAnswer,
        context: Context,
        env: Mapping[str, str] | None,
        given: Given,
    ) -> tuple[Wanted, tuple[Script, ...]]:
        """Return what a call wants now, and the files that it runs. Raises TooManyScripts."""
        assert answer.effective is not None  # else nobody is asked
        what, scripts = await self._off_loop.read(
            plan,
            partial(
                wanted_with_scripts,
                plan,
                answer.decision,
                context,
                answer.effective.policy,
                env=env,
                stdin=given.digest,
            ),
        )
        return what.model_copy(update={"session": CURRENT.get()}), scripts

    async def _granted(
        self, grant: Grant, answer: GateAnswer, scripts: tuple[Script, ...]
    ) -> Permission:
        """Return the permission that a grant gives, with what was shown of the effects.

        A grant of a wider scope covers calls of other effects, so these are not compared then.
        """
        shown = await asyncio.to_thread(self._grants.shown_with, grant.id)
        exact = grant.scope is Scope.EXACT
        preview = dict(shown) if exact else {}
        if exact and grant.reason != UNSEEN:
            preview[NAMED] = list(grant.wanted.paths or ())
        return Permission(True, answer, grant.by, grant.reason, grant.id, preview or None, scripts)

    @property
    def seconds(self) -> float:
        """How long a question waits before it is cancelled."""
        return self._seconds

    async def put(self, request: Request, approver: Approver) -> Answer:
        """Put a question and wait for the first answer, from whichever side it comes."""
        call_id = request.call
        self._asking[call_id] = request.plan.agent
        try:
            await self._put(request)
            if approver is nobody:  # it stays open: a grant is used when the call is made again
                way = _AFTERWARDS.format(call=call_id)
                return Answer(approved=False, reason=f"nobody to ask here; {way}")
            return await self._first_answer(request, approver)
        except BaseException:
            await uninterrupted(asyncio.to_thread(self._grants.close, call_id, "cancelled"))
            raise
        finally:
            self._asking.pop(call_id, None)

    async def _put(self, request: Request) -> None:
        await uninterrupted(asyncio.to_thread(self._grants.ask, request))
        await self._notify(AskedRecord(**said_of(request)), request.plan)

    def _request(
        self,
        call_id: str,
        plan: ActionPlan,
        decision: Decision,
        what: Wanted,
        preview: dict[str, Any],
        env: Mapping[str, str] | None,
        given: Given,
        scripts: tuple[Script, ...],
    ) -> Request:
        now = time.time()
        return Request(
            call=call_id,
            wanted=what,
            plan=plan,
            decision=decision,
            asked=now,
            until=now + self._seconds,
            env=dict(env or {}),
            stdin=given.shown(),
            scripts=shown_scripts(scripts),
            preview=preview,
        )

    async def _first_answer(self, request: Request, approver: Approver) -> Answer:
        """Wait for the front door and for other terminals; whoever is first counts."""
        front = asyncio.ensure_future(approver(request.call, request.plan, request.decision))
        desk = asyncio.ensure_future(self._watch(request))
        try:
            done, _ = await asyncio.wait({front, desk}, return_when=asyncio.FIRST_COMPLETED)
            if desk in done:
                return desk.result()
            return await self._settled(request, front.result())
        finally:
            for task in (front, desk):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task

    async def _settled(self, request: Request, answer: Answer) -> Answer:
        """Turn the answer of the call's own front door into a grant, or close the question."""
        if answer.gone:
            await asyncio.to_thread(self._grants.close, request.call, "withdrawn")
            return Answer(approved=False, reason=WITHDRAWN)
        if answer.later:
            way = _AFTERWARDS.format(call=request.call)
            return Answer(approved=False, reason=f"nobody has answered yet; {way}")
        if answer.approved:
            await asyncio.to_thread(
                self._grants.approve,
                request,
                Terms(),
                by=answer.by,
                reason=answer.reason,
                now=time.time(),
            )
        else:
            close = partial(self._grants.close, by=answer.by, reason=answer.reason, lasts=False)
            await asyncio.to_thread(close, request.call, "denied")
        return answer

    async def _watch(self, request: Request) -> Answer:
        """Wait for an answer from another terminal; remind once; give up in the end."""
        remind = request.asked + self._seconds / 2
        while (now := time.time()) < request.until:
            state, by, reason = await asyncio.to_thread(self._grants.state, request.call)
            if state != "open":
                return Answer(state == "approved", by, reason or f"the question is {state}")
            if now >= remind:
                remind = request.until + 1
                again = AskedRecord(event="reminded", **said_of(request))
                await self._notify(again, request.plan)
            await asyncio.sleep(min(POLL_SECONDS, max(request.until - now, 0.01)))
        await asyncio.to_thread(self._grants.close, request.call, "expired")
        waited = say_duration(self._seconds)
        return Answer(approved=False, reason=f"nobody answered within {waited}; cancelled")


TOO_MANY = (
    f"{MOST_OPEN} questions of this agent wait for a person already, so no other is put; "
    "`lockgate approvals` lists them"
)
WITHDRAWN = "withdrawn: whoever asked has ended"
_REFUSED = (
    "a person refused exactly this: {reason}; do something else, or let the person grant it "
    "(`lockgate grant`)"
)
_AFTERWARDS = "`lockgate approve {call}` approves it; then make the same call again"
_UPWARDS = "its parent must ask: `lockgate approve {call}` lets it do this one action"


def escalates(decision: Decision) -> bool:
    """Whether an agent may not do this at all, and its parent must ask for it."""
    return any(layer.rule == ESCALATION for layer in decision.layers)


async def waiting(call_id: str, plan: ActionPlan, decision: Decision) -> Answer:
    """Answer nothing: a person answers from elsewhere (`lockgate approve`), or time runs out."""
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


@dataclass(frozen=True, slots=True)
class Patient:
    """Waits a set time for an answer from elsewhere, then leaves the question open."""

    seconds: float
    gone: asyncio.Event | None = None
    """Set when whoever asked has ended: the question is withdrawn at once."""

    async def __call__(self, call_id: str, plan: ActionPlan, decision: Decision) -> Answer:
        """Answer that nobody has answered yet, or that the question is withdrawn."""
        try:
            async with asyncio.timeout(self.seconds):
                await (self.gone or asyncio.Event()).wait()
        except TimeoutError:
            return Answer(approved=False, later=True)
        return Answer(approved=False, gone=True)


def elsewhere(approver: Approver) -> Approver:
    """Return who answers what comes up while a call runs: nobody at its front door, where its
    output goes, but whoever would be waited for elsewhere; nobody where nobody would be."""
    if isinstance(approver, Patient):
        return Patient(approver.seconds)
    return nobody if approver in (nobody, yes) else waiting


def _asks_here(approver: Approver) -> bool:
    """Whether a person sits at the call's own front door, who may think otherwise by now."""
    return approver not in (nobody, waiting) and not isinstance(approver, Patient)


def said_of(request: Request) -> dict[str, Any]:
    """Return what people outside are told of a question."""
    params, reach = request.plan.params, request.reach
    action = params.command or params.file_path or params.path or ""
    asks = {} if reach is None else {
        "of": reach.call, "host": reach.host.name, "port": reach.host.port
    }  # fmt: skip
    return {
        "call": request.call,
        "agent": request.plan.agent,
        "tool": request.plan.tool,
        "action": action if reach is None else f"{reach.words()}: {action}",
        **asks,
        "workspace": request.plan.workspace,
        "risk": request.decision.tier.value,
        "message": request.decision.message,
        **({"stdin": request.wanted.stdin} if request.wanted.stdin else {}),
        "answer": f"lockgate approve {request.call}",
    }
