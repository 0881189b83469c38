# SPDX-License-Identifier: Apache-2.0
"""Compound commands: loops, branches, groups, tests, definitions, assignments.

A condition decides nothing here: every branch is walked, loops over known words are walked word by
word, other loops twice, and what the branches left is joined.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tree_sitter import Node

from policy.facts import How
from policy.model import Tier
from policy.shell import assignments as variables
from policy.shell.interpreter import Shell
from policy.shell.state import Call, Value
from policy.shell.syntax.quoting import source
from policy.values.partial import HOLE, NAME, NET, NUM, unknown

MOST_ROUNDS = 24
_JUMPS = re.compile(r"\b(?:break|continue|return|exit)\b")
_FILE_TESTS = frozenset("abcdefghkprstuwxGLNOS")
_NUMERIC = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))


def _group(shell: Shell, node: Node, stdin: str | None) -> str:
    children = node.children
    if children and children[0].type == "((":
        shell.words.visit(node)
        _assigned(shell, node)
        shell.words.number(source(node)[2:-2])
        return ""
    return shell.walk(node, stdin)


def _assigned(shell: Shell, node: Node) -> None:
    """Forget the value of what arithmetic assigns."""
    for child in node.named_children:
        if child.type == "variable_assignment":
            variables.assign(shell, child)
        elif child.type in ("postfix_expression", "unary_expression", "binary_expression"):
            for name in child.named_children:
                text = source(name)
                if name.type in ("word", "variable_name") and text.isidentifier():
                    shell.state.set(text, NUM)
            _assigned(shell, child)


_SERVES = re.compile(
    r"\s*(?:[A-Za-z_]\w*=\S*\s+)*(?:(?:nohup|npx|time|env)\s+)*(?:npm|yarn|pnpm|bun|node|nodemon|vite|next"
    r"|python[\d.]*|uvicorn|gunicorn|flask|jest|vitest|pytest|cargo|playwright|tsx|webpack|make)\b"
)


def serves(text: str) -> bool:
    """Return whether a command is one that people leave running, such as a development server."""
    return _SERVES.match(text[:400]) is not None


def _subshell(shell: Shell, node: Node, stdin: str | None) -> str:
    last = [child for child in node.children if child.type not in ("comment", ")", "\n")][-2:]
    if last and last[-1].type == "&" and not serves(source(last[0])):
        shell.find(Tier.DANGER, "processes", "it leaves a process behind that nobody waits for")
    return shell.aside(lambda: shell.walk(node, stdin))


def _if(shell: Shell, node: Node, stdin: str | None) -> str:
    out: list[str] = []
    for at, child in enumerate(node.children):
        if node.field_name_for_child(at) == "condition" and child.is_named:
            out.append(shell.statement(child, stdin))
    before = shell.state
    after = before.copy()
    shell.state = before.copy()
    rest: list[Node] = []
    for at, child in enumerate(node.children):
        if (
            not child.is_named
            or child.type == "comment"
            or node.field_name_for_child(at) == "condition"
        ):
            continue
        if child.type in ("elif_clause", "else_clause"):
            rest.append(child)
        else:
            out.append(shell.statement(child, stdin))
    after.join(shell.state)
    for clause in rest:
        shell.state = before.copy()
        out.append(shell.walk(clause, stdin))
        after.join(shell.state)
    shell.state = after
    return "".join(out)


def _body(node: Node) -> Node | None:
    return node.child_by_field_name("body") or next(
        (
            child
            for child in node.named_children
            if child.type in ("do_group", "compound_statement")
        ),
        None,
    )


def _may_leave(body: Node) -> bool:
    """Return whether a round of a loop may end before all of its body has run."""
    return _JUMPS.search(source(body)) is not None


def _while(shell: Shell, node: Node, stdin: str | None) -> str:
    body = _body(node)
    conditions = [
        child
        for at, child in enumerate(node.children)
        if node.field_name_for_child(at) == "condition" and child.is_named
    ]
    out: list[str] = []
    rounds = _lines(stdin) if stdin is not None else [None, None, None]
    until = node.children[0].type == "until"
    if source(node).find("&\ndone") >= 0 or (conditions and _endless(conditions[0], until=until)):
        _flood(shell, body)
    counters = dict(shell.state.values) if stdin is None else None
    with shell.perhaps():
        for number, line in enumerate(rounds):
            if counters is not None and number == len(rounds) - 1:
                _generalise(shell, counters)
            for condition in conditions:
                out.append(shell.statement(condition, stdin if line is None else line))
            if body is not None:
                with shell.unsure(_may_leave(body)):
                    out.append(shell.walk(body, stdin if line is None else line))
    return "".join(out)


def _generalise(shell: Shell, before: dict[str, Value]) -> None:
    """Make every number that the loop changed some number, for all further rounds."""
    for name, value in tuple(shell.state.values.items()):
        if isinstance(value, str) and value.isdigit() and before.get(name) != value:
            shell.state.set(name, NUM)


def _endless(condition: Node, *, until: bool) -> bool:
    if until:
        return source(condition).strip() in ("false", "/bin/false", "[ ]", "! true", "! :")
    return source(condition).strip() in (":", "true", "1", "[ 1 ]", "[[ 1 ]]", "/bin/true")


def _flood(shell: Shell, body: Node | None) -> None:
    text = source(body) if body is not None else ""
    if not re.search(r"\b(?:break|exit|return|sleep|read|wait)\b", text):
        shell.find(Tier.DANGER, "resources", "it loops without an end")
    if "&" in text.replace("&&", "").replace(">&", "").replace("&>", "") and "break" not in text:
        shell.find(Tier.DANGER, "resources", "it starts processes in an endless loop")


def _lines(stdin: str) -> list[str | None]:
    if unknown(stdin) and stdin.strip() in (HOLE, NET, NAME, NUM):
        return [stdin, stdin]
    lines: list[str | None] = [line + "\n" for line in stdin.splitlines()]
    return lines[:MOST_ROUNDS] or [stdin]


def _for(shell: Shell, node: Node, stdin: str | None) -> str:
    variable = node.child_by_field_name("variable")
    name = source(variable) if variable is not None else "_"
    items: list[str] = []
    listed = False
    for at, child in enumerate(node.children):
        if child.type == "in":
            listed = True
        if node.field_name_for_child(at) == "value" and child.is_named:
            listed = True
            items += shell.words.fields(child)
    if not listed:
        items = list(shell.state.args) if shell.state.args is not None else [HOLE]
    body = _body(node)
    out: list[str] = []
    refers = name in shell.state.references  # each round it stands for another variable
    leaves = body is not None and _may_leave(body)
    before = shell.state.copy()
    for item in items[:MOST_ROUNDS]:
        variables.give(shell, name, item)
        if refers:
            shell.state.references[name] = item
        if body is not None:
            with shell.unsure(leaves):
                out.append(shell.walk(body, stdin))
    if len(items) > MOST_ROUNDS and body is not None:
        variables.give(shell, name, HOLE)
        with shell.unsure(leaves):
            out.append(shell.walk(body, stdin))
    if leaves or not items or any(map(unknown, items)):  # perhaps it does nothing
        before.join(shell.state)
        shell.state = before
    return "".join(out)


def _c_for(shell: Shell, node: Node, stdin: str | None) -> str:
    body = _body(node)
    for child in node.named_children:
        if child is not body:
            shell.words.visit(child)
            if child.type == "variable_assignment":
                variables.assign(shell, child)
    _assigned(shell, node)
    shell.words.number(source(node).partition("((")[2].partition("))")[0])
    if node.child_by_field_name("condition") is None:
        _flood(shell, body)
    if body is None:
        return ""
    with shell.perhaps(), shell.unsure(_may_leave(body)):
        return shell.walk(body, stdin)


def _case(shell: Shell, node: Node, stdin: str | None) -> str:
    value = node.child_by_field_name("value")
    if value is not None:
        shell.words.text(value)
    before = shell.state
    after = before.copy()
    out: list[str] = []
    for item in node.named_children:
        if item.type != "case_item":
            continue
        shell.state = before.copy()
        for at, child in enumerate(item.children):
            if not child.is_named or child.type == "comment":
                continue
            if item.field_name_for_child(at) == "value":
                shell.words.text(child)
            else:
                out.append(shell.statement(child, stdin))
        after.join(shell.state)
    shell.state = after
    return "".join(out)


def _function(shell: Shell, node: Node, stdin: str | None) -> str:
    name = node.child_by_field_name("name")
    body = node.child_by_field_name("body")
    if name is not None and body is not None:
        shell.define(
            source(name),
            body,
            [child for child in node.children if child.type.endswith("_redirect")],
        )
    return ""


def _test(shell: Shell, node: Node, stdin: str | None) -> str:
    operands: list[str] = []
    words: list[str] = []
    _leaves(shell, node, words)
    for at, word in enumerate(words):
        if (
            word.startswith("-")
            and word[1:2] in _FILE_TESTS
            and len(word) == 2
            and at + 1 < len(words)
        ):
            shell.touch(How.EXIST, words[at + 1])
        elif word == "-v" and at + 1 < len(words):
            operands.append(words[at + 1])
        elif word in _NUMERIC:
            for one in (*words[at - 1 : at], *words[at + 1 : at + 2]):
                shell.words.number(one)
            operands += words[at - 1 : at] + words[at + 1 : at + 2]
    for operand in operands:
        variables.subscript(shell, operand)
    return ""


def _leaves(shell: Shell, node: Node, words: list[str]) -> None:
    for child in node.children:
        if child.type in ("binary_expression", "unary_expression", "parenthesized_expression"):
            _leaves(shell, child, words)
        elif child.is_named and child.type != "comment":
            words.append(shell.words.text(child))


def _negated(shell: Shell, node: Node, stdin: str | None) -> str:
    return shell.walk(node, stdin)


def _assignments(shell: Shell, node: Node, stdin: str | None) -> str:
    for child in node.named_children if node.type == "variable_assignments" else (node,):
        variables.assign(shell, child)
    return ""


def _declaration(shell: Shell, node: Node, stdin: str | None) -> str:
    fields: list[str] = [source(node.children[0])]
    plain = [source(child) for child in node.children if child.type == "word"]
    refers = variables.has_flag(plain, "n")
    counts = variables.has_flag(plain, "i")
    exports = fields == ["export"] or variables.has_flag(plain, "x")
    fixes = fields == ["readonly"] or variables.has_flag(plain, "r")
    for child in node.children[1:]:
        if child.type == "variable_assignment" and refers:
            name, target = variables.assignment(shell, child)
            shell.state.references[name] = target
            shell.state.note((target,))
        elif child.type == "variable_assignment":
            variables.assign(shell, child)
            name = source(child).partition("=")[0].rstrip("+")
            value = shell.state.get(name)
            if exports and isinstance(value, str):
                shell.catalog.exported(shell, name, value)
            if counts:  # an integer's value is evaluated once more
                variables.subscript(shell, value if isinstance(value, str) else "")
            if fixes:
                shell.state.fixed |= {name}
        elif child.is_named:
            words = shell.words.fields(child)
            if refers and child.type in ("variable_name", "word") and source(child).isidentifier():
                shell.state.references.setdefault(source(child), "")
            fields += words
    return shell.call(Call(tuple(fields), stdin))


def _unset(shell: Shell, node: Node, stdin: str | None) -> str:
    fields: list[str] = [source(node.children[0])]
    for child in node.children[1:]:
        if child.is_named:
            fields += shell.words.fields(child)
    return shell.call(Call(tuple(fields), stdin))


COMPOUND: dict[str, Callable[[Shell, Node, str | None], str]] = {
    "compound_statement": _group,
    "do_group": _negated,
    "subshell": _subshell,
    "if_statement": _if,
    "while_statement": _while,
    "for_statement": _for,
    "c_style_for_statement": _c_for,
    "case_statement": _case,
    "function_definition": _function,
    "test_command": _test,
    "negated_command": _negated,
    "variable_assignment": _assignments,
    "variable_assignments": _assignments,
    "declaration_command": _declaration,
    "unset_command": _unset,
    "else_clause": _negated,
    "elif_clause": _negated,
    "ERROR": _negated,
}
