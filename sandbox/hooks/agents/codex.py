# SPDX-License-Identifier: Apache-2.0
"""Codex' hooks, whose events are Claude Code's."""

from __future__ import annotations

from sandbox.hooks.agents import claude
from sandbox.hooks.agents.fields import NO_REASON, Json, printed, specific_output
from sandbox.hooks.events import Event, Kind, Printed, Say

_KINDS = {
    "PreToolUse": Kind.BEFORE,
    "PermissionRequest": Kind.BEFORE,
    "PostToolUse": Kind.AFTER,
    "UserPromptSubmit": Kind.PROMPT,
    "SubagentStart": Kind.CHILD_BEGINS,
    "SubagentStop": Kind.CHILD_ENDS,
    "SessionStart": Kind.BEGINS,
}


def read_event(said: Json) -> Event:
    """Return what an event says. Raises BadEvent."""
    return claude.read_event(said, _KINDS)


def write_answer(event: Event, say: Say, said: Json) -> Printed:
    """A plain allow, `continue` and a deny without a reason let the call run, so none is written:
    no opinion is an empty answer, and a stop is a deny."""
    if event.kind is Kind.BEFORE and event.name == "PermissionRequest":
        if say.allowed is False:
            decision = {"behavior": "deny", "message": say.reason or NO_REASON}
            return printed(specific_output(event, decision=decision))
    elif event.kind is Kind.BEFORE:
        if say.allowed is False:
            reason = say.reason or NO_REASON
            return printed(
                specific_output(event, permissionDecision="deny", permissionDecisionReason=reason)
            )
        if say.allowed and say.command is not None:
            updated = {**event.params, "command": say.command}
            return printed(specific_output(event, permissionDecision="allow", updatedInput=updated))
    elif event.kind is Kind.PROMPT and say.allowed is False:
        return printed({"decision": "block", "reason": say.reason or NO_REASON})
    elif event.kind is Kind.AFTER and say.output is not None:
        return printed({"decision": "block", "reason": say.output or NO_REASON})
    return Printed()
