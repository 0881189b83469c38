# SPDX-License-Identifier: Apache-2.0
"""Say in plain words what is wrong with data that a person wrote. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

_LIST, _MAPPING = (
    "it should be a list, such as `[a, b]`",
    "it should be a mapping, such as `{a: b}`",
)
_WHOLE, _NUMBER = "it should be a whole number", "it should be a number"
_WORDS = {
    "tuple_type": _LIST,
    "list_type": _LIST,
    "set_type": _LIST,
    "frozen_set_type": _LIST,
    "dict_type": _MAPPING,
    "mapping_type": _MAPPING,
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "string_type": "it should be text; put it in quotes",
    "bool_type": "it should be true or false",
    "bool_parsing": "it should be true or false",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": _NUMBER,
    "string_too_short": "it should not be empty",
}
"""What pydantic calls it -> what a person is told."""


def first(error: ValidationError) -> ErrorDetails:
    """Return the first mistake."""
    return error.errors(include_url=False, include_context=True)[0]


def worded(mistake: ErrorDetails, path: Sequence[str | int] | None = None) -> str:
    """Return a mistake in one line: the key, unless `path` is empty, and what is wrong with it.

    `path` leads to the key; default: the mistake's own.
    """
    key = ".".join(str(part) for part in (mistake["loc"] if path is None else path))
    where, colon = (f"`{key}`", ": ") if key else ("", "")
    kind = mistake["type"]
    if kind == "missing":
        return f"{where or 'it'} is missing"
    if kind == "extra_forbidden":
        return f"{where or 'it'} is not a key that is known"
    if kind == "too_short":
        least = mistake["ctx"]["min_length"]
        return f"{where}{colon}it should hold at least {least} entr{'y' if least == 1 else 'ies'}"
    message = _WORDS.get(kind, mistake["msg"].removeprefix("Value error, ").split("\n")[0])
    return f"{where}{colon}{message[:1].lower()}{message[1:]}"


def mistyped(data: Any, read: Any) -> tuple[tuple[str | int, ...], str] | None:
    """Return where a number was read from what is none (`true`, `"60"`), and what is wrong; None if
    nowhere. `data` is what was written, `read` the model that was made of it."""
    if isinstance(read, int | float) and not isinstance(read, bool):
        if isinstance(data, bool | str):
            return (), "it should be a number; write it without quotes"
        return None
    for part, one in _parts(data):
        if isinstance(read, BaseModel):
            inner = getattr(read, str(part), None)
        elif isinstance(read, Mapping):
            inner = read.get(part)
        elif isinstance(read, tuple | list) and isinstance(part, int) and part < len(read):
            inner = read[part]
        else:
            continue
        found = mistyped(one, inner)
        if found is not None:
            return (part, *found[0]), found[1]
    return None


def _parts(data: Any) -> Iterable[tuple[str | int, Any]]:
    if isinstance(data, dict):
        return data.items()
    return enumerate(data) if isinstance(data, list) else ()
