# SPDX-License-Identifier: Apache-2.0
"""Hooks of any agent: the format of docs/agents.md."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sandbox.hooks.agents.fields import (
    Json,
    line_of,
    object_of,
    output_of,
    text_of,
    text_or_nothing,
)
from sandbox.hooks.events import BadEvent, Event, Kind, Printed, Say, blocked

_KINDS = {kind.value: kind for kind in Kind}


def read_event(said: Json) -> Event:
    """Return what an event says. Raises BadEvent."""
    name = text_of(said, "event")
    if name not in _KINDS:
        raise BadEvent(f"`{name}` is no event; use one of {', '.join(_KINDS)}")
    kind = _KINDS[name]
    event = Event(
        kind,
        name,
        session=text_or_nothing(said, "session"),
        cwd=text_or_nothing(said, "cwd") or None,
        use=text_or_nothing(said, "id"),
        child=text_or_nothing(said, "child"),
        child_type=text_or_nothing(said, "child_type"),
        text=text_or_nothing(said, "text"),
        server=text_or_nothing(said, "server"),
        failed=said.get("failed") is True,
        output=output_of(said.get("output")),
    )
    if kind is Kind.PROMPT:  # what is not said cannot be the word `stop`
        return replace(event, text=text_of(said, "text"))
    if kind in (Kind.BEFORE, Kind.AFTER):
        return replace(
            event, tool=text_of(said, "tool"), params=object_of(said.get("params"), "params")
        )
    return event


def write_answer(event: Event, say: Say, said: Json) -> Printed:
    """Return what the hook prints, and how it ends."""
    if event.kind not in (Kind.BEFORE, Kind.PROMPT):
        return Printed()
    if say.allowed is False:
        printed = blocked(say.reason)
        return replace(printed, stdout=line_of({"decision": "deny", "reason": say.reason}))
    out: dict[str, Any] = {"decision": "allow"}
    if say.command is not None:
        out["command"] = say.command
    return Printed(stdout=line_of(out))
