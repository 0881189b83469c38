# SPDX-License-Identifier: Apache-2.0
"""The tools that put questions to people. INVARIANT (P8): asking grants nothing."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping
from typing import Any

from policy.model import Params, Verdict
from sandbox.approvals.desk import MOST_OPEN, TOO_MANY, said_of
from sandbox.approvals.script_capture import shown_scripts, wanted_with_scripts
from sandbox.approvals.store.request import Request
from sandbox.audit.events.calls import AskedRecord
from sandbox.audit.events.people import UndeliveredRecord, WorkspaceRecord
from sandbox.config.channels import Channel
from sandbox.config.settings import load_settings
from sandbox.errors import BadInput
from sandbox.mcp.governance.standpoint import Standpoint, Who
from sandbox.reporting.channels import deliver
from sandbox.reporting.delivery import masked_question
from sandbox.text.redaction import mask
from sandbox.workspaces.registry import NeedsApproval

_POLL_SECONDS = 0.3


class PersonAsking:
    """Puts questions of agents: about calls, and about folders they want to work in."""

    def __init__(self, at: Standpoint) -> None:
        self._at = at

    def workspace_status(self, who: Who) -> dict[str, Any]:
        """Return the registered workspaces and how they stand ("Workspace Constraints")."""
        statuses = self._at.registry.status()
        return {
            "current": who.workspace,
            "workspaces": [
                {"path": status.path, "state": status.state.value, "reason": status.reason}
                for status in statuses
            ],
        }

    def workspace_validate(self, path: str) -> dict[str, Any]:
        """Return whether a call may use a path, and why."""
        validation = self._at.registry.validate(path)
        return {
            "path": validation.path,
            "valid": validation.valid,
            "workspace": validation.workspace,
            "reason": validation.reason,
        }

    async def workspace_add(self, who: Who, path: str, *, seconds: float) -> dict[str, Any]:
        """Ask a person to register a folder, and register it once they said yes.

        An agent widens nothing itself, wherever the folder lies; waits at most `seconds`.
        """
        checked = self._at.registry.check(path)
        if any(workspace.path == checked.path for workspace in self._at.known.all()):
            return {"path": checked.path, "added": True, "reason": "it is registered already"}
        request = await self._put(who, "workspace_add", {"path": checked.path}, "")
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            used = await asyncio.to_thread(
                self._at.grants.use, request.call, request.wanted, time.time()
            )
            if used is not None:
                self._register(checked.path, used.by)
                return {"path": checked.path, "added": True, "reason": f"approved by {used.by}"}
            state, by, reason = await asyncio.to_thread(self._at.grants.state, request.call)
            if state not in ("open", "approved"):
                return {"path": checked.path, "added": False, "reason": reason or f"{state} {by}"}
            await asyncio.sleep(_POLL_SECONDS)
        return {"path": checked.path, "added": False, **_pending(request)}

    def _register(self, path: str, by: str) -> None:
        try:
            self._at.registry.add(path)
        except NeedsApproval:
            self._at.registry.add(path, approved=True)
        self._at.store.append(WorkspaceRecord(path=path, by=by), durable=True)

    async def request_approval(
        self,
        who: Who,
        tool: str,
        params: Mapping[str, Any],
        reason: str,
        *,
        cwd: str | None = None,
        intent: str = "",
    ) -> dict[str, Any]:
        """Put the question about a call to people, without making it; never grants anything.

        The call is the one that is made later, to the letter: `reason` is for the person alone.
        """
        request = await self._put(who, tool, params, reason, cwd=cwd, intent=intent)
        if request.decision.verdict is not Verdict.ASK:
            said = "denied" if request.decision.verdict is Verdict.DENY else "not needed"
            return {"status": said, "reason": request.decision.message}
        return _pending(request)

    async def _put(
        self,
        who: Who,
        tool: str,
        params: Mapping[str, Any],
        reason: str,
        *,
        cwd: str | None = None,
        intent: str = "",
    ) -> Request:
        """Decide about a call and, where a person must say, leave the question for them."""
        Params.model_validate(params)  # so that what is wrong in it is named as it was given
        said = {"tool": tool, "params": dict(params)}
        plan = self._at.plan_call(who, said, cwd=cwd, intent=intent)
        settings = load_settings(self._at.dirs)
        answer, context = await self._at.decide(plan, settings)
        if answer.effective is None:
            raise BadInput(answer.decision.message)
        now = time.time()
        what, scripts = await asyncio.to_thread(
            wanted_with_scripts, plan, answer.decision, context, answer.effective.policy
        )
        request = Request(
            call="q" + secrets.token_hex(5),
            wanted=what,
            plan=plan.model_copy(update={"intent": intent or reason}),
            decision=answer.decision,
            asked=now,
            until=now + settings.approval_seconds,
            scripts=shown_scripts(scripts),
        )
        if answer.decision.verdict is Verdict.ASK:
            if await asyncio.to_thread(self._at.grants.waiting, who.agent, now) >= MOST_OPEN:
                raise BadInput(TOO_MANY)
            await asyncio.to_thread(self._at.grants.ask, request)
            levels = answer.effective.policy.autonomy.levels
            await self._announce(
                request, settings.channels.get(levels.user(who.user).escalation_channel or "")
            )
        return request

    async def _announce(self, request: Request, channel: Channel | None) -> None:
        """Record that a question was put, and say so over its user's channel."""
        record = masked_question(AskedRecord(**said_of(request)))
        await asyncio.to_thread(self._at.store.append, record, durable=True)
        problem = await deliver(channel, record.as_json()) if channel is not None else None
        if problem is not None:
            missed = UndeliveredRecord(what=record.event, because=mask(problem))
            await asyncio.to_thread(self._at.store.append, missed, durable=True)


def _pending(request: Request) -> dict[str, Any]:
    return {
        "status": "pending",
        "call": request.call,
        "action_id": request.wanted.action_id,
        "reason": f"a person answers with `lockgate approve {request.call}`; then make the call",
    }
