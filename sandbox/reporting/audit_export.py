# SPDX-License-Identifier: Apache-2.0
"""Decisions of the record in other shapes: the log of autonomy-levels.md, and rows of CSV. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from policy.autonomy.authority import ESCALATION
from policy.people.reports import AuditLine
from sandbox.audit.call_entry import CallEntry
from sandbox.audit.events.calls import AnsweredRecord, DecidedRecord
from sandbox.audit.events.record import AuditRecord
from sandbox.reporting.yellow_reports import action_name

COLUMNS = (
    *("ts", "id", "agent", "tool", "action", "verdict", "tier", "rules", "message"),
    *("approved_by", "grant", "ending", "exit_status", "judgement", "landed", "changes"),
    "undone_by",
)
_LEVELS = {"report": "yellow", "ask": "red", "deny": "red"}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_DECLINED = "user_declined"


def autonomy_line(records: Sequence[AuditRecord]) -> AuditLine | None:
    """Return a call's line in the log of YELLOW and RED actions ("Audit Trail"), None for GREEN.

    `records` are those of the call, the newest first. What was denied counts as RED.
    """
    decisions = [record for record in records if isinstance(record, DecidedRecord)]
    if not decisions:
        return None
    first = decisions[-1]  # a yes may have let the call be decided about anew
    level = _LEVELS.get(str(first.verdict))
    if level is None:
        return None
    own = decisions[0].call
    answers = (
        record for record in records if isinstance(record, AnsweredRecord) and record.call == own
    )
    answer = next(answers, None)
    approved = level == "yellow" or bool(answer and answer.approved)
    return AuditLine.model_validate(
        {
            "ts": first.ts,
            "level": level,
            "agent": first.agent or "",
            "action": _action(first),
            "details": _details(first),
            "approved": approved,
            **_answered(answer),
            **({} if approved else {"reason": _reason(first, answer)}),
        }
    )


def _answered(answer: AnsweredRecord | None) -> dict[str, Any]:
    if answer is None or not answer.approved:
        return {}
    return {"approved_by": answer.approved_by or "a person", "approved_at": answer.ts}


def _reason(first: DecidedRecord, answer: AnsweredRecord | None) -> str:
    if answer is None:  # denied at gate 1, or nobody has answered yet
        return first.message or ""
    return answer.answer_reason or _DECLINED


def _action(record: DecidedRecord) -> str:
    if any(layer.get("rule") == ESCALATION for layer in record.layers or ()):
        return "escalation"
    command = (record.params or {}).get("command")
    return action_name(record.tool or "", command)


def _details(record: DecidedRecord) -> str:
    return record.intent or record.subject or record.tool or ""


def csv_row(entry: CallEntry) -> list[str]:
    """Return a call as a row under COLUMNS; no cell of it is taken for a formula."""
    params = entry.params or {}
    shown = {
        **entry.model_dump(),
        "action": params.get("command") or params.get("file_path") or "",
        "rules": " ".join(entry.rules or ()),
        "changes": " ".join(str(change.get("path")) for change in entry.changes or ()),
    }
    cells = ("" if shown.get(name) is None else str(shown[name]) for name in COLUMNS)
    return [f"'{cell}" if cell.startswith(_FORMULA) else cell for cell in cells]
