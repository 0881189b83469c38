# SPDX-License-Identifier: Apache-2.0
"""The tool that reads the record: what was decided."""

from __future__ import annotations

import time
from typing import Any

from policy.model import Verdict
from policy.people.reports import GATES, GateQuery
from sandbox.audit.query import Query, instant, verdicts
from sandbox.audit.reader import Audit
from sandbox.errors import BadInput
from sandbox.mcp.governance.standpoint import Standpoint, first_error

_MOST_QUERY = 1000


class Decisions:
    """Says what was decided."""

    def __init__(self, at: Standpoint) -> None:
        self._at = at

    def gate_audit(
        self,
        *,
        decision: str | None = None,
        tool: str | None = None,
        since: str | None = None,
        limit: int = 20,
    ) -> list[dict[str, Any]]:
        """Return decisions, the newest first ("Audit Trail"). Raises BadInput."""
        try:
            query = GateQuery.model_validate(
                {"decision": decision, "tool": tool, "since": since, "limit": limit}
            )
        except ValueError as error:
            raise BadInput(f"the query: {first_error(error)}") from None
        asked = Query(
            verdicts(query.decision.value if query.decision else None),
            query.tool,
            since=instant(query.since, time.time()),
            limit=min(query.limit, _MOST_QUERY),
        )
        return [
            {
                "timestamp": record.ts,
                "decision": GATES[Verdict(record.verdict)].value,
                "tool": record.tool,
                "agent": record.agent,
                "action": record.subject,
                "rules": record.rules,
                "reason": record.message,
                "call": record.call,
            }
            for record in Audit(self._at.dirs).decisions(asked)
        ]
