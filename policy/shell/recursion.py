# SPDX-License-Identifier: Apache-2.0
"""Tell a fork bomb from a function that merely calls itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tree_sitter import Node

from policy.shell.syntax.quoting import source

FORK_BOMB = "it starts copies of itself without an end"
_BACKGROUND = re.compile(r"(?<![&>|])&(?![&>\d])")
_CONDITIONAL = frozenset(
    ("if_statement", "elif_clause", "else_clause", "case_item", "list", "for_statement")
)
_MOST_NODES = 2000


def multiplies(names: Iterable[str], bodies: Iterable[Node]) -> bool:
    """Return whether functions that call each other start more than one copy of themselves.

    One call in the background, or two in one pipeline, is enough; plain recursion is not.
    """
    wanted = frozenset(names)
    return any(_multiplies(wanted, body) for body in bodies)


def _multiplies(wanted: frozenset[str], body: Node) -> bool:
    piped: dict[int, int] = {}
    for call in _calls(body):
        if _name(call) not in wanted:
            continue
        above: Node | None = call
        while above is not None and above != body.parent:
            following = above.next_sibling
            if following is not None and following.type == "&":
                return True
            parent = above.parent
            if parent is not None and parent.type == "pipeline":
                piped[parent.start_byte] = piped.get(parent.start_byte, 0) + 1
                if piped[parent.start_byte] > 1:
                    return True
            above = parent
    return False


def endless(names: Iterable[str], bodies: Iterable[Node]) -> bool:
    """Return whether functions that call each other do so whatever happens."""
    wanted = frozenset(names)
    return any(
        _name(call) in wanted and not _conditional(call, body)
        for body in bodies
        for call in _calls(body)
    )


def _conditional(call: Node, body: Node) -> bool:
    above: Node | None = call
    while above is not None and above != body:
        if above.type in _CONDITIONAL:
            return True
        above = above.parent
    return False


def _name(call: Node) -> str:
    name = call.child_by_field_name("name")
    return source(name) if name is not None else ""


def _calls(node: Node) -> Iterator[Node]:
    stack, left = [node], _MOST_NODES
    while stack and left > 0:
        one = stack.pop()
        left -= 1
        if one.type == "command":
            yield one
        stack.extend(one.children)


def repeats(text: str) -> bool:
    """Return whether a script that runs itself does so in the background."""
    return _BACKGROUND.search(text) is not None
