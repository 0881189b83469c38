# SPDX-License-Identifier: Apache-2.0
"""Ask a person about a call: its input is read, it is rehearsed, their word is recorded.

INVARIANT (P8, asked): a call about which gate 1 asks goes on only by a person's yes to exactly what
runs: plan, decision, variables, input, scripts. A policy that changed meanwhile is recorded before
it runs.
"""

from __future__ import annotations

import asyncio
from typing import Any

from policy.model import Context, Decision
from sandbox.approvals.desk import Permission, escalates
from sandbox.approvals.escalation import LOOKED_AT, escalation
from sandbox.approvals.rehearsal import NAMED, SKIPPED, Rehearsal
from sandbox.approvals.stdin_capture import BEGIN_SECONDS, NotWhole, taken
from sandbox.calls.flow.call import Call
from sandbox.calls.flow.live import LiveState
from sandbox.calls.flow.parts import Parts
from sandbox.calls.flow.prepare import Preparation, in_pieces, runner_request, time_limit
from sandbox.config.settings import Preview
from sandbox.results import CallResult, Ending

_SILENT = (
    f"lockgate: nothing came on standard input within {BEGIN_SECONDS:.0f} s, before a person is "
    "asked; the command gets none\n"
).encode()


class Asking:
    """Asks people about the calls of one supervisor."""

    def __init__(self, parts: Parts, live: LiveState, preparation: Preparation) -> None:
        self._parts = parts
        self._live = live
        self._preparation = preparation

    async def ask(self, call: Call) -> CallResult | None:
        """Ask a person; return the refusal, which is recorded, or None where the call may run."""
        context = self._parts.contexts.of(call.plan)
        try:
            call.given = await taken(call.stdin)
        except NotWhole as error:
            return self._refuse(call, f"{call.decision.message} ({error})")
        if call.given.silent:
            call.output.take(2, _SILENT)
        call.stdin = in_pieces(call.given.data or None)
        permission = await self._permission(call, context)
        call.preview = permission.preview
        call.scripts = permission.scripts
        await self._parts.record.answered(call.id, permission)
        if not permission.approved:
            refused = self._refuse(
                call, f"{permission.decision.message} ({permission.reason or 'no'})"
            )
            return await self._escalated(call, refused)
        if permission.decision != call.decision:  # the policy changed while the person thought
            call.answer = permission.answer
            if not call.on_host:
                call.request = runner_request(call.plan, permission.decision, call.id, call.env)
            await self._parts.record.decided(call.id, call.plan, call.decision, call.env)
        return None

    async def _permission(self, call: Call, context: Context) -> Permission:
        """Return a person's word, as far as it covers exactly this call."""
        return await self._parts.desk.permission(
            call.id,
            call.plan,
            call.answer,
            context,
            call.approver,
            again=lambda: self._preparation.decide(
                call.plan, context, call.workspaces, on_host=call.on_host
            ),
            rehearse=lambda decision: self._rehearse(call, decision),
            env=call.env,
            given=call.given,
        )

    async def _rehearse(self, call: Call, decision: Decision) -> dict[str, Any]:
        """Return what a person is shown of the effects of a call before they say yes or no."""
        if self._parts.settings.preview is not Preview.REHEARSE:
            return {}
        if call.preview is not None:  # it was admitted, and is made now
            return {key: value for key, value in call.preview.items() if key != NAMED}
        if reason := call.not_rehearsed():
            return {SKIPPED: reason}
        self._parts.latch.check(call.plan.agent)
        rehearsal = Rehearsal(
            runner_request(call.plan, decision, call.id, call.env),
            decision,
            call.workspaces,
            call.paths,
            time_limit(call.plan, decision, self._parts.settings),
            self._parts.ledger,
            call.given.data if call.given else b"",
        )
        pool = await self._live.connected()
        with self._live.listed(call):
            async with pool.rehearsal(
                call.plan.agent, call.workspaces, write=rehearsal.writes
            ) as cell:
                shown, effects = await rehearsal.run(cell)
        self._parts.latch.check(call.plan.agent)
        await self._parts.record.rehearsed(call.id, shown, effects)
        return shown

    def _refuse(self, call: Call, message: str) -> CallResult:
        result = call.refused(Ending.NOT_APPROVED, message)
        self._parts.record.ended(result)
        return result

    async def _escalated(self, call: Call, refused: CallResult) -> CallResult:
        """Return the refusal, with what the parent of a sub-agent must ask for."""
        if not escalates(call.decision):
            return refused
        store = self._parts.record.store
        earlier = await asyncio.to_thread(store.calls, limit=LOOKED_AT)
        return refused.model_copy(
            update={"escalation": escalation(call.plan, call.decision, earlier)}
        )
