# SPDX-License-Identifier: Apache-2.0
"""Tell the user of a YELLOW call once it is over."""

from __future__ import annotations

import asyncio
from pathlib import Path

from policy.model import Verdict
from policy.people.approval import category
from policy.people.done import pushed
from policy.people.due import is_due
from sandbox.calls.flow.call import Call
from sandbox.calls.flow.parts import Parts
from sandbox.errors import SandboxError
from sandbox.guard.untrusted_repository import Repository
from sandbox.host.off_loop import is_quick
from sandbox.reporting.delivery import SHOWN
from sandbox.results import CallResult


class CallReports:
    """The reports on one supervisor's calls."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def begin(self, call: Call) -> None:
        """Look up soon what the report will call a call, while its command runs."""
        if call.decision.verdict is Verdict.REPORT and is_quick(call.plan):
            asyncio.get_running_loop().call_soon(self._categorise, call)

    async def send(self, call: Call, result: CallResult) -> CallResult:
        """Return the result, with a report where there is to be one."""
        if not is_due(call.decision):
            return result
        if not is_quick(call.plan):
            await self._parts.off_loop.do(call.plan.agent, lambda: self._categorise(call))
        if call.answer.effective is None:
            return result
        levels = call.answer.effective.policy.autonomy.levels
        return await self._parts.people.told(
            call.plan,
            result,
            call.category,
            levels,
            shown=SHOWN.get() and not call.plan.params.run_in_background,
            commits=await asyncio.to_thread(_commits, call, result),
        )

    def _categorise(self, call: Call) -> None:
        if call.answer.effective is not None:
            policy, facts = call.answer.effective.policy, call.answer.facts
            call.category = category(call.plan, call.context, policy, facts)


def _commits(call: Call, result: CallResult) -> int | None:
    """Return how many commits a push took along, where that can be told."""
    if result.exit_status != 0 or "push" not in (call.plan.params.command or ""):
        return None
    found = pushed(result.stderr)
    if found is None or not found[0]:
        return None
    try:
        here = Repository(Path(call.plan.cwd or call.plan.workspace))
        return here.count(here.commit(found[0]), here.commit(found[1]))
    except (SandboxError, OSError):
        return None
