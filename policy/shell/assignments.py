# SPDX-License-Identifier: Apache-2.0
"""Assignments: what they set, and what setting it does."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tree_sitter import Node

from policy.shell.interpreter import Shell
from policy.shell.state import Value
from policy.shell.syntax.quoting import source
from policy.values.partial import HOLE, SET

_SUBSCRIPT = re.compile(r"[\w]+\[")


def subscript(shell: Shell, operand: str) -> None:
    """Run what an array subscript hides where the shell evaluates it a second time."""
    if _SUBSCRIPT.match(operand) and ("$" in operand or "`" in operand):
        shell.words.evaluated(operand)


MOST_ITEMS = 1024
"""Elements of an array that is still followed."""


def _right(shell: Shell, node: Node) -> Value:
    value = node.child_by_field_name("value")
    if value is None:
        return ""
    if value.type != "array":
        return shell.words.text(value)
    items: list[str] = []
    for child in value.named_children:
        items += shell.words.fields(child)
        if len(items) > MOST_ITEMS:
            shell.budget.spent = True
            return [HOLE]
    items = [item.replace(SET, "[") if item.startswith(SET) else item for item in items]
    keyed = [re.fullmatch(r"\[([^\]]*)\]=(.*)", item, re.DOTALL) for item in items]
    if items and all(keyed):
        return {found[1]: found[2] for found in keyed if found}
    return items


def has_flag(words: Iterable[str], letter: str) -> bool:
    """Return whether one of the words of a declaration is options that have a letter."""
    return any(re.fullmatch(rf"-\w*{letter}\w*", word) for word in words)


def assignment(shell: Shell, node: Node) -> tuple[str, str]:
    """Return the name and value of an assignment that stands before a command."""
    name = node.child_by_field_name("name")
    value = _right(shell, node)
    return (source(name) if name is not None else "", value if isinstance(value, str) else HOLE)


def assign(shell: Shell, node: Node) -> None:
    """Carry out an assignment."""
    name = node.child_by_field_name("name")
    if name is None:
        shell.words.visit(node)
        return
    value = _right(shell, node)
    adds = any(child.type == "+=" for child in node.children)
    if name.type == "subscript":
        base = name.child_by_field_name("name")
        index = name.child_by_field_name("index")
        key = shell.words.text(index) if index is not None else "0"
        subscript(shell, source(name))
        shell.words.number(key)
        text = value if isinstance(value, str) else HOLE
        set_item(shell, source(base) if base is not None else "", key, text)
        return
    give(shell, source(name), value, adds=adds)


def give(shell: Shell, name: str, value: Value, *, adds: bool = False) -> None:
    """Set a variable and record what setting it does."""
    if shell.state.references.get(name) == "" and isinstance(value, str):
        shell.state.references[name] = value  # a reference gets what it stands for
        return
    if adds:
        shell.state.append(name, value)
    else:
        shell.state.set(name, value)
    note_setting(shell, name, value)


def note_setting(shell: Shell, name: str, value: Value) -> None:
    """Record what it does that a variable is set, or the one that it stands for."""
    text = value if isinstance(value, str) else " ".join(value)
    seen = {name}
    shell.catalog.environment(shell, name, text)
    while (target := shell.state.references.get(name.partition("[")[0])) and target not in seen:
        name = target.partition("[")[0]
        seen.add(target)
        shell.state.set(name, value)
        shell.catalog.environment(shell, name, text)


def set_item(shell: Shell, name: str, key: str, value: str) -> None:
    """Set an element of an array; two arrays of the shell redefine commands."""
    if name == "BASH_CMDS" or name == "BASH_ALIASES":
        shell.state.aliases[key] = value
    shell.state.set_item(name, key, value)
    note_setting(shell, name, value)
