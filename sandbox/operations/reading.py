# SPDX-License-Identifier: Apache-2.0
"""Read a request as it came over the socket."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any

from sandbox.errors import BadInput, UnknownRequest
from sandbox.operations.methods import OF_SUPERVISOR
from sandbox.operations.requests import (
    HookRequest,
    PingRequest,
    PsRequest,
    Request,
    ShutdownRequest,
)

OF_PROCESS = (PingRequest, PsRequest, HookRequest, ShutdownRequest)
REQUESTS: Mapping[str, Any] = {kind.op: kind for kind in (*OF_SUPERVISOR, *OF_PROCESS)}  # type: ignore[attr-defined]
"""Every operation, by the name that it has on the socket."""


def read_request(op: str, message: Mapping[str, Any]) -> Request[Any]:
    """Return a request as it came over the socket; fields that nobody knows are left out.

    Raises UnknownRequest, BadInput.
    """
    kind = REQUESTS.get(op)
    if kind is None:
        raise UnknownRequest(f"`{op}` is no request of this supervisor")
    given = {}
    for each in fields(kind):
        value = message.get(each.name)
        if value is not None or (each.default is MISSING and each.default_factory is MISSING):
            given[each.name] = _READERS[str(each.type)](each.name, value)
    request: Request[Any] = kind(**given)
    return request


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise BadInput(f"`{key}` is not given as text")
    return value


def _texts(key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise BadInput(f"`{key}` is not given as a list of texts")
    return tuple(value)


def _named_texts(key: str, value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise BadInput(f"`{key}` is not given as names and texts")
    return value


def _count(key: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BadInput(f"`{key}` is not given as a number of at least 1")
    return value


def _seconds(key: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise BadInput(f"`{key}` is not given as a number of seconds")
    return float(value)


def _flag(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise BadInput(f"`{key}` is not given as true or false")
    return value


_READERS: Mapping[str, Callable[[str, object], Any]] = {
    "str": _text,
    "str | None": _text,
    "Sequence[str]": _texts,
    "Mapping[str, str]": _named_texts,
    "int": _count,
    "int | None": _count,
    "float | None": _seconds,
    "bool": _flag,
}
"""How a field of a request is read, by its type."""
