# SPDX-License-Identifier: Apache-2.0
"""Questions for names, as far as a gateway answers them: read strictly, answered from its own book.

Pure. No question goes further than this, so that a name carries nothing out.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

MOST_BYTES = 512
"""Of a question; one alone needs no more."""
A, AAAA = 1, 28
_ANY_CLASS = frozenset((1, 255))
_HEADER = struct.Struct("!HHHHHH")
_RESPONSE, _RECURSION_ASKED, _RECURSION_GIVEN = 0x8000, 0x0100, 0x0080
_OPCODE, _TRUNCATED = 0x7800, 0x0200
OK, FORMAT_ERROR, NO_SUCH_NAME, NOT_IMPLEMENTED, REFUSED = 0, 1, 3, 4, 5
SECONDS = 5
"""How long an answer counts."""


class Question(NamedTuple):
    """One question: its number, the name in lower case, what is asked, and its own bytes."""

    number: int
    flags: int
    name: str
    kind: int
    raw: bytes


class Malformed(ValueError):
    """It is no question."""


def read_question(data: bytes) -> Question:
    """Return the one question of a message. Raises Malformed."""
    if not _HEADER.size < len(data) <= MOST_BYTES:
        raise Malformed("its length")
    number, flags, questions, answers, authorities, _ = _HEADER.unpack_from(data)
    if flags & (_RESPONSE | _OPCODE | _TRUNCATED) or questions != 1 or answers or authorities:
        raise Malformed("its header")
    at, labels = _HEADER.size, []
    while True:
        if at >= len(data):
            raise Malformed("a name without an end")
        length = data[at]
        at += 1
        if length == 0:
            break
        if length > 63 or at + length > len(data):  # pointers have no place in a question
            raise Malformed("a label")
        labels.append(data[at : at + length])
        at += length
        if at - _HEADER.size > 254:
            raise Malformed("a name that is too long")
    if at + 4 > len(data):
        raise Malformed("no type")
    kind, family = struct.unpack_from("!HH", data, at)
    if family not in _ANY_CLASS:
        raise Malformed("its class")
    try:
        name = b".".join(labels).decode("ascii").lower()
    except UnicodeDecodeError:
        raise Malformed("a name that is not ASCII") from None
    if any(b"." in label for label in labels) or not name.isprintable():
        raise Malformed("a label with a sign that no host has")
    return Question(number, flags, name, kind, data[_HEADER.size : at + 4])


def answer(question: Question, address: str | None) -> bytes:
    """Return the answer: the name's address where that is asked for, no other record of it, and
    that there is no such name where `address` is None."""
    gives = address is not None and question.kind in (A, 255)
    flags = _RESPONSE | _RECURSION_GIVEN | (question.flags & _RECURSION_ASKED)
    flags |= OK if address is not None else NO_SUCH_NAME
    out = _HEADER.pack(question.number, flags, 1, 1 if gives else 0, 0, 0) + question.raw
    if gives and address is not None:
        octets = bytes(map(int, address.split(".")))
        out += struct.pack("!HHHIH", 0xC00C, A, 1, SECONDS, 4) + octets
    return out


def refuse(data: bytes) -> bytes:
    """Return the answer to what is no question; empty where there is nothing to answer to."""
    if len(data) < 2:
        return b""
    return _HEADER.pack(int.from_bytes(data[:2], "big"), _RESPONSE | FORMAT_ERROR, 0, 0, 0, 0)
