# SPDX-License-Identifier: Apache-2.0
"""Guards around the grammar: where its reading could overlook a command, the text is opaque.

The grammar never fails; it recovers. Each guard names a way in which a recovered or a clean tree
was seen to hide a command that bash runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser, Tree

from policy.shell.syntax.operators import operators

MOST_BYTES = 64 * 1024
MOST_NESTING = 64
MOST_OPERATORS = 300
"""Operators outside of quotes and documents: what the grammar needs to recover from an error grows
with their square."""

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
"""Characters that no plain text holds."""
_NO_CONTROLS = dict.fromkeys((*range(9), *range(0x0B, 0x20), 0x7F))
_HIDDEN = re.compile(
    "[\u00a0\u00ad\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u2064\u2066-\u206f\u3000\u3164\ufeff]"
)
JOINED = re.compile(rb"[^\s\\](?:\\\\)*\\\n[^\s#]")
"""A line that goes on inside a word."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_STARTS = re.compile(rb"\$\(|`|[<>]\(|\$\{[ \n\t|]|\$\[")
_TRICKY = re.compile(rb"`|\$[({\[\\]|[<>]\(|<<|\\\n|\bcoproc\b|\bselect\b")
_SUBSTITUTIONS = ("command_substitution", "process_substitution", "arithmetic_expansion")
_PLAIN_DELIMITER = re.compile(rb"""^(?:[\w.+!:-]+|'[^'\\$`]*'|"[^"\\$`]*"|\\[\w.+!:-]+)$""")


@lru_cache(maxsize=1)
def _language() -> Language:
    return Language(tree_sitter_bash.language())


_NIBBLES = bytes((*range(0x01, 0x09), *range(0x0E, 0x16)))
"""Sixteen control characters that `before` refuses, and that no shell gives a meaning."""
_ENCODED = {
    byte: bytes((_NIBBLES[byte >> 4], _NIBBLES[byte & 15])).decode("ascii")
    for byte in (*_NIBBLES, *range(0x80, 0x100))
}
_DECODED = {
    bytes((high, low)): bytes((at << 4 | beside,))
    for at, high in enumerate(_NIBBLES)
    for beside, low in enumerate(_NIBBLES)
}
_SPECIAL = re.compile(f"[{_NIBBLES.decode('ascii')}]|[^\x00-\x7f]")
_PAIR = re.compile(b"[%s]{2}" % _NIBBLES)


def encode(text: str) -> bytes:
    """Return text as the grammar may see it: ASCII only. `decode` takes it back.

    The grammar's scanner looks characters up in a table of the C library that ends at 255; what it
    finds beyond is not defined, and may end the process. Each byte above ASCII becomes two control
    characters, which are word characters to the grammar as the byte is to the shell.
    """
    if not _SPECIAL.search(text):
        return text.encode("ascii")
    return text.encode("utf-8", "replace").decode("latin-1").translate(_ENCODED).encode("ascii")


def decode(raw: bytes) -> str:
    """Return the text of a piece of what `encode` gave."""
    if _PAIR.search(raw):
        raw = _PAIR.sub(_byte, raw)
    return raw.decode("utf-8", "replace")


def _byte(pair: re.Match[bytes]) -> bytes:
    return _DECODED[pair[0]]


def parse(source: bytes) -> Tree:
    """Return the tree of shell text, which is ASCII (see `encode`)."""
    assert source.isascii()
    return Parser(_language()).parse(source)  # one of its own: several threads may read


def before(text: str) -> str | None:
    """Return why the text must not be parsed at all, or None."""
    if 4 * len(text) > MOST_BYTES and len(text.encode("utf-8", "surrogatepass")) > MOST_BYTES:
        return f"it is longer than {MOST_BYTES} bytes"
    if found := CONTROLS.search(text):
        return f"it holds the control character U+{ord(found[0]):04X}"
    if not text.isascii() and _SURROGATE.search(text):
        return "it is not valid Unicode"
    if _nesting(text) > MOST_NESTING:
        return f"it nests deeper than {MOST_NESTING}"
    if operators(text, MOST_OPERATORS) > MOST_OPERATORS:
        return "it has too many parts"
    return None


def uncontrolled(text: str) -> str:
    """Return the text without the characters that no plain text holds."""
    return text.translate(_NO_CONTROLS) if CONTROLS.search(text) else text


def hidden(text: str) -> str | None:
    """Return the invisible or look-alike character that the text holds, or None."""
    match = None if text.isascii() else _HIDDEN.search(text)
    return f"U+{ord(match[0]):04X}" if match else None


def _nesting(text: str) -> int:
    if text.count("(") + text.count("{") + text.count("`") <= MOST_NESTING:
        return 0
    deepest = level = 0
    for char in text:
        if char in "({":
            level += 1
            deepest = max(deepest, level)
        elif char in ")}":
            level = max(0, level - 1)
    return deepest


def nodes(root: Node) -> Iterator[Node]:
    """Yield every node, parents first, without recursion."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))


def after(source: bytes, tree: Tree) -> str | None:
    """Return why the tree cannot be trusted, or None."""
    root = tree.root_node
    if root.has_error:
        return "it is not shell text that can be read with certainty"
    if not _TRICKY.search(source):
        return None
    return _inspect(source, root)


def _inspect(source: bytes, root: Node) -> str | None:
    starts: set[int] = set()
    skipped: list[tuple[int, int]] = []
    strings: list[tuple[int, int]] = []
    quoted_doc = False
    for node in nodes(root):
        kind = node.type
        if node.is_missing:
            return "a part of it is missing"
        if kind in _SUBSTITUTIONS or kind == "expansion":
            starts.add(node.start_byte)
            if source[node.start_byte : node.start_byte + 1] == b"`":
                starts.add(node.end_byte - 1)
                if b"\\`" in source[node.start_byte : node.end_byte]:
                    return "a backtick is escaped inside backticks"
        elif kind in ("raw_string", "ansi_c_string", "comment"):
            skipped.append((node.start_byte, node.end_byte))
        elif kind == "string":
            strings.append((node.start_byte, node.end_byte))
        elif kind == "heredoc_start":
            word = node.text or b""
            if not _PLAIN_DELIMITER.match(word):
                return "a here-document has an unusual delimiter"
            quoted_doc = word[:1] in (b"'", b'"', b"\\")
        elif kind == "heredoc_body" and quoted_doc:
            skipped.append((node.start_byte, node.end_byte))
        elif kind in ("heredoc_body", "regex"):
            strings.append((node.start_byte, node.end_byte))
        elif kind == "heredoc_redirect" and misread_document(source, node) is not None:
            return "the grammar takes a here-document for words of its command"
    for match in JOINED.finditer(source):
        if not within(match.start(), skipped) and not within(match.start(), strings):
            return "a line continues inside a word"
    return _residue(source, starts, skipped, strings)


def misread_document(source: bytes, node: Node) -> int | None:
    """Return where the text of a here-document begins that the grammar took for words, or None.

    It does so where a text begins with a backslash.
    """
    start = next((one for one in node.children if one.type == "heredoc_start"), None)
    line = source.find(b"\n", start.end_byte) if start is not None else -1
    if line < 0:
        return None
    for child in node.named_children:
        if child.type not in ("heredoc_body", "heredoc_end") and child.end_byte > line:
            return line + 1
    return None


_BACKSLASH = ord("\\")


def _residue(
    source: bytes,
    starts: set[int],
    skipped: list[tuple[int, int]],
    strings: list[tuple[int, int]],
) -> str | None:
    for match in _STARTS.finditer(source):
        at = match.start()
        if at in starts and not match[0].startswith((b"${", b"$[")):
            continue
        before = at
        while before and source[before - 1] == _BACKSLASH:
            before -= 1
        if (at - before) % 2 or within(at, skipped):
            continue
        if match[0] in (b"<(", b">(") and within(at, strings):
            continue
        return "it holds a substitution that the grammar overlooks"
    return None


def within(at: int, ranges: list[tuple[int, int]]) -> bool:
    """Return whether a position lies in one of the ranges."""
    return any(start <= at < end for start, end in ranges)
