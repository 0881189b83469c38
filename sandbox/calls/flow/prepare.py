# SPDX-License-Identifier: Apache-2.0
"""Before a call runs: what was asked for becomes a call, with gate 1's answer and its input."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any

from policy.model import Access, ActionPlan, Context, Decision, Verdict
from policy.people.approval import may_open, with_hosts
from policy.sources.precedence import Effective
from policy.values.strict_yaml import PolicyError
from sandbox.agents.told_sessions import CURRENT
from sandbox.approvals.stdin_capture import pieces
from sandbox.calls.flow.call import Call, CallRequest, Stdin
from sandbox.calls.flow.output import Do, Output
from sandbox.calls.flow.parts import Parts
from sandbox.calls.ids import new_id
from sandbox.cells import request as launch
from sandbox.config.settings import Settings
from sandbox.errors import Unavailable
from sandbox.gates.gate1 import Gate1Answer as GateAnswer
from sandbox.gates.gate1 import within
from sandbox.gates.host_calls import tightened


class Preparation:
    """Makes calls of requests, each decided by gate 1. Writes nothing but the use of a grant."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def prepare(self, request: CallRequest) -> Call:
        """Return a call with gate 1's answer. Raises BadInput for what no cell can run."""
        name, plan = request.call_id or new_id(), request.plan
        workspaces = self._parts.workspaces_of(plan)
        effective = self._policy(workspaces)
        context = self._parts.contexts.of(plan, effective)
        answer = await self.decide(
            plan, context, workspaces, on_host=request.on_host, effective=effective
        )
        most = answer.decision.rights.limits.answer_bytes
        store = self._parts.record.store
        return Call(
            name,
            plan,
            answer,
            Output(store, name, most, request.on_output, self._work_of(plan.agent)),
            in_pieces(request.stdin),
            {} if request.on_host else runner_request(plan, answer.decision, name, request.env),
            workspaces,
            context,
            approver=request.approver,
            env=request.env,
            preview=request.preview,
            scripts=request.scripts,
            on_host=request.on_host,
        )

    def _policy(self, workspaces: tuple[str, ...]) -> Effective | None:
        """Return the policy that counts now; None where it is wrong, which gate 1 says."""
        try:
            return self._parts.policies.of(workspaces)
        except PolicyError:
            return None

    async def decide(
        self,
        plan: ActionPlan,
        context: Context,
        workspaces: tuple[str, ...],
        *,
        on_host: bool = False,
        effective: Effective | None = None,
    ) -> GateAnswer:
        """Return gate 1's answer, within the limits of the settings; `effective` is the policy
        where it was looked up just now."""
        answer = await self._parts.gate.decide(plan, context, workspaces, effective)
        if on_host:
            ledger = self._parts.ledger
            answer = await asyncio.to_thread(tightened, answer, plan, context, ledger)
        return within(answer, self._parts.settings.limits)

    async def open_hosts(self, call: Call, *, later: bool = False) -> None:
        """Give a call about which nobody is asked the hosts that a person opened for exactly it.

        Of one that is made `later` they are part of what is decided now; the person's word is used
        when it is made, so that it can be taken back until then.
        """
        plan = call.plan
        if call.on_host or call.env or plan.params.run_in_background:
            return
        if not may_open(call.decision):
            return
        grants, session = self._parts.grants, CURRENT.get()
        try:
            if later:
                opened = await asyncio.to_thread(
                    grants.hosts_to_open, plan, time.time(), session=session
                )
            else:
                opened = await asyncio.to_thread(
                    grants.open_hosts, call.id, plan, time.time(), session=session
                )
        except Unavailable:  # no hosts then, and the call goes on
            opened = ()
        if opened:
            decision = with_hosts(call.decision, tuple(one.host for one in opened))
            call.answer = replace(call.answer, decision=decision)
            call.request = runner_request(plan, decision, call.id, call.env)
            call.hosts += [
                {"host": one.host.name, "port": one.host.port, "state": "opened", "by": one.by,
                 "grant": one.grant} for one in opened
            ]  # fmt: skip

    def _work_of(self, agent: str) -> Do:
        """Return what does an agent's work off the event loop."""

        def do(work: Callable[[], None]) -> Any:
            return self._parts.off_loop.do(agent, work)

        return do


def is_runnable(plan: ActionPlan) -> bool:
    """Whether Lockgate runs calls of this tool; others are only judged."""
    return launch.runnable(plan.tool)


def runner_request(
    plan: ActionPlan,
    decision: Decision,
    call_id: str,
    env: Mapping[str, str] | None,
    *,
    asks: bool = False,
) -> dict[str, Any]:
    """Return what the runner will be asked, empty where nothing runs. Raises BadInput.

    `asks`: a person is asked about hosts while it runs.
    """
    if not is_runnable(plan) or decision.verdict is Verdict.DENY:
        return {}
    return launch.request(
        plan,
        call=call_id,
        exclusive=decision.rights.workspace is Access.WRITE,
        env=env,
        approved=decision.verdict is Verdict.ASK,
        tests="tests" in decision.rules,
        network=asks or bool(decision.rights.network),
    )


def time_limit(plan: ActionPlan, decision: Decision, settings: Settings) -> float:
    """Return how many seconds a call may take."""
    wanted = plan.params.timeout / 1000 if plan.params.timeout else settings.call_seconds
    return min(decision.rights.limits.seconds, wanted)


def in_pieces(stdin: Stdin) -> AsyncIterator[bytes] | None:
    """Return a call's standard input as pieces; None where it has none."""
    match stdin:
        case str() | bytes() | bytearray():
            return pieces(stdin.encode() if isinstance(stdin, str) else bytes(stdin))
        case None:
            return None
        case _ if isinstance(stdin, AsyncIterator):
            return stdin
        case _:
            kind = type(stdin).__name__
            raise TypeError(f"`stdin` is text, bytes or an async iterator of bytes, not {kind}")
