# SPDX-License-Identifier: Apache-2.0
"""Decisions of the record in other shapes: the log of autonomy-levels.md, and rows of CSV. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from policy.autonomy.authority import ESCALATION
from policy.people.reports import AuditLine
from sandbox.reporting.yellow_reports import action_name

COLUMNS = (
    *("ts", "id", "agent", "tool", "action", "verdict", "tier", "rules", "message"),
    *("approved_by", "grant", "ending", "exit_status", "judgement", "landed", "changes"),
    "undone_by",
)
_LEVELS = {"report": "yellow", "ask": "red", "deny": "red"}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_DECLINED = "user_declined"
Record = Mapping[str, Any]


def autonomy_line(records: Sequence[Record]) -> AuditLine | None:
    """Return a call's line in the log of YELLOW and RED actions ("Audit Trail"), None for GREEN.

    `records` are those of the call, the newest first. What was denied counts as RED.
    """
    decided = next((one for one in records if one.get("event") == "decided"), {})
    # the first decision: a yes may have let the call be decided about anew
    first = next((one for one in reversed(records) if one.get("event") == "decided"), {})
    level = _LEVELS.get(str(first.get("verdict")))
    if level is None:
        return None
    own = decided.get("call")
    answer = next(
        (one for one in records if one.get("event") == "answered" and one.get("call") == own), None
    )
    approved = level == "yellow" or bool(answer and answer.get("approved"))
    return AuditLine.model_validate(
        {
            "ts": first["ts"],
            "level": level,
            "agent": str(first.get("agent") or ""),
            "action": _action(first),
            "details": _details(first),
            "approved": approved,
            **_answered(answer),
            **({} if approved else {"reason": _reason(first, answer)}),
        }
    )


def _answered(answer: Record | None) -> dict[str, Any]:
    if answer is None or not answer.get("approved"):
        return {}
    return {"approved_by": answer.get("approved_by") or "a person", "approved_at": answer["ts"]}


def _reason(first: Record, answer: Record | None) -> str:
    if answer is None:  # denied at gate 1, or nobody has answered yet
        return str(first.get("message") or "")
    said = answer.get("answer_reason")
    return str(said) if said else _DECLINED


def _action(record: Record) -> str:
    if any(one.get("rule") == ESCALATION for one in record.get("layers") or ()):
        return "escalation"
    command = (record.get("params") or {}).get("command")
    return action_name(str(record.get("tool") or ""), command)


def _details(record: Record) -> str:
    params = record.get("params") or {}
    what = params.get("command") or params.get("file_path") or record.get("tool") or ""
    return str(record.get("intent") or what)


def csv_row(entry: Record) -> list[str]:
    """Return a call as a row under COLUMNS; no cell of it is taken for a formula."""
    params = entry.get("params") or {}
    shown = {
        **entry,
        "action": params.get("command") or params.get("file_path") or "",
        "rules": " ".join(entry.get("rules") or ()),
        "changes": " ".join(str(one.get("path")) for one in entry.get("changes") or ()),
    }
    cells = ("" if shown.get(name) is None else str(shown[name]) for name in COLUMNS)
    return [f"'{cell}" if cell.startswith(_FORMULA) else cell for cell in cells]
