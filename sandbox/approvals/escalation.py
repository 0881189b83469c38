# SPDX-License-Identifier: Apache-2.0
"""What a sub-agent answers where only its parent may ask (autonomy-levels.md, "Escalation")."""

from __future__ import annotations

from collections.abc import Iterable

from policy.model import ActionPlan, Decision
from policy.people.reports import Escalation, EscalationRequest
from sandbox.audit.call_entry import CallEntry

LOOKED_AT = 200
"""Calls of the record among which the agent's own are looked for."""
_CALLS = 10
_PATHS = 5


def escalation(plan: ActionPlan, decision: Decision, earlier: Iterable[CallEntry]) -> Escalation:
    """Return the request for escalation of the document; `earlier` are calls, the newest first."""
    command = plan.params.command or ""
    content = command or plan.params.content or plan.params.new_string or ""
    content = content or "\n".join(edit.new_string for edit in plan.params.edits)
    subject = command or f"{plan.tool} {plan.params.file_path or ''}".strip()
    return Escalation(
        completed_work=_completed(plan.agent, earlier),
        escalation=EscalationRequest(
            action=f"{plan.tool}: {subject}"[:200],
            details=decision.message,
            proposed_content=content,
            reason=plan.intent or "Required to complete the task",
        ),
    )


def _completed(agent: str, earlier: Iterable[CallEntry]) -> str:
    """Return what an agent landed, and what of it is held, on one line; empty for nothing."""
    landed: list[str] = []
    held: list[str] = []
    for call in earlier:
        kind = landed if call.landed else held if call.is_held else None
        if call.agent != agent or kind is None:
            continue
        paths = [str(change.get("path")) for change in call.changes or ()]
        rest = f" and {len(paths) - _PATHS} more" if len(paths) > _PATHS else ""
        kind.append(f"{call.id} ({', '.join(paths[:_PATHS])}{rest})")
        if len(landed) + len(held) == _CALLS:
            break
    parts = (("landed", landed), ("waits for a person", held))
    return "; ".join(f"{word} {', '.join(reversed(some))}" for word, some in parts if some)
