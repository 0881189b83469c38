# SPDX-License-Identifier: Apache-2.0
"""The supervisor as doors see it: takes plans and people's words, gives results.

It only hands on: one call is `flow.one_call`; all else that can be asked for stands in
`sandbox.operations`, is a method of it by that table, and is carried out in `handlers`.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

from policy.gate1.decide import Policy
from policy.model import ActionPlan, Workspace
from sandbox.approvals.approver import Approver, nobody
from sandbox.audit.events.agents import ChildRecord
from sandbox.audit.events.calls import OutcomeRecord
from sandbox.audit.events.protected import TamperedRecord
from sandbox.calls.corrections import Corrections
from sandbox.calls.edits.tool_use import ToolUse
from sandbox.calls.flow.call import CallRequest, OnOutput, Stdin
from sandbox.calls.flow.live import LiveState
from sandbox.calls.flow.one_call import CallFlow
from sandbox.calls.flow.parts import Parts
from sandbox.calls.handlers import Handlers
from sandbox.calls.ids import new_id
from sandbox.calls.keepers import Keepers
from sandbox.calls.tickets import Admission
from sandbox.cells.work import Kind
from sandbox.config.settings import Dirs, Settings
from sandbox.operations.methods import AsyncOperations
from sandbox.operations.requests import Request
from sandbox.results import CallResult

R = TypeVar("R")

_OPINION_SECONDS = 1.0
"""The second reading starts after this time, or when it is first wanted: not while the first call
waits for its cell."""


class Supervisor(AsyncOperations):
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
        corrections = Corrections(
            parts.record,
            parts.latch,
            parts.objections,
            parts.learning,
            new_id=new_id,
            keepers=self._keepers,
            end_cells=self._live.end_cells,
            edits=self._flow.edits,
        )
        self._handlers = Handlers(parts, self._live, corrections)
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
        if self._parts.tracing is not None:
            await asyncio.to_thread(self._parts.tracing.close)
        self._parts.off_loop.close()

    def tell_tampered(self, record: TamperedRecord) -> None:
        """Tell a person, over their channel, what the guard found. Raises SandboxError."""
        self._parts.tell_tampered(record)

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
        use: ToolUse | None = None,
        call_id: str | None = None,
    ) -> Admission:
        """Decide, and ask a person, about a call that is not made now: it is made later through
        `redeem`, or by the agent itself (`on_host`), by this `use` of a tool of its own."""
        self._latch.check(plan.agent)
        if call_id is not None:
            await self._parts.names.claim(call_id)
        request = CallRequest(plan, approver, call_id=call_id, on_host=on_host)
        return await self._flow.admit(request, use or ToolUse())

    async def came_back(self, agent: str, use: ToolUse) -> str | None:
        """Record what a tool of an agent's own changed; return its call, None where that is not
        known."""
        return await self._flow.edits.came_back(agent, use)

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
                scripts=admission.scripts,
            )
        )

    async def _counted(self, request: CallRequest) -> CallResult:
        """Make a call within the budgets of its agent."""
        make = functools.partial(self._flow.carry_out, request)
        return await self._live.budgets.counted(request.plan.agent, make)

    async def attach(self, call_id: str, on_output: OnOutput) -> CallResult:
        """Pass on what a background call writes until it ends. Cancelling ends it."""
        return await self._live.background.attach(call_id, on_output)

    async def request(self, request: Request[R], *, by: str | None = None) -> R:
        """Carry out a request of the table of operations; `by` is the agent that asks, None for a
        person. Raises SandboxError."""
        result: R = await self._handlers.carry_out(request, by)
        return result

    async def note(self, said: ChildRecord | OutcomeRecord) -> None:
        """Record something that an agent said of itself, and the files that it is seen to have
        made."""
        if isinstance(said, OutcomeRecord):
            settle = functools.partial(self._parts.host_made.settle, said)
            said = await self._parts.off_loop.do(said.agent or "", settle)
        await self._record.event(said)

    # -- state

    def check_latch(self, agent: str) -> None:
        """Raise Stopped while a stop is in force for an agent."""
        self._latch.check(agent)

    def running(self) -> list[dict[str, Any]]:
        """Return the calls that run now."""
        return self._live.running()

    def follow_ups(self) -> list[dict[str, Any]]:
        """Return the undos and landings that go on: what each is about, and what it is at."""
        works = self._parts.works
        return [work.as_json() for work in works if work.kind is not Kind.CALL]

    def asking(self) -> list[dict[str, Any]]:
        """Return the calls that wait for a person's answer now: `id`, `agent`."""
        return self._parts.desk.asking()

    def cells(self) -> list[dict[str, Any]]:
        """Return the living cells."""
        return self._live.cells()

    def budgets(self) -> dict[str, list[str]]:
        """Return what each agent has used of its budgets, in words."""
        return self._live.budgets.uses()

    async def _keepers(self) -> Keepers:
        parts = self._parts
        return Keepers(
            parts.record,
            await self._live.connected(),
            parts.check_workspaces,
            parts.policies.paths,
            parts.recovery,
            parts.ledger,
            parts.replaced,
            parts.turns,
            parts.works,
            lambda: tuple(workspace.path for workspace in parts.known.all()),
        )
