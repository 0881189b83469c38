# SPDX-License-Identifier: Apache-2.0
"""Read what stands in an event, and write an answer as a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sandbox.hooks.events import BadEvent, Event, Kind, Printed

_MOST_BYTES = 64 * 1024 * 1024


_MOST_OUTPUT = 100_000


Json = Mapping[str, Any]


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


NO_REASON = "Lockgate does not permit it"


def text_of(said: Json, key: str) -> str:
    """Return a text that must be there. Raises BadEvent."""
    value = said.get(key)
    if not isinstance(value, str) or not value:
        raise BadEvent(f"`{key}` is missing, so the call cannot be judged")
    return value


def named_kind(said: Json, kinds: Mapping[str, Kind]) -> tuple[str, Kind]:
    """Return the name of an event and what it is. Raises BadEvent for one that is not known."""
    name = text_of(said, "hook_event_name")
    if name not in kinds:
        raise BadEvent(f"`{name}` is no event that is known, so it cannot be judged")
    return name, kinds[name]


def text_or_nothing(said: Any, key: str) -> str:
    """Return a text that may be missing."""
    value = said.get(key)
    return value if isinstance(value, str) else ""


def object_of(value: Any, key: str) -> Json:
    """Return an object that may be missing. Raises BadEvent."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise BadEvent(f"`{key}` is no object, so the call cannot be judged")
    return value


def embedded_object(value: Any) -> Json:
    """Return an object that may be given as JSON text."""
    if isinstance(value, str):
        return parse(value) if value.strip() else {}
    return object_of(value, "tool_input")


def output_of(value: Any) -> str:
    """Return what a tool gave back, as text of bounded length."""
    if value is None or isinstance(value, str):
        return (value or "")[:_MOST_OUTPUT]
    return json.dumps(value, ensure_ascii=False)[:_MOST_OUTPUT]


def printed(out: Json, *, always: bool = False) -> Printed:
    """Return what a hook prints: nothing where there is nothing to say, unless `always`."""
    return Printed(stdout=line_of(out)) if out or always else Printed()


def line_of(out: Json) -> str:
    """Return an answer as a line."""
    return json.dumps(out) + "\n"


def specific_output(event: Event, **fields: Any) -> dict[str, Any]:
    """Return an answer to one event, with these fields."""
    return {"hookSpecificOutput": {"hookEventName": event.name, **fields}}
