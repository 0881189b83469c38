# SPDX-License-Identifier: Apache-2.0
"""What can be seen of a text that cannot be read: its beginning and end, without padding. Pure."""

from __future__ import annotations

import re

from policy.values.partial import shown

MOST_SCANNED = 16 * 1024
"""Characters of a text's beginning, and of its end, that are looked at when it cannot be read."""

_MOST_BYTES = 1 << 20
"""... and that are read to come by so many that say something; a quarter of it from the end."""

_PIECE = 32 * 1024


def visible_ends(text: str) -> list[str]:
    """Return the beginning and the end of a text, without what only makes it long.

    Read piece by piece, so that no more is squeezed than is looked at.
    """
    first, at = "", 0
    while at < min(len(text), _MOST_BYTES) and len(first) < MOST_SCANNED:
        first = _plainer(first + shown(text[at : at + _PIECE]))
        at += _PIECE
    last, low = "", len(text)
    stop = max(at, low - _MOST_BYTES // 4)
    while low > stop and len(last) < MOST_SCANNED:
        last = _plainer(shown(text[max(stop, low - _PIECE) : low]) + last)
        low -= _PIECE
    if low <= at:
        last = first[MOST_SCANNED:] + last
    pieces = (first[:MOST_SCANNED], last[-MOST_SCANNED:])
    return [piece for piece in pieces if piece]


def _plainer(text: str) -> str:
    return squeezed(text).replace("${IFS}", " ").replace("$IFS", " ")


def squeezed(text: str) -> str:
    """Return a text without what only makes it long: blank lines, runs of blanks or of one sign,
    endless words.

    The patterns look back over blanks, so that their cost would grow with the square of a run.
    """
    text = _BLANKS.sub(" ", _BLANK_LINES.sub("\n", text))
    return _RUN.sub(r"\1\1", _LONG.sub("x", text))


_BLANK_LINES = re.compile(r"\n(?:[^\S\n]*+\n)++")

_BLANKS = re.compile(r"[ \t\r\f\v]{2,}+")

_RUN = re.compile(r"([^\w\s])\1{15,}+")

_LONG = re.compile(r"[\w.+=-]{300,}+")
