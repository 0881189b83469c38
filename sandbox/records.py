# SPDX-License-Identifier: Apache-2.0
"""Write the record of calls in order, off the event loop.

One thread appends, so that lines keep the order in which things happened. INVARIANT (P1): the
future that `decided` returns is done only when the decision is on disk. Whatever could not be
written makes the next decision fail: no call runs unrecorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from policy.model import ActionPlan, Decision
from sandbox.config import Dirs
from sandbox.desk import Permission
from sandbox.errors import SandboxError
from sandbox.owners import owner_label
from sandbox.results import CallResult, ChangeView, WatchEvent
from sandbox.store import Store

MOST_CHANGES = 200
"""Changed paths in one line of the log; the rest stands in the call's folder."""
MOST_TEXT = 20_000
"""Characters of one parameter in the log (contents of files); commands are kept whole."""


class Recorder:
    """The record of one supervisor."""

    def __init__(self, dirs: Dirs) -> None:
        self.store = Store(dirs)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="record")
        self._broken: SandboxError | None = None

    def decided(self, call: str, plan: ActionPlan, decision: Decision) -> asyncio.Future[None]:
        """Record gate 1's answer; the future is done when it is on disk."""
        record = {
            "event": "decided",
            "call": call,
            "agent": plan.agent,
            "role": plan.role,
            "user": plan.user,
            "tool": plan.tool,
            "params": _shortened(plan),
            "digest": plan.digest(),
            "intent": plan.intent,
            "workspace": plan.workspace,
            "also": list(plan.also),
            "cwd": plan.cwd,
            "verdict": decision.verdict.value,
            "tier": decision.tier.value,
            "rules": list(decision.rules),
            "message": decision.message,
            "layers": [layer.model_dump(mode="json") for layer in decision.layers],
            "rights": decision.rights.model_dump(mode="json"),
            "policy": decision.policy,
            "supervisor": owner_label(),
        }
        return self._soon(lambda: self._checked(record))

    async def answered(self, call: str, said: Permission) -> None:
        """Record a person's answer, on disk when this returns."""
        await self.event(
            {
                "event": "answered",
                "call": call,
                "approved": said.approved,
                "approved_by": said.by or None,
                "answer_reason": said.reason or None,
                "grant": said.grant,
            }
        )

    def ended(self, result: CallResult) -> None:
        """Record how a call ended."""
        record = {
            "event": "ended",
            "call": result.id,
            "ending": result.ending.value,
            "judgement": result.judgement,
            "landed": result.landed,
            "exit_status": result.exit_status,
            "changes": [_plain(view) for view in result.changes[:MOST_CHANGES]],
            "changes_total": len(result.changes),
            **({"events": [_plain(event) for event in result.events]} if result.events else {}),
            "outcome": result.message,
            "ms": round(result.ms, 2),
        }
        self._later(record)

    async def failed(self, call: str, error: BaseException, ms: float) -> None:
        """Record that a call was cancelled or that Lockgate failed under it."""
        ending = "cancelled" if isinstance(error, asyncio.CancelledError) else "failed"
        self._later(
            {
                "event": "ended",
                "call": call,
                "ending": ending,
                "landed": False,
                "outcome": str(error) or type(error).__name__,
                "ms": round(ms, 2),
            }
        )

    async def event(self, record: dict[str, Any]) -> None:
        """Record something else, on disk when this returns."""
        await self._soon(lambda: self.store.append(record, durable=True))

    def keep_diff(self, call: str, diff: str) -> None:
        """Keep a call's diff in its folder."""
        if diff:
            data = diff.encode("utf-8", "backslashreplace")
            write = lambda: self.store.keep_output(call, "diff.patch", data)  # noqa: E731
            self._soon(lambda: self._guarded(write))

    async def flush(self) -> None:
        """Wait until all is written."""
        await self._soon(lambda: None)

    def _soon(self, work: Callable[[], Any]) -> asyncio.Future[None]:
        return asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _later(self, record: dict[str, Any]) -> None:
        self._soon(lambda: self._guarded(lambda: self.store.append(record, durable=False)))

    def _guarded(self, work: Callable[[], Any]) -> None:
        try:
            work()
        except (SandboxError, OSError) as error:
            self._broken = SandboxError(f"an outcome could not be recorded: {error}")

    def _checked(self, record: dict[str, Any]) -> None:
        if self._broken is not None:
            raise self._broken
        self.store.append(record, durable=True)


def _plain(view: ChangeView | WatchEvent) -> dict[str, Any]:
    return view.model_dump(mode="json", exclude_none=True)


def _shortened(plan: ActionPlan) -> dict[str, Any]:
    params = plan.params.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return {
        key: value[:MOST_TEXT] + f"[cut, {len(value)} characters]"
        if key != "command" and isinstance(value, str) and len(value) > MOST_TEXT
        else value
        for key, value in params.items()
    }
