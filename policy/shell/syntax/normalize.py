# SPDX-License-Identifier: Apache-2.0
"""Write text that the grammar misreads in a form that it reads, with the same meaning.

Only for reading: what runs is the text as it was given. These are mended: `time`, `!` and
`coproc` before a compound command (the grammar takes them for the command), a here-string behind
another redirection or with a descriptor, a here-document that begins with a backslash, a word that
goes on in the next line, a `#` inside a word, a lone `-` before a here-document (the grammar leaves
it out), a variable right behind another one and a few characters (`$A/$B/c`, of which it makes two
words), and a command that is one brace.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node, Tree

from policy.shell.syntax.guards import JOINED, misread_document, nodes, parse, within

MOST_ROUNDS = 16
_LEAST_ROUNDS = 3
_MOST_BYTES = 128 * 1024
"""Bytes that one kind of mending parses anew, in all its rounds."""
_MOST_BLANKS = 64
"""Blanks between a `-` and its here-document."""
_COMPOUND = (
    rb"(?:[{(!]|(?:if|for|while|until|case|select|function|time|coproc)(?=[ \t\n])|\[\[[ \t])"
)
_PREFIX = re.compile(
    rb"(?:^|(?<=[;&|({\n!`])|(?<=\bdo)|(?<=\bthen)|(?<=\belse)|(?<=\belif)|(?<=\bif)|(?<=\bwhile)"
    rb"|(?<=\buntil))([ \t]*)"
    rb"(time(?:[ \t]+-p)?(?:[ \t]+--)?|coproc(?:[ \t]+[A-Za-z_]\w*)??|!)"
    rb"(?=[ \t]+" + _COMPOUND + rb")"
)
_AS_THEY_ARE = frozenset(
    ("raw_string", "ansi_c_string", "comment", "string", "heredoc_body", "regex")
)
_BRACE = re.compile(rb"(?<![^\s;&|(])\{([^{},\s;&|<>()$`]*+,[^{}\s;&|<>()$`]*+)\}(?![^\s;&|)])")
_BACKSLASH = re.compile(rb"<<[^\n]*\n\s*\\")
_KEYWORDS = re.compile(rb"\btime\b|\bcoproc\b|!")
_WORD = frozenset(
    ("word", "number", "string", "raw_string", "ansi_c_string", "translated_string",
     "concatenation", "simple_expansion", "expansion", "command_substitution",
     "arithmetic_expansion", "process_substitution", "brace_expression")
)  # fmt: skip
_NAME = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*+")
_UNQUOTED = frozenset(("simple_expansion", "expansion", "command_substitution"))


def mended(source: bytes, tree: Tree) -> tuple[bytes, Tree]:
    """Return the text as the grammar can read it, and its tree."""
    for needed, mend in _MENDERS:
        rounds = min(MOST_ROUNDS, max(_LEAST_ROUNDS, _MOST_BYTES // (len(source) + 1)))
        for _ in range(rounds):
            if not needed.search(source):
                break
            done = mend(source, tree)
            if done is None or done == source:
                break
            source, tree = done, parse(done)
    return source, tree


def _continued(source: bytes, tree: Tree) -> bytes | None:
    """Return the text with words in one piece that are continued on the next line."""
    kept = [
        (node.start_byte, node.end_byte)
        for node in nodes(tree.root_node)
        if node.type in _AS_THEY_ARE
    ]

    def join(found: re.Match[bytes]) -> bytes:
        inside = within(found.start(), kept) or within(found.end() - 1, kept)
        return found[0] if inside else found[0][:-3] + found[0][-1:]

    return JOINED.sub(join, source)


def _hash(source: bytes, tree: Tree) -> bytes | None:
    """Return the text with a backslash before the first `#` that begins no comment."""
    for node in nodes(tree.root_node):
        at = node.start_byte
        if node.type == "comment" and at and source[at - 1] not in b" \t\n;&|()`":
            return source[:at] + b"\\" + source[at:]
    return None


def _unprefixed(source: bytes, tree: Tree) -> bytes | None:
    """Return the text without keywords before compound commands."""
    return _PREFIX.sub(lambda found: b" " * len(found[0]), source)


def _braced(source: bytes, tree: Tree) -> bytes | None:
    """Return the text with commands written out that are one brace."""
    if not tree.root_node.has_error:
        return None
    done = _BRACE.sub(lambda found: found[1].replace(b",", b" "), source)
    return None if parse(done).root_node.has_error else done


def _document(source: bytes, tree: Tree) -> bytes | None:
    """Return the text with a blank before one here-document that begins with a backslash."""
    for node in nodes(tree.root_node):
        if node.type == "heredoc_redirect":
            at = misread_document(source, node)
            if at is not None and source[at : at + 1] != b" ":
                return source[:at] + b" " + source[at:]  # the grammar leaves the blank out
    return None


def _variable(source: bytes, tree: Tree) -> bytes | None:
    """Return the text with braces around variables whose `$` the grammar left alone."""
    pieces: list[bytes] = []
    at = 0
    for node in nodes(tree.root_node):
        lost = node.type == "$" and node.parent is not None and node.parent.type == "concatenation"
        found = _NAME.match(source, node.end_byte) if lost and node.end_byte >= at else None
        if found is not None:
            pieces += [source[at : found.start()], b"{", found[0], b"}"]
            at = found.end()
    return b"".join((*pieces, source[at:]))


def _dash(source: bytes, tree: Tree) -> bytes | None:
    """Return the text with quotes around each lone `-` before a here-document, which is lost."""
    lost: list[int] = []
    for node in nodes(tree.root_node):
        if node.type == "heredoc_redirect":
            at = source.find(b"<<", node.start_byte)
            before = source[max(0, at - _MOST_BLANKS) : at].rstrip(b" \t") if at > 0 else b""
            if before[-1:] == b"-" and before[-2:-1] in (b" ", b"\t"):
                lost.append(source.rfind(b"-", 0, at))
    for at in sorted(set(lost), reverse=True)[:MOST_ROUNDS]:
        source = source[:at] + b"'-'" + source[at + 1 :]
    return source


def _here_string(source: bytes, tree: Tree) -> bytes | None:
    """Return the text with one misread `<<< word` as a process substitution, or None."""
    if not tree.root_node.has_error:
        return None
    order: Iterator[Node] = nodes(tree.root_node)
    for node in order:
        if (node.type == "ERROR" or not node.is_named) and node.text == b"<<":
            if source[node.end_byte : node.end_byte + 1] != b"<":
                continue
            word = next(
                (one for one in order if one.type in _WORD and one.start_byte > node.end_byte), None
            )
            if word is None or source[node.end_byte + 1 : word.start_byte].strip(b" \t"):
                continue
            text = source[word.start_byte : word.end_byte]
            text = b'"' + text + b'"' if word.type in _UNQUOTED else text
            made = b"< <(printf '%s\\n' " + text + b")"
            return source[: node.start_byte] + made + source[word.end_byte :]
    return None


_MENDERS = (
    (re.compile(rb"[^\s$]\$[A-Za-z_]"), _variable),
    (re.compile(rb"[ \t]-[ \t]*<<"), _dash),
    (JOINED, _continued),
    (re.compile(rb"[^\s;&|()`]#"), _hash),
    (_KEYWORDS, _unprefixed),
    (re.compile(rb"<<<"), _here_string),
    (_BACKSLASH, _document),
    (_BRACE, _braced),
)
