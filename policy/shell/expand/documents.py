# SPDX-License-Identifier: Apache-2.0
"""Expand text that is no word of the grammar: operands of `${...}`, prompts, documents, subscripts.

The grammar knows such text only inside a here-document, where quotes mean nothing to it; so it
finds the expansions there, and the quotes around them are followed here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import Enum

from tree_sitter import Node

from policy.shell.interpreter import Words
from policy.shell.syntax.guards import decode, encode, parse
from policy.shell.syntax.quoting import ACTIVE, ansi
from policy.values.partial import BREAK, COMMA, HOLE, QUOTED, clean

_PLAIN = re.compile(r"[\w./:=+@%^, -]*")
_ACTIVE = re.compile(r"[$`]|[<>]\(")
_PROCESS = re.compile(rb"[<>]\(")
_MOST_PROCESSES = 8
_TICKS = re.compile(rb"`((?:[^`\\]|\\.)*)`", re.DOTALL)
_PIECE = re.compile(r"\\(.)|\$?(['\"])|([*?\[])|([^\\'\"$*?\[]+|\$)", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)|\"", re.DOTALL)
_SINGLE = re.compile(r"[^']*'?")
_ANSI = re.compile(r"(?:[^'\\]|\\.)*'?", re.DOTALL)


class Quotes(Enum):
    """What quotes mean in a text."""

    NONE = "\\$`"
    """Nothing: a here-document's text, a prompt. The value names what a backslash quotes."""
    DOUBLE = '\\$`"}'
    """Double quotes stand around it: an operand inside of `"${...}"`."""
    FULL = ""
    """All of them: an operand outside of quotes, and every pattern."""


Piece = str | Node | tuple[str]
"""Text, an expansion, or (the text between backticks,)."""


def expanded(words: Words, text: str, quotes: Quotes) -> str:
    """Return the text with its expansions done, and run what they run.

    Under `Quotes.FULL`, glob characters that count and quotes are marked in it.
    """
    if _PLAIN.fullmatch(text):
        return text
    if _ACTIVE.search(text) and not words.take():
        return HOLE
    pieces = _pieces(words, text, quotes) if _ACTIVE.search(text) else (text,)
    return _Reading(words, quotes).all(pieces)


def _pieces(words: Words, text: str, quotes: Quotes) -> Iterator[Piece]:
    """Part a text into its expansions and what stands between them."""
    end = "E"
    while end in text:
        end += "E"
    head = f": <<{end}\n".encode()
    raw = encode(text)
    tail, base, seen = f"\n{end}\n".encode(), len(head), raw
    root = parse(head + seen + tail).root_node
    for _ in range(_MOST_PROCESSES if quotes is Quotes.FULL else 0):
        match = _process(root, seen, base)
        if match is None:
            break
        seen = seen[: match.start()] + b"$(" + seen[match.end() :]
        root = parse(head + seen + tail).root_node
    if root.has_error:
        words.unclear(text)
    at = 0
    for node in _expansions(root):
        start, stop = node.start_byte - base, node.end_byte - base
        if start < at or stop > len(raw):
            continue
        for piece, until in _ticked(raw, at, start):
            yield piece
            at = until
        if at <= start:
            yield node
            at = stop
    for piece, _ in _ticked(raw, at, len(raw)):
        yield piece


def _process(root: Node, raw: bytes, base: int) -> re.Match[bytes] | None:
    """Return the first process substitution that stands in no expansion, or None."""
    at = 0
    for node in (*_expansions(root), None):
        match = _PROCESS.search(raw, at, len(raw) if node is None else node.start_byte - base)
        if match is not None or node is None:
            return match
        at = node.end_byte - base
    return None


def _expansions(root: Node) -> Iterator[Node]:
    for node in root.children:
        if node.type.endswith(("expansion", "_substitution")):
            yield node
        else:
            yield from _expansions(node)


def _ticked(raw: bytes, at: int, end: int) -> Iterator[tuple[Piece, int]]:
    """Yield what stands between two expansions, with where it ends: backticks may reach further."""
    while at < end:
        tick = at
        while (tick := raw.find(b"`", tick, end)) >= 0 and _escaped(raw, tick):
            tick += 1
        found = _TICKS.match(raw, tick) if tick >= 0 else None
        if found is None:
            yield clean(decode(raw[at:end])), end
            return
        if tick > at:
            yield clean(decode(raw[at:tick])), tick
        inner = clean(decode(found[1]))
        yield (re.sub(r"\\([`$\\])", r"\1", inner),), found.end()
        at = found.end()


def _escaped(raw: bytes, at: int) -> bool:
    before = raw[:at]
    return (len(before) - len(before.rstrip(b"\\"))) % 2 == 1


class _Reading:
    """One pass over the pieces of a text, with the quotes that are open."""

    def __init__(self, words: Words, quotes: Quotes) -> None:
        self._words = words
        self._quotes = quotes
        self._double = False
        self._out: list[str] = []

    def all(self, pieces: Iterable[Piece]) -> str:
        """Return the text of all pieces."""
        quoted = self._quotes is not Quotes.FULL
        for piece in pieces:
            if isinstance(piece, str):
                self._text(piece)
            elif isinstance(piece, tuple):
                self._out.append(self._words.run(piece[0]))
            else:
                self._out.append(self._words.expand(piece, quoted=quoted or self._double))
        return "".join(self._out)

    def _text(self, text: str) -> None:
        if self._quotes is not Quotes.FULL:
            escaped = self._quotes.value
            bare = '"' if self._quotes is Quotes.NONE else ""
            self._out.append(
                _ESCAPE.sub(lambda found: _kept(found, escaped) if found[1] else bare, text)
            )
            return
        at = 0
        while at < len(text):
            at = self._unquoted(text, at)

    def _unquoted(self, text: str, at: int) -> int:
        found = _PIECE.match(text, at)
        if found is None:  # a backslash at the end
            return len(text)
        if found[1] is not None:
            kept = _kept(found, '\\$`"') if self._double else ("" if found[1] == "\n" else found[1])
            self._out.append(QUOTED + kept)
        elif found[2] == '"' and not (self._double and found[0][0] == "$"):
            self._double = not self._double
            self._out.append(QUOTED)
        elif found[2] == "'" and not self._double:
            ending = _ANSI if found[0][0] == "$" else _SINGLE
            body = ending.match(text, found.end())
            assert body is not None
            inner = body[0].removesuffix("'")
            self._out.append(QUOTED + (ansi(inner) if ending is _ANSI else inner) + QUOTED)
            return body.end()
        elif found[3] and not self._double:
            self._out.append(ACTIVE[found[3]])
        else:
            self._out.append(found[0])
        return found.end()


def _kept(found: re.Match[str], escaped: str) -> str:
    """Return what a backslash and the character after it give where it only quotes some."""
    if found[1] == "\n":
        return ""
    return found[1] if found[1] in escaped else found[0]


def literal(text: str) -> str:
    """Return expanded text without the marks of quotes and fields."""
    return text.replace(QUOTED, "").replace(BREAK, " ").replace(COMMA, ",")
