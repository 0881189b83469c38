# SPDX-License-Identifier: Apache-2.0
"""The dialects of agents' hooks: read an event, write an answer. Pure.

Reading is lenient about fields that are not needed and strict about those that are; writing uses
only fields that the agent knows, since an unknown one voids the whole answer in one of them. What
each agent makes of an answer: see docs/agents.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sandbox.hooks.events import BadEvent, Event, Kind, Printed, Say, blocked

_MOST_BYTES = 64 * 1024 * 1024
_MOST_OUTPUT = 100_000
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one agent talks to its hooks."""

    agent: str
    """Its name in `policy.tools.dialects`."""
    read: Callable[[Json], Event]
    write: Callable[[Event, Say, Json], Printed]
    rewrites: frozenset[str]
    """Events in which the agent takes another command for the one it wanted to run."""
    labels: bool = False
    """Whether what the agent shows and keeps is that other command, so that it should say what it
    stands for. Only of an agent that puts nothing behind it."""


def parse(text: bytes | str) -> Json:
    """Return the object that an agent sent. Raises BadEvent."""
    if len(text) > _MOST_BYTES:
        raise BadEvent("what the agent sent is too long to be judged")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise BadEvent("what the agent sent is no JSON, so it cannot be judged") from None
    if not isinstance(found, dict):
        raise BadEvent("what the agent sent is no object, so it cannot be judged")
    return found


def named(name: str) -> Dialect:
    """Return a dialect by its name on the command line. Raises BadEvent."""
    dialect = DIALECTS.get(name)
    if dialect is None:
        raise BadEvent(f"`{name}` is no agent that is known; use one of {', '.join(DIALECTS)}")
    return dialect


# -- Claude Code

_CLAUDE = {
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
_CLAUDE_QUIET = frozenset(
    (
        *("PostToolBatch", "Notification", "UserPromptExpansion", "Stop", "StopFailure"),
        *("PreCompact", "PostCompact", "PreModelSwitch", "PostModelSwitch", "PermissionDenied"),
        *("Setup", "TeammateIdle", "TaskCreated", "TaskCompleted", "Elicitation"),
        *("ElicitationResult", "ConfigChange", "WorktreeCreate", "WorktreeRemove", "CwdChanged"),
        *("InstructionsLoaded", "FileChanged", "DirectoryAdded", "MessageDisplay", "Interrupt"),
    )
)


def _claude_event(said: Json, kinds: Mapping[str, Kind] = _CLAUDE) -> Event:
    name = _text(said, "hook_event_name")
    kind = kinds.get(name)
    if kind is None:
        if name not in _CLAUDE_QUIET:
            raise BadEvent(f"`{name}` is no event that is known, so it cannot be judged")
        kind = Kind.OTHER
    event = Event(
        kind,
        name,
        session=_maybe(said, "session_id"),
        cwd=_maybe(said, "cwd") or None,
        use=_maybe(said, "tool_use_id"),
        child=_maybe(said, "agent_id"),
        child_type=_maybe(said, "agent_type"),
        text=_maybe(said, "prompt"),
    )
    if kind is Kind.AFTER:
        failed = name == "PostToolUseFailure"
        output = said.get("error") if failed else said.get("tool_response")
        return replace(_with_tool(event, said), failed=failed, output=_output(output))
    return _with_tool(event, said) if kind is Kind.BEFORE else event


def _with_tool(event: Event, said: Json) -> Event:
    if event.name == "PreSkillShellCommand":
        params = said.get("tool_input")
        return replace(event, tool="Bash", params=_object(params, "tool_input"))
    server = said.get("mcp_server")
    return replace(
        event,
        tool=_text(said, "tool_name"),
        params=_object(said.get("tool_input"), "tool_input"),
        server=_maybe(server, "name") if isinstance(server, Mapping) else "",
    )


def _claude_answer(event: Event, say: Say, said: Json) -> Printed:
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
    return _printed(out)


# -- Codex

_CODEX = {
    "PreToolUse": Kind.BEFORE,
    "PermissionRequest": Kind.BEFORE,
    "PostToolUse": Kind.AFTER,
    "UserPromptSubmit": Kind.PROMPT,
    "SubagentStart": Kind.CHILD_BEGINS,
    "SubagentStop": Kind.CHILD_ENDS,
    "SessionStart": Kind.BEGINS,
}


def _codex_event(said: Json) -> Event:
    return _claude_event(said, _CODEX)


def _codex_answer(event: Event, say: Say, said: Json) -> Printed:
    """A plain allow, `continue` and a deny without a reason let the call run, so none is written:
    no opinion is an empty answer, and a stop is a deny."""
    if event.kind is Kind.BEFORE and event.name == "PermissionRequest":
        if say.allowed is False:
            decision = {"behavior": "deny", "message": say.reason or _NO_REASON}
            return _printed(_specific(event, decision=decision))
    elif event.kind is Kind.BEFORE:
        if say.allowed is False:
            reason = say.reason or _NO_REASON
            return _printed(
                _specific(event, permissionDecision="deny", permissionDecisionReason=reason)
            )
        if say.allowed and say.command is not None:
            updated = {**event.params, "command": say.command}
            return _printed(_specific(event, permissionDecision="allow", updatedInput=updated))
    elif event.kind is Kind.PROMPT and say.allowed is False:
        return _printed({"decision": "block", "reason": say.reason or _NO_REASON})
    elif event.kind is Kind.AFTER and say.output is not None:
        return _printed({"decision": "block", "reason": say.output or _NO_REASON})
    return Printed()


def _specific(event: Event, **fields: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event.name, **fields}}


# -- Gemini CLI

_GEMINI = {
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


def _gemini_event(said: Json) -> Event:
    name = _text(said, "hook_event_name")
    if name not in _GEMINI:
        raise BadEvent(f"`{name}` is no event that is known, so it cannot be judged")
    kind = _GEMINI[name]
    event = Event(
        kind,
        name,
        session=_maybe(said, "session_id"),
        cwd=_maybe(said, "cwd") or None,
        text=_maybe(said, "prompt"),
    )
    if kind not in (Kind.BEFORE, Kind.AFTER):
        return event
    context = said.get("mcp_context")
    event = replace(
        event,
        tool=_text(said, "tool_name"),
        params=_object(said.get("tool_input"), "tool_input"),
        server=_maybe(context, "server_name") if isinstance(context, Mapping) else "",
    )
    if kind is Kind.BEFORE:
        return event
    response = said.get("tool_response")
    response = response if isinstance(response, Mapping) else {}
    return replace(
        event,
        failed=response.get("error") is not None,
        output=_output(response.get("llmContent")),
    )


def _gemini_answer(event: Event, say: Say, said: Json) -> Printed:
    out: dict[str, Any] = {}
    if event.kind in (Kind.BEFORE, Kind.PROMPT) and say.allowed is False:
        out |= {"decision": "deny", "reason": say.reason or _NO_REASON}
    elif event.kind is Kind.BEFORE and say.allowed:
        out["decision"] = "allow"
        if say.command is not None:
            out |= _specific(event, tool_input={"command": say.command})
    elif event.kind is Kind.AFTER and say.output is not None:
        out |= {"decision": "deny", "reason": say.output or _NO_REASON}
    if say.stop:
        out |= {"continue": False, "stopReason": say.reason or _NO_REASON}
    return _printed(out)


# -- Cursor

_CURSOR = {
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


def _cursor_event(said: Json) -> Event:
    name = _text(said, "hook_event_name")
    if name not in _CURSOR:
        raise BadEvent(f"`{name}` is no event that is known, so it cannot be judged")
    roots = said.get("workspace_roots")
    given = roots if isinstance(roots, list) else []
    first = next((one for one in given if isinstance(one, str)), None)
    event = Event(
        _CURSOR[name],
        name,
        session=_maybe(said, "conversation_id"),
        cwd=_maybe(said, "cwd") or first,
        use=_maybe(said, "tool_use_id") or _maybe(said, "generation_id"),
        child=_maybe(said, "subagent_id"),
        child_type=_maybe(said, "subagent_type"),
        text=_maybe(said, "prompt"),
    )
    match name:
        case "beforeShellExecution":
            return replace(event, tool="Shell", params={"command": _text(said, "command")})
        case "beforeMCPExecution":
            tool = _text(said, "tool_name").removeprefix("MCP:")
            params = _embedded(said.get("tool_input"))
            server = _maybe(said, "mcp_server_name")
            return replace(event, tool=f"MCP:{tool}", params=params, server=server)
        case "beforeReadFile" | "beforeTabFileRead":
            return replace(event, tool="Read", params={"file_path": _text(said, "file_path")})
        case "afterFileEdit" | "afterTabFileEdit":
            return replace(event, tool="Write", params={"file_path": _text(said, "file_path")})
        case "preToolUse" | "postToolUse" | "postToolUseFailure":
            output = said.get("tool_output") or said.get("error")
            return replace(
                event,
                tool=_text(said, "tool_name"),
                params=_object(said.get("tool_input"), "tool_input"),
                failed=name == "postToolUseFailure",
                output=_output(output),
            )
    return event


def _cursor_answer(event: Event, say: Say, said: Json) -> Printed:
    """Always an object: anything else from a permission hook blocks."""
    if event.kind is Kind.PROMPT:
        if say.allowed is False or say.stop:
            return _printed({"continue": False, "user_message": say.reason}, always=True)
        return _printed({"continue": True}, always=True)
    if event.kind is not Kind.BEFORE or say.allowed is None:
        return _printed({}, always=True)
    if not say.allowed:
        reason = say.reason or _NO_REASON
        out = {"permission": "deny", "user_message": reason}
        if event.name not in ("beforeReadFile", "beforeTabFileRead"):
            out["agent_message"] = reason
        return _printed(out, always=True)
    allow: dict[str, Any] = {"permission": "allow"}
    if say.command is not None and event.name == "preToolUse":
        allow["updated_input"] = {**event.params, "command": say.command}
    return _printed(allow, always=True)


# -- any other agent

_GENERIC = {kind.value: kind for kind in Kind}


def _generic_event(said: Json) -> Event:
    name = _text(said, "event")
    if name not in _GENERIC:
        raise BadEvent(f"`{name}` is no event; use one of {', '.join(_GENERIC)}")
    kind = _GENERIC[name]
    event = Event(
        kind,
        name,
        session=_maybe(said, "session"),
        cwd=_maybe(said, "cwd") or None,
        use=_maybe(said, "id"),
        child=_maybe(said, "child"),
        child_type=_maybe(said, "child_type"),
        text=_maybe(said, "text"),
        server=_maybe(said, "server"),
        failed=said.get("failed") is True,
        output=_output(said.get("output")),
    )
    if kind is Kind.PROMPT:  # what is not said cannot be the word `stop`
        return replace(event, text=_text(said, "text"))
    if kind in (Kind.BEFORE, Kind.AFTER):
        return replace(
            event, tool=_text(said, "tool"), params=_object(said.get("params"), "params")
        )
    return event


def _generic_answer(event: Event, say: Say, said: Json) -> Printed:
    if event.kind not in (Kind.BEFORE, Kind.PROMPT):
        return Printed()
    if say.allowed is False:
        printed = blocked(say.reason)
        return replace(printed, stdout=_line({"decision": "deny", "reason": say.reason}))
    out: dict[str, Any] = {"decision": "allow"}
    if say.command is not None:
        out["command"] = say.command
    return Printed(stdout=_line(out))


# -- parts

_NO_REASON = "Lockgate does not permit it"


def _text(said: Json, key: str) -> str:
    value = said.get(key)
    if not isinstance(value, str) or not value:
        raise BadEvent(f"`{key}` is missing, so the call cannot be judged")
    return value


def _maybe(said: Any, key: str) -> str:
    value = said.get(key)
    return value if isinstance(value, str) else ""


def _object(value: Any, key: str) -> Json:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise BadEvent(f"`{key}` is no object, so the call cannot be judged")
    return value


def _embedded(value: Any) -> Json:
    """Return an object that may be given as JSON text."""
    if isinstance(value, str):
        return parse(value) if value.strip() else {}
    return _object(value, "tool_input")


def _output(value: Any) -> str:
    if value is None or isinstance(value, str):
        return (value or "")[:_MOST_OUTPUT]
    return json.dumps(value, ensure_ascii=False)[:_MOST_OUTPUT]


def _printed(out: Json, *, always: bool = False) -> Printed:
    return Printed(stdout=_line(out)) if out or always else Printed()


def _line(out: Json) -> str:
    return json.dumps(out) + "\n"


DIALECTS = {
    "claude-code": Dialect(
        "claude", _claude_event, _claude_answer, rewrites=frozenset(("PreToolUse",))
    ),
    "codex": Dialect(
        "codex", _codex_event, _codex_answer, rewrites=frozenset(("PreToolUse",)), labels=True
    ),
    "gemini": Dialect("gemini", _gemini_event, _gemini_answer, rewrites=frozenset(("BeforeTool",))),
    "cursor": Dialect("cursor", _cursor_event, _cursor_answer, rewrites=frozenset(("preToolUse",))),
    "generic": Dialect("claude", _generic_event, _generic_answer, rewrites=frozenset(("before",))),
}
"""The dialects, by their name on the command line."""
