# SPDX-License-Identifier: Apache-2.0
"""What is said to people and to parents: reports, escalations, queries.

Shapes only, with the field names of autonomy-levels.md and orchestration.md. Nothing here is sent,
stored or decided; who supplies the time supplies it as text or as a number.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from policy.model import Frozen, Verdict

_ID_DIGITS = 8


class YellowReport(Frozen):
    """What a YELLOW action tells the user afterwards (autonomy-levels.md, `YellowReport`)."""

    action: str
    category: str
    """The category as the document's tables write it: `Git Operations`."""
    details: str
    timestamp: str
    """ISO 8601, with a time zone."""
    reversible: bool
    undo_command: str | None = None

    @field_validator("timestamp")
    @classmethod
    def _zoned(cls, value: str) -> str:
        return _instant(value)


class EscalationRequest(Frozen):
    """What a sub-agent may not do itself (autonomy-levels.md, "Escalation from Sub-Agents")."""

    action: str
    details: str
    proposed_content: str = ""
    reason: str


class Escalation(Frozen):
    """A sub-agent's answer: what it did, and what its parent must ask for."""

    status: Literal["escalation"] = "escalation"
    completed_work: str = ""
    escalation: EscalationRequest


def action_id(tool: str, params: Mapping[str, Any]) -> str:
    """Return the id of exactly one action: the tool and eight hex digits of its parameters."""
    text = json.dumps(params, sort_keys=True, separators=(",", ":"), default=str)
    digest = hashlib.sha256(f"{tool}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"{tool}:{digest[:_ID_DIGITS]}"


class GateWord(str, Enum):
    """How decisions are named in queries (orchestration.md, "Query Options")."""

    ALLOW = "ALLOW"
    DENY = "DENY"
    NEED_APPROVAL = "NEED_APPROVAL"


GATES = {
    Verdict.ALLOW: GateWord.ALLOW,
    Verdict.REPORT: GateWord.ALLOW,
    Verdict.ASK: GateWord.NEED_APPROVAL,
    Verdict.DENY: GateWord.DENY,
}


class GateQuery(Frozen):
    """Which decisions are looked for (orchestration.md, "Audit Trail")."""

    decision: GateWord | None = None
    tool: str | None = None
    since: str | None = None
    """ISO 8601, with a time zone."""
    limit: Annotated[int, Field(ge=1)] = 20

    @field_validator("since")
    @classmethod
    def _zoned(cls, value: str | None) -> str | None:
        return None if value is None else _instant(value)

    def matches(self, verdict: Verdict, tool: str, at: str) -> bool:
        """Whether a decision, made at an ISO 8601 instant, is one that is looked for."""
        return (
            self.decision in (None, GATES[verdict])
            and self.tool in (None, tool)
            and (self.since is None or _parsed(at) >= _parsed(self.since))
        )


class AuditLine(Frozen):
    """One line of the log of YELLOW and RED actions (autonomy-levels.md, "Audit Trail")."""

    ts: str
    level: Literal["yellow", "red"]
    agent: str
    action: str
    details: str
    approved: bool
    approved_by: str | None = None
    approved_at: str | None = None
    reason: str | None = None


def _parsed(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _instant(text: str) -> str:
    try:
        found = _parsed(text)
    except ValueError:
        raise ValueError(f"`{text}` is not an ISO 8601 instant") from None
    if found.tzinfo is None:
        raise ValueError(f"`{text}` has no time zone; write it as `{text}Z`")
    return text
