# SPDX-License-Identifier: Apache-2.0
"""The supervisor as doors see it: takes plans and people's words, gives results.

It only hands on: one call is `flow.one_call`, what a person does afterwards `corrections`.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from policy.gate1.decide import Policy
from policy.model import ActionPlan, Workspace
from sandbox.approvals.approver import Approver, nobody
from sandbox.audit.events import ChildRecord, OutcomeRecord
from sandbox.calls.corrections import Corrections
from sandbox.calls.flow.call import CallRequest, OnOutput, Stdin
from sandbox.calls.flow.live import LiveState
from sandbox.calls.flow.one_call import CallFlow
from sandbox.calls.flow.parts import Parts
from sandbox.calls.ids import new_id
from sandbox.calls.keepers import Keepers
from sandbox.calls.tickets import Admission
from sandbox.config.settings import Dirs, Settings
from sandbox.results import CallResult, HeldCall, HeldLook, StopReport, UndoReport, UndoResult

_OPINION_SECONDS = 1.0
"""The second reading starts after this time, or when it is first wanted: not while the first call
waits for its cell."""


class Supervisor:
    """Takes plans, gives results. One per process and state folder; several may share a folder."""

    def __init__(
        self,
        dirs: Dirs | None = None,
        *,
        policy: Policy | None = None,
        workspaces: Sequence[Workspace] | None = None,
        settings: Settings | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Reach for nothing yet; `labels` are put on every container in addition to its own."""
        parts = Parts(dirs, policy=policy, workspaces=workspaces, settings=settings)
        self._parts = parts
        self._latch = parts.latch
        self._record = parts.record
        self._live = LiveState(parts, dict(labels or {}))
        self._flow = CallFlow(parts, self._live)
        self._corrections = Corrections(
            parts.record,
            parts.latch,
            parts.objections,
            parts.learning,
            new_id=new_id,
            keepers=self._keepers,
            end_cells=self._live.end_cells,
        )
        self._later: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Supervisor:
        self._live.start()
        self._batches = asyncio.create_task(self._parts.people.go_on())
        loop = asyncio.get_running_loop()
        self._later = loop.call_later(_OPINION_SECONDS, self._parts.opinion.start)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._later is not None:
            self._later.cancel()
        self._parts.opinion.close()
        await self._live.close()
        self._batches.cancel()
        await self._parts.people.close()
        await self._live.end_cells()
        await self._record.flush()
        self._parts.off_loop.close()

    # -- calls

    async def call(
        self,
        plan: ActionPlan,
        *,
        approver: Approver = nobody,
        stdin: Stdin = None,
        env: Mapping[str, str] | None = None,
        on_output: OnOutput | None = None,
        call_id: str | None = None,
    ) -> CallResult:
        """Carry out one plan. Raises SandboxError where Lockgate itself fails; nothing lands then.

        Cancelling ends the call's processes and throws its changes away.
        """
        self._latch.check(plan.agent)
        if call_id is not None:
            await self._parts.names.claim(call_id)
        return await self._counted(
            CallRequest(plan, approver, stdin, env, on_output, call_id=call_id)
        )

    async def admit(
        self,
        plan: ActionPlan,
        *,
        approver: Approver = nobody,
        on_host: bool = False,
        call_id: str | None = None,
    ) -> Admission:
        """Decide, and ask a person, about a call that is not made now: it is made later through
        `redeem`, or by the agent itself (`on_host`)."""
        self._latch.check(plan.agent)
        if call_id is not None:
            await self._parts.names.claim(call_id)
        return await self._flow.admit(CallRequest(plan, approver, call_id=call_id, on_host=on_host))

    async def redeem(
        self,
        admission: Admission,
        *,
        stdin: Stdin = None,
        on_output: OnOutput | None = None,
    ) -> CallResult:
        """Make a call that was admitted; what is decided otherwise by now is asked anew.

        It takes no variables: nobody was asked about any.
        """
        self._latch.check(admission.plan.agent)
        return await self._counted(
            CallRequest(
                admission.plan,
                admission.said,
                stdin,
                on_output=on_output,
                call_id=admission.call,
                admitted=admission.decision if admission.refused is None else None,
                preview=admission.preview,
            )
        )

    async def _counted(self, request: CallRequest) -> CallResult:
        """Make a call within the budgets of its agent."""
        make = functools.partial(self._flow.carry_out, request)
        return await self._live.budgets.counted(request.plan.agent, make)

    async def attach(self, call_id: str, on_output: OnOutput) -> CallResult:
        """Pass on what a background call writes until it ends. Cancelling ends it."""
        return await self._live.background.attach(call_id, on_output)

    def peek(self, call_id: str) -> dict[str, Any]:
        """Return what a background call has written so far."""
        return self._live.background.peek(call_id)

    async def end(self, call_id: str) -> CallResult:
        """End a background call; its changes are judged and land as any call's."""
        return await self._live.background.end(call_id)

    # -- afterwards

    async def undo(
        self, call_id: str, *, dry_run: bool = False, by: str | None = None
    ) -> UndoResult:
        """Undo a landed call. Raises BadInput with the paths where a later change would be lost.

        With `dry_run` nothing changes; the result says what an undo would do. `by` is the agent
        that asks, None for a person: an agent may undo what is its own, and ordinary files alone.
        """
        return await self._corrections.undo(call_id, dry_run=dry_run, by=by)

    async def undo_last(self, count: int, *, dry_run: bool = False) -> UndoReport:
        """Undo the newest landed calls, newest first, until one cannot be undone."""
        return await self._corrections.undo_last(count, dry_run=dry_run)

    async def held(self) -> tuple[HeldCall, ...]:
        """Return what waits for a person to land or discard it, newest first."""
        return await self._corrections.held()

    async def look_held(self, call_id: str) -> HeldLook:
        """Look at a held transaction as things stand, for a person: it is what was shown then."""
        return await self._corrections.look_held(call_id)

    async def land(
        self, call_id: str, paths: Sequence[str] = (), *, force: bool = False
    ) -> CallResult:
        """Land a held transaction, or some of its paths: a person's word."""
        return await self._corrections.land(call_id, paths, force=force)

    async def discard(self, call_id: str) -> CallResult:
        """Throw away a held transaction, or what waits to land."""
        return await self._corrections.discard(call_id)

    async def object(self, call_id: str, reason: str = "") -> CallResult:
        """Object to a call whose changes wait to land: they are thrown away."""
        return await self._corrections.object(call_id, reason)

    async def note(self, said: ChildRecord | OutcomeRecord) -> None:
        """Record something that an agent said of itself, and the files that it is seen to have
        made."""
        if isinstance(said, OutcomeRecord):
            settle = functools.partial(self._parts.host_made.settle, said)
            said = await self._parts.off_loop.do(said.agent or "", settle)
        await self._record.event(said)

    # -- state

    async def stop(self, reason: str, agent: str | None = None, *, own: bool = False) -> StopReport:
        """Stop everything, or one agent and all below it. Raises BadInput for an unknown one.

        `own`: that agent asks, so it is known even if it has done nothing yet.
        """
        return await self._live.stop(reason, agent, own=own)

    def check_latch(self, agent: str) -> None:
        """Raise Stopped while a stop is in force for an agent."""
        self._latch.check(agent)

    async def warm(self, workspace: str, agent: str = "main") -> None:
        """Start the cell of a workspace ahead of the first call."""
        self._latch.check(agent)
        pool = await self._live.connected()
        await pool.warm(agent, self._parts.check_workspaces((workspace,)))

    def running(self) -> list[dict[str, Any]]:
        """Return the calls that run now."""
        return self._live.running()

    def cells(self) -> list[dict[str, Any]]:
        """Return the living cells."""
        return self._live.cells()

    async def _keepers(self) -> Keepers:
        parts = self._parts
        return Keepers(
            parts.record,
            await self._live.connected(),
            parts.check_workspaces,
            parts.policies.paths,
            parts.aftermath,
            parts.ledger,
            parts.replaced,
            parts.turns,
        )
