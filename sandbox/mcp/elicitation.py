# SPDX-License-Identifier: Apache-2.0
"""Show a person what waits for them, where the client has elicitation: a comfort.

INVARIANT (P8, elicitation): an answer here approves nothing, since an agent's own hook can give it.
What counts is a grant, which `lockgate approve` makes; accepting says that one may be there now.
"""

from __future__ import annotations

import asyncio
from typing import Any

from mcp.server.mcpserver import Context
from mcp_types import CallToolResult, ElicitRequest, ElicitRequestFormParams, InputRequiredResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from sandbox.approvals.answers import card_of
from sandbox.approvals.store.grants import Grants
from sandbox.errors import BadInput
from sandbox.mcp.answers import as_result
from sandbox.mcp.session import Door
from sandbox.results import CallResult, Ending

_KEY = "approval"
_HOW = """

To allow it, type this in a terminal of your own:

    lockgate approve {call}

Accept afterwards, and the call is made again. Accepting alone allows nothing."""


class _Nothing(BaseModel):
    """A form without fields: only accept, decline and cancel."""


async def called(
    door: Door, context: Context, tool: str, params: dict[str, Any], **more: Any
) -> CallToolResult | InputRequiredResult:
    """Make a call; where a person must approve it, show the card and make it again."""
    if not _elicits(context):
        return as_result(await door.call(tool, params, context, **more))
    said = context.input_responses
    if said is not None:  # the second round of the newer protocol
        accepted = getattr(said.get(_KEY), "action", "") == "accept"
        wait = door.ask_seconds if accepted else 0
        return as_result(await door.call(tool, params, context, wait=wait, **more))
    first = await door.call(tool, params, context, wait=0, **more)
    text = await asyncio.to_thread(_question, door, first)
    if text is None:
        return as_result(first)
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        form = ElicitRequestFormParams(
            message=text, requested_schema={"type": "object", "properties": {}}
        )
        return InputRequiredResult(
            input_requests={_KEY: ElicitRequest(params=form)}, request_state=first.id
        )
    answer = await context.elicit(text, _Nothing)
    if answer.action != "accept":
        return as_result(first)
    return as_result(await door.call(tool, params, context, **more))


def _elicits(context: Context) -> bool:
    capabilities = context.client_capabilities
    return capabilities is not None and capabilities.elicitation is not None


def _question(door: Door, result: CallResult) -> str | None:
    """Return the text of the question that a call left open, or None."""
    if result.ending is not Ending.NOT_APPROVED or result.escalation is not None:
        return None
    try:
        request = Grants(door.dirs).asked(result.id).request
    except BadInput:
        return None
    return card_of(request) + _HOW.format(call=result.id)
