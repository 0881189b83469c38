# SPDX-License-Identifier: Apache-2.0
"""What `echo` and `printf` print."""

from __future__ import annotations

import re
from collections.abc import Sequence

from policy.values.numbers import natural
from policy.values.partial import NUM

_ESCAPE = re.compile(
    r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|0?[0-7]{1,3}|.)", re.DOTALL
)
_NAMES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "e": "\033",
    "f": "\f",
    "v": "\v",
    "\\": "\\",
}
_FIELD = re.compile(r"%(%|[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d+))?(?:[diouxXeEfgGcsbq]|\([^)]*\)T))")
_MOST_ROUNDS = 256


def escapes(text: str) -> str:
    """Decode backslash escapes."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(_decode, text)


def _decode(found: re.Match[str]) -> str:
    body = found[1]
    if body[0] in "xuU" and len(body) > 1:
        number = int(body[1:], 16)
        return chr(number) if number < 0xD800 else "\ufffd"
    if body[0] in "01234567":
        return chr(int(body, 8) & 0xFF)
    return _NAMES.get(body, "\\" + body)


def echo(args: Sequence[str]) -> str:
    """Return what `echo` prints."""
    words = list(args)
    newline, decode = "\n", False
    while words and re.fullmatch(r"-[neE]+", words[0]):
        option = words.pop(0)
        newline = "" if "n" in option else newline
        decode = "e" in option or (decode and "E" not in option)
    text = " ".join(words)
    return (escapes(text) if decode else text) + newline


def formatted(pattern: str, args: Sequence[str]) -> str:
    """Return what `printf` prints."""
    pieces = _FIELD.split(pattern)  # first: a `%` that an escape gives starts no field
    pieces[::2] = map(escapes, pieces[::2])
    fields = [one for one in pieces[1::2] if one != "%"]
    rest = list(args)
    out: list[str] = []
    for _ in range(_MOST_ROUNDS):
        for at, piece in enumerate(pieces):
            if at % 2 == 0:
                out.append(piece)
            elif piece == "%":
                out.append("%")
            else:
                if "*" in piece and rest:
                    rest.pop(0)
                out.append(_field(piece, rest.pop(0) if rest else ""))
        if not rest or not fields:
            break
    return "".join(out)


def _field(kind: str, value: str) -> str:
    letter = kind[-1]
    if letter == "b":
        return escapes(value)
    if letter == "c":
        return value[:1]
    if letter in "sq":
        cut = re.search(r"\.(\d+)", kind)
        return value[: natural(cut[1])] if cut else value
    if letter in "xX" and re.fullmatch(r"-?\d{1,18}", value):
        return format(int(value), letter)
    if letter == "o" and re.fullmatch(r"-?\d{1,18}", value):
        return format(int(value), "o")
    return value if re.fullmatch(r"-?\d{1,18}", value) else NUM
