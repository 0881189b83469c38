# SPDX-License-Identifier: Apache-2.0
"""Claude Code's hooks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sandbox.hooks.agents.fields import (
    Json,
    named_kind,
    object_of,
    output_of,
    printed,
    text_of,
    text_or_nothing,
)
from sandbox.hooks.events import Event, Kind, Printed, Say, blocked

_KINDS = {
    "PreToolUse": Kind.BEFORE,
    "PermissionRequest": Kind.BEFORE,
    "PreSkillShellCommand": Kind.BEFORE,
    "PostToolUse": Kind.AFTER,
    "PostToolUseFailure": Kind.AFTER,
    "UserPromptSubmit": Kind.PROMPT,
    "SubagentStart": Kind.CHILD_BEGINS,
    "SubagentStop": Kind.CHILD_ENDS,
    "SessionStart": Kind.BEGINS,
    "SessionEnd": Kind.ENDS,
}


_QUIET = frozenset(
    (
        *("PostToolBatch", "Notification", "UserPromptExpansion", "Stop", "StopFailure"),
        *("PreCompact", "PostCompact", "PreModelSwitch", "PostModelSwitch", "PermissionDenied"),
        *("Setup", "TeammateIdle", "TaskCreated", "TaskCompleted", "Elicitation"),
        *("ElicitationResult", "ConfigChange", "WorktreeCreate", "WorktreeRemove", "CwdChanged"),
        *("InstructionsLoaded", "FileChanged", "DirectoryAdded", "MessageDisplay", "Interrupt"),
    )
)


def read_event(said: Json, kinds: Mapping[str, Kind] = _KINDS) -> Event:
    """Return what an event says. Raises BadEvent."""
    name, kind = named_kind(said, {**dict.fromkeys(_QUIET, Kind.OTHER), **kinds})
    event = Event(
        kind,
        name,
        session=text_or_nothing(said, "session_id"),
        cwd=text_or_nothing(said, "cwd") or None,
        use=text_or_nothing(said, "tool_use_id"),
        child=text_or_nothing(said, "agent_id"),
        child_type=text_or_nothing(said, "agent_type"),
        text=text_or_nothing(said, "prompt"),
    )
    if kind is Kind.AFTER:
        failed = name == "PostToolUseFailure"
        output = said.get("error") if failed else said.get("tool_response")
        return replace(_with_tool(event, said), failed=failed, output=output_of(output))
    return _with_tool(event, said) if kind is Kind.BEFORE else event


def _with_tool(event: Event, said: Json) -> Event:
    if event.name == "PreSkillShellCommand":
        params = said.get("tool_input")
        return replace(event, tool="Bash", params=object_of(params, "tool_input"))
    server = said.get("mcp_server")
    return replace(
        event,
        tool=text_of(said, "tool_name"),
        params=object_of(said.get("tool_input"), "tool_input"),
        server=text_or_nothing(server, "name") if isinstance(server, Mapping) else "",
    )


def write_answer(event: Event, say: Say, said: Json) -> Printed:
    """Return what the hook prints, and how it ends."""
    out: dict[str, Any] = {}
    specific: dict[str, Any] = {"hookEventName": event.name}
    if event.kind is Kind.BEFORE and event.name == "PermissionRequest":
        if say.allowed is False:
            specific["decision"] = {"behavior": "deny", "message": say.reason}
    elif event.kind is Kind.BEFORE and event.name == "PreToolUse":
        if say.allowed is not None:
            specific["permissionDecision"] = "allow" if say.allowed else "deny"
        if say.allowed is False:
            specific["permissionDecisionReason"] = say.reason
        if say.allowed and say.command is not None:
            specific["updatedInput"] = {**event.params, "command": say.command}
    elif event.kind is Kind.BEFORE:
        return blocked(say.reason) if say.allowed is False else Printed()
    elif event.kind is Kind.PROMPT and say.allowed is False:
        out |= {"decision": "block", "reason": say.reason}
    elif event.kind is Kind.AFTER and say.output is not None and event.name == "PostToolUse":
        specific["updatedToolOutput"] = say.output
    if say.stop:
        out |= {"continue": False, "stopReason": say.reason}
    if len(specific) > 1:
        out["hookSpecificOutput"] = specific
    return printed(out)
