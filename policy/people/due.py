# SPDX-License-Identifier: Apache-2.0
"""On which calls a report is due. Pure."""

from __future__ import annotations

from policy.model import Decision, Verdict
from policy.programs.own_programs import OWN
from policy.tools.reading import BY_NAME

_LEVEL, _RULES = "level", "rules"


def is_due(decision: Decision) -> bool:
    """Whether a report is due on a call that ran: it is YELLOW, or a policy file says of it in so
    many words that it is reported (a rule, a tool by its name, a program of one's own)."""
    if decision.verdict is not Verdict.REPORT:
        return False
    if any(
        answer.layer == _RULES or answer.rule == BY_NAME or answer.rule.startswith(OWN)
        for answer in decision.layers
        if answer.verdict is Verdict.REPORT
    ):
        return True
    levels = [answer.verdict for answer in decision.layers if answer.layer == _LEVEL]
    return not levels or any(verdict is not Verdict.ALLOW for verdict in levels)
