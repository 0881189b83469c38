# SPDX-License-Identifier: Apache-2.0
"""What a tool that reads the web hands to others: its addresses and queries. Pure."""

from __future__ import annotations

from policy.model import ActionPlan
from policy.rules.schema import Tools

_SENT = ("url", "urls", "uri", "query")


def sent(plan: ActionPlan, tools: Tools) -> tuple[str, ...]:
    """Return the texts that leave this host."""
    if "web" not in tools.kinds(plan.tool):
        return ()
    given = plan.params.model_dump(by_alias=True, exclude_none=True)
    found: list[str] = []
    for name in _SENT:
        value = given.get(name)
        texts = value if isinstance(value, list | tuple) else [value]
        found += [str(text) for text in texts if text]
    return tuple(found)
