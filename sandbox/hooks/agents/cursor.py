# SPDX-License-Identifier: Apache-2.0
"""Cursor's hooks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sandbox.hooks.agents.fields import (
    NO_REASON,
    Json,
    embedded_object,
    named_kind,
    object_of,
    output_of,
    printed,
    text_of,
    text_or_nothing,
)
from sandbox.hooks.events import Event, Kind, Printed, Say

_KINDS = {
    "preToolUse": Kind.BEFORE,
    "beforeShellExecution": Kind.BEFORE,
    "beforeMCPExecution": Kind.BEFORE,
    "beforeReadFile": Kind.BEFORE,
    "beforeTabFileRead": Kind.BEFORE,
    "postToolUse": Kind.AFTER,
    "postToolUseFailure": Kind.AFTER,
    "afterShellExecution": Kind.OTHER,
    "afterMCPExecution": Kind.OTHER,
    "afterFileEdit": Kind.AFTER,
    "afterTabFileEdit": Kind.AFTER,
    "beforeSubmitPrompt": Kind.PROMPT,
    "subagentStart": Kind.CHILD_BEGINS,
    "subagentStop": Kind.CHILD_ENDS,
    "sessionStart": Kind.BEGINS,
    "sessionEnd": Kind.ENDS,
    "afterAgentResponse": Kind.OTHER,
    "afterAgentThought": Kind.OTHER,
    "preCompact": Kind.OTHER,
    "stop": Kind.OTHER,
    "workspaceOpen": Kind.OTHER,
}


def read_event(said: Json) -> Event:
    """Return what an event says. Raises BadEvent."""
    name, kind = named_kind(said, _KINDS)
    roots = said.get("workspace_roots")
    given = roots if isinstance(roots, list) else []
    first = next((one for one in given if isinstance(one, str)), None)
    event = Event(
        kind,
        name,
        session=text_or_nothing(said, "conversation_id"),
        cwd=text_or_nothing(said, "cwd") or first,
        use=text_or_nothing(said, "tool_use_id") or text_or_nothing(said, "generation_id"),
        child=text_or_nothing(said, "subagent_id"),
        child_type=text_or_nothing(said, "subagent_type"),
        text=text_or_nothing(said, "prompt"),
    )
    match name:
        case "beforeShellExecution":
            return replace(event, tool="Shell", params={"command": text_of(said, "command")})
        case "beforeMCPExecution":
            tool = text_of(said, "tool_name").removeprefix("MCP:")
            params = embedded_object(said.get("tool_input"))
            server = text_or_nothing(said, "mcp_server_name")
            return replace(event, tool=f"MCP:{tool}", params=params, server=server)
        case "beforeReadFile" | "beforeTabFileRead":
            return replace(event, tool="Read", params={"file_path": text_of(said, "file_path")})
        case "afterFileEdit" | "afterTabFileEdit":
            return replace(event, tool="Write", params={"file_path": text_of(said, "file_path")})
        case "preToolUse" | "postToolUse" | "postToolUseFailure":
            output = said.get("tool_output") or said.get("error")
            return replace(
                event,
                tool=text_of(said, "tool_name"),
                params=object_of(said.get("tool_input"), "tool_input"),
                failed=name == "postToolUseFailure",
                output=output_of(output),
            )
    return event


def write_answer(event: Event, say: Say, said: Json) -> Printed:
    """Always an object: anything else from a permission hook blocks."""
    if event.kind is Kind.PROMPT:
        if say.allowed is False or say.stop:
            return printed({"continue": False, "user_message": say.reason}, always=True)
        return printed({"continue": True}, always=True)
    if event.kind is not Kind.BEFORE or say.allowed is None:
        return printed({}, always=True)
    if not say.allowed:
        reason = say.reason or NO_REASON
        out = {"permission": "deny", "user_message": reason}
        if event.name not in ("beforeReadFile", "beforeTabFileRead"):
            out["agent_message"] = reason
        return printed(out, always=True)
    allow: dict[str, Any] = {"permission": "allow"}
    if say.command is not None and event.name == "preToolUse":
        allow["updated_input"] = {**event.params, "command": say.command}
    return printed(allow, always=True)
