# SPDX-License-Identifier: Apache-2.0
"""The text of a node, and what quotes and backslashes in it mean."""

from __future__ import annotations

import re

from tree_sitter import Node

from policy.shell.syntax.guards import decode
from policy.values.partial import CLOSE, COMMA, ONE, OPEN, QUOTED, SET, STAR, clean

_UNQUOTED = re.compile(r"\\(\n|.)|([*?\[{},])", re.DOTALL)
ACTIVE = {"*": STAR, "?": ONE, "[": SET, "{": OPEN, ",": COMMA, "}": CLOSE}
_ANSI = re.compile(
    r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL
)
_ANSI_NAMES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "e": "\033",
    "E": "\033",
    "f": "\f",
    "v": "\v",
}


def source(node: Node) -> str:
    """Return the text of a node."""
    return clean(decode(node.text or b""))


def unquote(text: str) -> str:
    """Decode literal unquoted text."""

    def decode(found: re.Match[str]) -> str:
        if found[2]:
            return ACTIVE[found[2]]
        return "" if found[1] == "\n" else QUOTED + found[1]

    return _UNQUOTED.sub(decode, text)


def ansi(text: str) -> str:
    """Decode what stands between `$'` and `'`."""

    def decode(found: re.Match[str]) -> str:
        body = found[1]
        if body[0] in "xuU" and len(body) > 1:
            number = int(body[1:], 16)
            return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd"
        if body[0] in "01234567":
            return chr(int(body, 8) & 0xFF)
        if body[0] == "c" and len(body) > 1:
            return chr(ord(body[1]) & 0x1F)
        return _ANSI_NAMES.get(body, body)

    return clean(_ANSI.sub(decode, text))
