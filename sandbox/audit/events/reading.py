# SPDX-License-Identifier: Apache-2.0
"""Read a line of the record: which class its kind has, and what of it this version does not know.

Lines of earlier and later versions are read as well: a field that a class does not have is kept
with the record (`model_extra`), and so is a line of a kind that is not known, or whose fields are
not what its kind has (`UnknownRecord`). Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from types import ModuleType
from typing import Annotated, Any, Union, get_args

from pydantic import Field, TypeAdapter, ValidationError

from sandbox.audit.events import agents, calls, follow_ups, log, people, protected
from sandbox.audit.events.record import AuditRecord, UnknownRecord


def kinds() -> Mapping[str, type[AuditRecord]]:
    """Return the class of each kind of record."""
    return _KINDS


def record_of(fields: Mapping[str, Any]) -> AuditRecord:
    """Return a record that was read; what its class cannot hold is an `UnknownRecord`."""
    kind = _KINDS.get(event) if isinstance(event := fields.get("event"), str) else None
    if kind is not None:
        try:
            return kind.model_validate(fields)
        except ValidationError:
            pass
    try:
        return UnknownRecord.model_validate(fields)
    except ValidationError:
        odd = {name: one for name, one in fields.items() if name not in AuditRecord.model_fields}
        return UnknownRecord.model_validate({"event": str(event or ""), **odd})


def read(raw: bytes) -> AuditRecord:
    """Return the record of a line. Raises ValueError where it holds none."""
    try:
        return _lines().validate_json(raw)
    except ValidationError:
        fields = json.loads(raw)
    if not isinstance(fields, dict):
        raise ValueError("not a record")
    return record_of(fields)


def unknown_part(record: AuditRecord) -> str:
    """Say what of a record this version does not know; nothing where it knows all."""
    if isinstance(record, UnknownRecord):
        return f"records of the kind `{record.event}`"
    if record.model_extra:
        return f"fields of `{record.event}`: {', '.join(sorted(record.model_extra))}"
    return ""


@cache
def _lines() -> TypeAdapter[AuditRecord]:
    """Return what reads a line of a known kind, in half the time of reading it as JSON first."""
    known = tuple(dict.fromkeys(_KINDS.values()))
    union: Any = Annotated[Union[known], Field(discriminator="event")]  # noqa: UP007
    return TypeAdapter(union)


def _kinds_of(module: ModuleType) -> Iterator[tuple[str, type[AuditRecord]]]:
    """Yield the kinds that a module has classes for."""
    for record in vars(module).values():
        if isinstance(record, type) and issubclass(record, AuditRecord):
            for name in get_args(record.model_fields["event"].annotation):
                yield str(name), record


_KINDS = {
    name: record
    for module in (calls, follow_ups, agents, people, protected, log)
    for name, record in _kinds_of(module)
}
RESERVED = frozenset(name for name, record in _KINDS.items() if issubclass(record, log.LogRecord))
"""Kinds that the log writes of itself."""
