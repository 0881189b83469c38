# SPDX-License-Identifier: Apache-2.0
"""Parameter expansion: what `${...}` gives for partly known values."""

from __future__ import annotations

import re
from collections.abc import Callable

from policy.shell.interpreter import Words
from policy.shell.state import as_text
from policy.values.linear_glob import MOST_WORK, Token, TooMuchWork, ends, tokens
from policy.values.numbers import natural
from policy.values.partial import BREAK, HOLE, NUM, ONE, unknown

_FORM = re.compile(
    r"(?P<bang>!)?(?P<length>#(?=[\w@*!?$-]))?(?P<name>[A-Za-z_]\w*|\d+|[@*#?$!-])"
    r"(?:\[(?P<key>[^\]]*(?:\][^\]]*)*?)\])?(?P<rest>.*)",
    re.DOTALL,
)
Change = Callable[[str], str]
_CASES: dict[str, Change] = {"^": str.upper, ",": str.lower, "~": str.swapcase}
_NAME = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?|\d+|[@*#?$!-]")
_ESCAPED = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)", re.DOTALL)


def expand(words: Words, body: str, *, quoted: bool) -> str:
    """Return the value of `${body}`."""
    match = _FORM.fullmatch(body)
    if match is None:
        words.evaluated(body)
        return HOLE
    name, key, rest = match["name"], match["key"], match["rest"]
    if match["bang"]:
        return _indirect(words, name, key, rest, quoted=quoted)
    value = _look(words, name, key, quoted=quoted)
    if match["length"]:
        return _length(words, name, key, value)
    return _apply(words, name, value, rest, quoted=quoted)


def _look(words: Words, name: str, key: str | None, *, quoted: bool) -> str | None:
    if key is not None:
        inner = words.evaluated(key)
        if inner in ("@", "*"):
            items = words.items(name)
            if items is None:
                return None
            return (BREAK if inner == "@" or not quoted else words.joint()).join(items)
        value = words.look(name)
        if isinstance(value, dict):
            return value.get(inner, "") if not unknown(inner) else HOLE
        items = words.items(name)
        if items is None:
            return None
        number = words.number(inner)
        if not re.fullmatch(r"-?\d+", number):
            return HOLE
        at = int(number)
        return items[at] if -len(items) <= at < len(items) else ""
    place = natural(name)
    if name in ("@", "*") or place is not None or not (name[0].isalpha() or name[0] == "_"):
        given = words.positional()
        if place and given is not None and place > len(given):
            return None
        return words.parameter(name, quoted=quoted)
    found = words.look(name)
    return None if found is None else as_text(found)


def _indirect(words: Words, name: str, key: str | None, rest: str, *, quoted: bool) -> str:
    if rest in ("*", "@"):
        return HOLE
    if key in ("@", "*"):
        value = words.look(name)
        if isinstance(value, dict):
            return BREAK.join(value)
        return BREAK.join(str(at) for at in range(len(words.items(name) or [])))
    target = _look(words, name, key, quoted=quoted)
    if target is None or not _NAME.fullmatch(target):
        _apply(words, name, None, rest, quoted=quoted)  # for what the operand runs
        return HOLE
    return expand(words, target + rest, quoted=quoted)


def _length(words: Words, name: str, key: str | None, value: str | None) -> str:
    if name in ("@", "*") or key in ("@", "*"):
        items = words.positional() if key is None else words.items(name)
        return NUM if items is None else str(len(items))
    return NUM if value is None or unknown(value) else str(len(value))


def _apply(words: Words, name: str, value: str | None, rest: str, *, quoted: bool) -> str:
    if not rest:
        return HOLE if value is None else value
    for operator in (":-", ":=", ":?", ":+", "-", "=", "?", "+"):
        if rest.startswith(operator):
            return _default(words, name, value, operator, rest[len(operator) :], quoted=quoted)
    if rest.startswith(":"):
        return _slice(words, name, value, rest[1:])
    change = _change(words, rest)
    if value is None:
        return HOLE
    words.charge(20 * len(value))
    try:
        return BREAK.join(change(part) for part in value.split(BREAK))
    except TooMuchWork:
        return HOLE


def _default(
    words: Words, name: str, value: str | None, operator: str, operand: str, *, quoted: bool
) -> str:
    arg = words.fragment(operand, quoted=quoted)
    missing = value is None or (operator[0] == ":" and value == "")
    if operator[-1] == "+":
        return "" if missing else arg
    if operator[-1] == "=" and missing:
        words.assign(name, arg)
    if operator[-1] == "?" and missing:
        return HOLE
    return arg if missing or value is None else value


def _slice(words: Words, name: str, value: str | None, rest: str) -> str:
    words.evaluated(rest)
    start_text, _, length_text = rest.partition(":")
    start = words.number(start_text.strip() or "0")
    length = words.number(length_text.strip()) if length_text.strip() else ""
    if (
        value is None
        or not re.fullmatch(r"-?\d+", start)
        or (length and not re.fullmatch(r"-?\d+", length))
    ):
        return HOLE
    low = int(start)
    if BREAK in value or name in ("@", "*"):
        parts = value.split(BREAK)
        if name in ("@", "*"):
            low = low - 1 if low > 0 else low
        return BREAK.join(parts[low:] if not length else parts[low : low + int(length)])
    if unknown(value):
        return HOLE
    low = low if low >= 0 else max(0, len(value) + low)
    if not length:
        return value[low:]
    high = low + int(length) if int(length) >= 0 else len(value) + int(length)
    return value[low:high]


def _change(words: Words, rest: str) -> Change:
    """Return what an operator does to one known value; runs what its operands hold."""
    if rest.startswith("@"):
        return lambda value: _modified(words, value, rest[1:2])
    if rest.startswith("/"):
        return _known(_replacing(words, rest[1:]))
    operator = rest[:2] if rest[:1] * 2 == rest[:2] else rest[:1]
    arg = words.pattern(rest[len(operator) :])
    if unknown(arg):
        return lambda value: HOLE if value else value
    if operator[0] in "#%":
        return _known(lambda value: _strip(value, operator, arg))
    if operator[0] in _CASES:
        change, parts = _CASES[operator[0]], tokens(arg or ONE)

        def fold(value: str) -> str:
            first = [change(one) if 1 in ends(parts, one) else one for one in value[:1]]
            if len(operator) == 1:
                return "".join(first) + value[1:]
            return "".join(change(one) if 1 in ends(parts, one) else one for one in value)

        return _known(fold)
    return lambda value: HOLE


def _known(change: Change) -> Change:
    return lambda value: HOLE if unknown(value) else change(value)


def _modified(words: Words, value: str, operator: str) -> str:
    if operator == "P":
        return words.evaluated(_ESCAPED.sub(_escape, value.replace("\\$", "\\\\$")))
    if operator in ("U", "u", "L"):
        whole = value.upper() if operator == "U" else value.lower()
        return whole if operator != "u" else value[:1].upper() + value[1:]
    if operator == "E":
        return _ESCAPED.sub(_escape, value)
    return value


def _escape(found: re.Match[str]) -> str:
    body = found[1]
    if body[0] == "x" and len(body) > 1:
        return chr(int(body[1:], 16))
    if body[0] in "01234567":
        return chr(int(body, 8) & 0xFF)
    return {"n": "\n", "t": "\t"}.get(body, body)


def _strip(value: str, operator: str, arg: str) -> str:
    """Remove a matching prefix or suffix, the shortest or the longest."""
    parts = tokens(arg)
    if operator[0] == "#":
        places = ends(parts, value)
        return value[places[-1 if operator == "##" else 0] :] if places else value
    backwards = ends(parts[::-1], value[::-1])
    if not backwards:
        return value
    return value[: len(value) - backwards[-1 if operator == "%%" else 0]]


def _replacing(words: Words, rest: str) -> Change:
    """Return what replaces what a pattern matches, the longest match first."""
    everywhere = rest.startswith("/")
    body = rest[1:] if everywhere else rest
    at = _slash(body)
    old = words.pattern(body[:at])
    new = words.fragment(body[at + 1 :], quoted=False)
    if unknown(old):
        return lambda value: HOLE
    anchor = old[:1] if old[:1] in ("#", "%") and not everywhere else ""
    parts = tokens(old[len(anchor) :])

    def change(value: str) -> str:
        if not parts:
            return value
        if anchor == "%":
            backwards = ends(parts[::-1], value[::-1])
            return value[: len(value) - backwards[-1]] + new if backwards else value
        return _replaced(value, parts, new, everywhere=everywhere, anchored=anchor == "#")

    return change


def _slash(text: str) -> int:
    """Return where a pattern ends: at the first slash outside of quotes and substitutions."""
    level, at = 0, 0
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 1
        elif char in "'\"`" and (end := text.find(char, at + 1)) > 0:
            at = end
        elif char in "({" and at and (level or text[at - 1] == "$"):
            level += 1
        elif char in ")}" and level:
            level -= 1
        elif char == "/" and not level:
            return at
        at += 1
    return len(text)


def _replaced(value: str, parts: list[Token], new: str, *, everywhere: bool, anchored: bool) -> str:
    out: list[str] = []
    at = work = 0
    while at < len(value):
        work += len(value) - at
        if work * len(parts) > MOST_WORK:
            raise TooMuchWork
        places = [end for end in ends(parts, value, at) if end > at]
        if places:
            out.append(new)
            at = places[-1]
            if not everywhere:
                break
        elif anchored:
            break
        else:
            out.append(value[at])
            at += 1
    return "".join(out) + value[at:]
