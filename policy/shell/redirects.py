# SPDX-License-Identifier: Apache-2.0
"""Redirections: which files they open, what a command then reads, and where its output goes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tree_sitter import Node

from policy.facts import How
from policy.model import Tier
from policy.shell.interpreter import Shell
from policy.shell.syntax.quoting import source
from policy.values.partial import HOLE, NET, PROGRAM, shown

MOST_SOCKETS = 3
"""Connections that one text may open before it counts as a scan."""
_DESCRIPTOR = re.compile(r"\d+|-")
_PROGRAM_FILE = re.compile(r"/(?:usr/(?:local/)?)?s?bin/([^/]+)")
_EMPTY_BY_NATURE = frozenset(
    ("__init__.py", "py.typed", ".gitkeep", ".keep", ".nojekyll", ".npmignore", ".dockerignore")
)
"""Files that are made empty, so that an empty one takes nothing away."""
_QUIET = frozenset(("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/stdin"))


@dataclass(slots=True)
class Plan:
    """The redirections of one command."""

    stdin: str | None = None
    outputs: list[tuple[str, bool]] = field(default_factory=list)
    """Where standard output goes: path, and whether it appends."""
    others: list[tuple[str, bool]] = field(default_factory=list)
    """Files that other descriptors write."""
    words: list[Node] = field(default_factory=list)
    """Words that the grammar took for further targets."""


def read(shell: Shell, nodes: tuple[Node, ...]) -> Plan:
    """Expand the redirections, record what they read, and return them."""
    plan = Plan()
    for node in nodes:
        if node.type == "heredoc_redirect":
            given = node.child_by_field_name("descriptor")
            number = source(given) if given is not None else "0"
            text = _document(shell, node)
            if number == "0":
                plan.stdin = text
            else:
                shell.state.streams[number] = text
        elif node.type == "herestring_redirect":
            words = [child for child in node.named_children if child.type != "file_descriptor"]
            plan.stdin = "".join(shell.words.text(word) for word in words) + "\n"
        else:
            descriptor = ""
            if plan.words and plan.words[-1].end_byte == node.start_byte:
                descriptor = source(plan.words.pop())  # `x >f 2>&1`: the grammar took the 2
            _file(shell, node, plan, descriptor)
    return plan


def _document(shell: Shell, node: Node) -> str:
    start = next((child for child in node.children if child.type == "heredoc_start"), None)
    body = next((child for child in node.children if child.type == "heredoc_body"), None)
    if body is None:
        return ""
    quoted = start is not None and (start.text or b"")[:1] in (b"'", b'"', b"\\")
    return source(body) if quoted else shell.words.document(body)


def _file(shell: Shell, node: Node, plan: Plan, descriptor: str) -> None:
    operator = ""
    targets: list[Node] = []
    for child in node.children:
        if child.type == "file_descriptor":
            descriptor = source(child)
        elif child.type == "ERROR":
            operator += source(child)  # `3<>file`
        elif not child.is_named:
            operator = operator or source(child)
        else:
            targets.append(child)
    if not targets:
        return
    plan.words += targets[1:]
    target = shell.words.text(targets[0])
    if operator in ("<&", ">&") and _DESCRIPTOR.fullmatch(target.rstrip("-") or "-"):
        if operator == "<&" and descriptor in ("", "0"):
            plan.stdin = shell.state.streams.get(target.rstrip("-"), plan.stdin)
        elif operator == ">&" and descriptor == "0":
            plan.stdin = shell.state.streams.get("out", plan.stdin)
        return
    if target.startswith(("/dev/tcp/", "/dev/udp/")):
        _socket(shell, target, descriptor, operator, plan)
    elif operator in ("<", "<>", "<&"):
        content = open_for_reading(shell, target)
        if descriptor in ("", "0"):
            plan.stdin = content
        else:
            shell.state.streams[descriptor] = content
        if operator == "<>" and target not in _QUIET:
            shell.touch(How.APPEND, target, redirect=True)
    else:
        appends = operator in (">>", "&>>")
        where = plan.outputs if descriptor in ("", "1") else plan.others
        where.append((target, appends))


def _socket(shell: Shell, target: str, descriptor: str, operator: str, plan: Plan) -> None:
    shell.facts.network = True
    shell.find(Tier.DANGER, "network", f"it opens a network connection `{shown(target)}`")
    shell.facts.programs[target] = None
    if sum(1 for program in shell.facts.programs if program.startswith("/dev/")) > MOST_SOCKETS:
        shell.find(Tier.FORBIDDEN, "scan", "it goes through a range of addresses or ports")
    shell.state.streams[descriptor or ("0" if operator[0] == "<" else "1")] = NET
    shell.state.streams["out"] = NET
    if operator[0] == "<" and descriptor in ("", "0"):
        plan.stdin = NET


def open_for_reading(shell: Shell, path: str) -> str:
    """Record that a file is read and return what the text itself put there."""
    if path in ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "-"):
        return HOLE
    if path in _QUIET:
        return ""
    full = shell.resolve(path)
    if full.startswith("/dev/fd/") and full in shell.files.content:
        return shell.files.content[full]
    shell.touch(How.READ, path, redirect=True)
    match = _PROGRAM_FILE.fullmatch(full)
    return shell.files.content.get(full, PROGRAM + match[1] if match is not None else HOLE)


def write(shell: Shell, plan: Plan, out: str, *, empty: bool) -> str:
    """Send the output where the redirections say and return what is left of it."""
    for path, _appends in plan.others:
        _put(shell, path, HOLE, appends=True)
    for path, appends in plan.outputs:
        _put(shell, path, out, appends=appends, empties=empty or out == "")
    return "" if plan.outputs else out


def _put(shell: Shell, path: str, text: str, *, appends: bool, empties: bool = False) -> None:
    if path in _QUIET or re.fullmatch(r"/(?:dev|proc/self)/fd/[012]", path):
        return
    if shell.feed(path, text):
        return
    empties = empties and path.rsplit("/", 1)[-1] not in _EMPTY_BY_NATURE
    how = How.APPEND if appends else How.EMPTY if empties else How.WRITE
    shell.touch(how, path, redirect=True)
    store(shell, path, text, appends=appends)


def store(shell: Shell, path: str, text: str, *, appends: bool = False) -> None:
    """Remember what the text puts into a file, so that running it can be judged."""
    full = shell.resolve(path)
    if appends:
        text = shell.files.content.get(full, HOLE if HOLE in text else "") + text
    shell.files.content[full] = text
    shell.files.built.discard(full)
