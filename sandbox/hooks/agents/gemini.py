# SPDX-License-Identifier: Apache-2.0
"""Gemini's hooks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sandbox.hooks.agents.fields import (
    NO_REASON,
    Json,
    named_kind,
    object_of,
    output_of,
    printed,
    specific_output,
    text_of,
    text_or_nothing,
)
from sandbox.hooks.events import Event, Kind, Printed, Say

_KINDS = {
    "BeforeTool": Kind.BEFORE,
    "AfterTool": Kind.AFTER,
    "BeforeAgent": Kind.PROMPT,
    "SessionStart": Kind.BEGINS,
    "SessionEnd": Kind.ENDS,
    "AfterAgent": Kind.OTHER,
    "BeforeModel": Kind.OTHER,
    "AfterModel": Kind.OTHER,
    "BeforeToolSelection": Kind.OTHER,
    "Notification": Kind.OTHER,
    "PreCompress": Kind.OTHER,
}


def read_event(said: Json) -> Event:
    """Return what an event says. Raises BadEvent."""
    name, kind = named_kind(said, _KINDS)
    event = Event(
        kind,
        name,
        session=text_or_nothing(said, "session_id"),
        cwd=text_or_nothing(said, "cwd") or None,
        text=text_or_nothing(said, "prompt"),
    )
    if kind not in (Kind.BEFORE, Kind.AFTER):
        return event
    context = said.get("mcp_context")
    event = replace(
        event,
        tool=text_of(said, "tool_name"),
        params=object_of(said.get("tool_input"), "tool_input"),
        server=text_or_nothing(context, "server_name") if isinstance(context, Mapping) else "",
    )
    if kind is Kind.BEFORE:
        return event
    response = said.get("tool_response")
    response = response if isinstance(response, Mapping) else {}
    return replace(
        event,
        failed=response.get("error") is not None,
        output=output_of(response.get("llmContent")),
    )


def write_answer(event: Event, say: Say, said: Json) -> Printed:
    """Return what the hook prints, and how it ends."""
    out: dict[str, Any] = {}
    if event.kind in (Kind.BEFORE, Kind.PROMPT) and say.allowed is False:
        out |= {"decision": "deny", "reason": say.reason or NO_REASON}
    elif event.kind is Kind.BEFORE and say.allowed:
        out["decision"] = "allow"
        if say.command is not None:
            out |= specific_output(event, tool_input={"command": say.command})
    elif event.kind is Kind.AFTER and say.output is not None:
        out |= {"decision": "deny", "reason": say.output or NO_REASON}
    if say.stop:
        out |= {"continue": False, "stopReason": say.reason or NO_REASON}
    return printed(out)
