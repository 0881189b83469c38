# SPDX-License-Identifier: Apache-2.0
"""JSON as one line of text, by the interpreter's own coder without the package around it.

`import json` brings regular expressions and what those need: a third of what a program costs that
only hands a message on.
"""

import _json

_CONSTANTS = {"-Infinity": float("-inf"), "Infinity": float("inf"), "NaN": float("nan")}
_BLANKS = " \t\n\r"


def _refuse(value: object) -> object:
    raise TypeError(f"a value of {type(value).__name__} cannot be written as JSON")


class _Reading:
    """What the reader asks for: plain objects, lists, texts and numbers."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = _CONSTANTS.__getitem__


_read = _json.make_scanner(_Reading)  # type: ignore[arg-type]  # it takes any such object
_write = _json.make_encoder(
    None, _refuse, _json.encode_basestring_ascii, None, ":", ",", False, False, True
)


def dump_json(value: object) -> str:
    """Return a value as JSON in ASCII and without blanks. Raises TypeError, RecursionError."""
    return "".join(_write(value, 0))


def load_json(text: str | bytes | bytearray) -> object:
    """Return what a JSON text holds. Raises ValueError, RecursionError."""
    said = text if isinstance(text, str) else text.decode("utf-8", "surrogatepass")
    said = said.strip(_BLANKS)
    try:
        value, end = _read(said, 0)
    except StopIteration:
        raise ValueError("no JSON value stands there") from None
    if end != len(said):
        raise ValueError("more than one JSON value stands there")
    return value
