# SPDX-License-Identifier: Apache-2.0
"""Change a JSON text, which may hold comments, without touching what is not changed. Pure.

Agents' settings are files that people write, with comments and a layout of their own. Each edit
here is an insertion into or a cut from the text; everything else stays byte for byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_SPACE = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)*")
_SCALAR = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"|[-+.0-9A-Za-z]+')
_DEEPEST = 200


class BadJson(ValueError):
    """The text is no JSON, or holds something else than is expected; the message has the line."""


@dataclass(frozen=True, slots=True)
class Node:
    """One value and where it stands in the text."""

    start: int
    end: int
    value: Any
    """The value as Python has it."""
    parts: tuple[tuple[str, int, Node], ...] = ()
    """Members of an object (key, where the key starts, value), or items of a list (no key)."""

    def member(self, key: str) -> Node | None:
        """Return the member of an object that counts: the last of its name."""
        return next((node for name, _, node in reversed(self.parts) if name == key), None)


def parse(text: str) -> Node:
    """Return the tree of a text; comments and commas at the end are read over. Raises BadJson.

    An empty text, or one of comments alone, is an empty object.
    """
    at = _skip(text, 0)
    if at == len(text):
        return Node(at, at, {})
    node, at = _value(text, at, 0)
    at = _skip(text, at)
    if at != len(text):
        raise _bad(text, at, "there is more behind the value")
    return node


def find(text: str, path: Sequence[str]) -> Node | None:
    """Return the value under a path of keys, or None. Raises BadJson."""
    node: Node | None = parse(text)
    for key in path:
        node = node.member(key) if node is not None and isinstance(node.value, dict) else None
    return node


def put(text: str, path: Sequence[str], value: Any) -> str:
    """Return the text with a value under a path of keys; objects on the way are made.

    A value that stands there is replaced. Raises BadJson.
    """
    if not parse(text).end:
        text = text + "{}\n"
    elif parse(text).start == parse(text).end:
        text = text + "{}\n" if text.endswith("\n") else text + "\n{}\n"
    node = parse(text)
    for depth, key in enumerate(path):
        if not isinstance(node.value, dict):
            raise _bad(text, node.start, f"`{'.'.join(path[:depth]) or 'it'}` is no object")
        inner = node.member(key)
        if inner is None:
            for name in reversed(path[depth + 1 :]):
                value = {name: value}
            return _insert(text, node, value, key)
        node = inner
    unit = _unit(text)
    new = _dumped(value, _indent_of(text, node.start), unit, _newline(text))
    return text[: node.start] + new + text[node.end :]


def append(text: str, path: Sequence[str], value: Any) -> str:
    """Return the text with a value at the end of the list under a path; it is made if need be.

    Raises BadJson.
    """
    node = find(text, path)
    if node is None:
        return put(text, path, [value])
    if not isinstance(node.value, list):
        raise _bad(text, node.start, f"`{'.'.join(path)}` is no list")
    return _insert(text, node, value, None)


def cut(text: str, path: Sequence[str], index: int | None = None) -> str:
    """Return the text without the member under a path, or without one item of the list there.

    What is not there is no error. Raises BadJson.
    """
    holder = find(text, path if index is not None else path[:-1])
    if holder is None:
        return text
    for at, (key, start, node) in enumerate(holder.parts):
        if at == index or (index is None and key == path[-1]):
            text = _without(text, holder, at, start, node)
            return text if index is not None else cut(text, path)
    return text


# -- reading


def _value(text: str, at: int, depth: int) -> tuple[Node, int]:
    if depth > _DEEPEST:
        raise _bad(text, at, "it is nested too deep")
    opening = text[at : at + 1]
    if opening in ("{", "["):
        return _holder(text, at, depth, closing="}" if opening == "{" else "]")
    found = _SCALAR.match(text, at)
    if found is None:
        raise _bad(text, at, "a value is missing")
    try:
        value = json.loads(found[0])
    except ValueError:
        raise _bad(text, at, f"`{found[0][:40]}` is no value") from None
    return Node(at, found.end(), value), found.end()


def _holder(text: str, start: int, depth: int, *, closing: str) -> tuple[Node, int]:
    parts: list[tuple[str, int, Node]] = []
    at = _skip(text, start + 1)
    while text[at : at + 1] != closing:
        key, key_at = "", at
        if closing == "}":
            key_node, at = _value(text, at, depth + 1)
            if not isinstance(key_node.value, str):
                raise _bad(text, key_at, "a key must be a text")
            key, at = key_node.value, _skip(text, at)
            if text[at : at + 1] != ":":
                raise _bad(text, at, "`:` is missing")
            at = _skip(text, at + 1)
        node, at = _value(text, at, depth + 1)
        parts.append((key, key_at, node))
        at = _skip(text, at)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != closing:
            raise _bad(text, at, f"`,` or `{closing}` is missing")
    value: Any = [node.value for _, _, node in parts]
    if closing == "}":
        value = {key: node.value for key, _, node in parts}
    return Node(start, at + 1, value, tuple(parts)), at + 1


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _bad(text: str, at: int, what: str) -> BadJson:
    return BadJson(f"line {text.count(chr(10), 0, at) + 1}: {what}")


# -- writing


def _insert(text: str, holder: Node, value: Any, key: str | None) -> str:
    """Return the text with a member or item at the end of an object or list."""
    newline, unit = _newline(text), _unit(text)
    outer = _indent_of(text, holder.start)
    several = "\n" in text[holder.start : holder.end] or (holder.start == 0 and not holder.parts)
    if holder.parts:
        several = several and _begins_line(text, holder.parts[-1][1])
    elif not several:
        several = not _inside_one_line(text, holder)
    inner = _indent_of(text, holder.parts[-1][1]) if several and holder.parts else outer + unit
    name = f"{json.dumps(key, ensure_ascii=False)}: " if key is not None else ""
    new = name + (_dumped(value, inner, unit, newline) if several else _flat(value))
    close = holder.end - 1
    if not holder.parts:
        before = text[holder.start + 1 : close].rstrip(" \t\r\n")
        if not several:
            return text[: holder.start + 1] + before + new + text[close:]
        put_in = f"{before}{newline}{inner}{new}{newline}{outer}"
        return text[: holder.start + 1] + put_in + text[close:]
    end = holder.parts[-1][2].end
    rest = _skip(text, end)
    comma = rest if text[rest : rest + 1] == "," else None
    at = comma + 1 if comma is not None else end
    head = text[:at] if comma is not None else text[:end] + ","
    if not several:
        return f"{head} {new}{text[at:]}"
    line = re.compile(r"(?:[ \t]|/\*(?:[^*\n]|\*(?!/))*\*/)*(?://[^\n\r]*)?(?=\r?\n)").match(
        text, at
    )
    stop = line.end() if line else at  # a remark at the end of the line stays with its value
    trailing = "," if comma is not None else ""
    return f"{head}{text[at:stop]}{newline}{inner}{new}{trailing}{text[stop:]}"


def _without(text: str, holder: Node, at: int, start: int, node: Node) -> str:
    rest = _skip(text, node.end)
    end = node.end
    if text[rest : rest + 1] == ",":
        end = rest + 1
    elif at > 0:  # the last one: the comma before it goes too
        before = holder.parts[at - 1][2].end
        comma = _skip(text, before)
        text = text[:comma] + text[comma + 1 :]
        start, end = start - 1, end - 1
    line_start = text.rfind("\n", 0, start) + 1
    if not text[line_start:start].strip():  # it began a line: take the line away, if all of it
        ending = re.compile(r"[ \t]*(?:\r?\n)").match(text, end)
        if ending:
            if len(holder.parts) == 1 and _bare(text, holder, line_start, ending.end()):
                return text[: holder.start + 1] + text[_close(text, ending.end()) :]
            return text[:line_start] + text[ending.end() :]
        return text[:line_start].rstrip(" \t") + text[end:].lstrip(" \t")
    if text[end : end + 1] == " ":
        end += 1
    elif at > 0 and text[start - 1 : start] == " ":
        start -= 1
    return text[:start] + text[end:]


def _bare(text: str, holder: Node, line_start: int, after: int) -> bool:
    """Whether nothing but blanks would be left between the brackets."""
    return not text[holder.start + 1 : line_start].strip() and text[
        _close(text, after) : _close(text, after) + 1
    ] in ("}", "]")


def _close(text: str, after: int) -> int:
    found = re.compile(r"\s*").match(text, after)
    return found.end() if found else after


def _begins_line(text: str, at: int) -> bool:
    return not text[text.rfind("\n", 0, at) + 1 : at].strip()


def _inside_one_line(text: str, holder: Node) -> bool:
    """Whether an empty object or list stands within a larger one that takes one line."""
    line = text[text.rfind("\n", 0, holder.start) + 1 : holder.start]
    return bool(re.search(r"[{\[,]\s*\S", line))


def _indent_of(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    match = re.search(r"^([ \t]+)\S", text, re.M)
    return match[1] if match else "  "


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _dumped(value: Any, indent: str, unit: str, newline: str) -> str:
    lines = json.dumps(value, indent=unit, ensure_ascii=False).split("\n")
    return (newline + indent).join(lines)


def _flat(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
