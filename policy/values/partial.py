# SPDX-License-Identifier: Apache-2.0
"""Partly known text: words of a shell in which some characters stand for what cannot be known.

A word is an ordinary string; characters of Unicode's private use area mark the unknown pieces and
the active glob characters. Joining, slicing and comparing stay string operations. Text that comes
from outside and holds such characters is replaced at the edge (`clean`).
"""

from __future__ import annotations

import re
from functools import lru_cache

HOLE = "\ue000"
"""Unknown text, possibly empty."""
NET = "\ue001"
"""Unknown text that came from the network."""
NAME = "\ue002"
"""Unknown relative names of files inside the directory that a listing showed."""
NUM = "\ue003"
"""Unknown digits."""
JOB = NUM + NUM
"""The number of a process that the call itself started (`$!`), or that is the cell's."""
STAR = "\ue004"
ONE = "\ue005"
SET = "\ue006"
"""An active `*`, `?` and `[`."""
OPEN = "\ue007"
COMMA = "\ue008"
CLOSE = "\ue009"
"""Active braces and their commas."""
BREAK = "\ue00a"
"""Ends a field."""
QUOTED = "\ue00b"
"""Keeps a field even when it is empty."""
PROGRAM = "\ue00c"
"""Content of a file that is a copy of the program named after it."""

_UNKNOWN = frozenset((HOLE, NET, NAME, NUM))
_GLOBS = frozenset((STAR, ONE, SET))
_PRIVATE = re.compile("[\ue000-\ue00f]")
_UNKNOWN_RE = re.compile("[\ue000-\ue003]")
_GLOB_RE = re.compile("[\ue004-\ue006]")
_SHOWN = {
    HOLE: "?",
    NET: "?",
    NAME: "?",
    NUM: "?",
    STAR: "*",
    ONE: "?",
    SET: "[",
    OPEN: "{",
    COMMA: ",",
    CLOSE: "}",
    BREAK: " ",
    QUOTED: "",
    PROGRAM: "",
}
_SHOW = str.maketrans(_SHOWN)
_CLEAN = dict.fromkeys(range(0xE000, 0xE010), 0xFFFD)
_BRACES = str.maketrans({OPEN: "{", COMMA: ",", CLOSE: "}"})
_MOST_WORDS = 64
_MOST_PARTS = 512
"""Characters of a pattern; what follows may be anything."""
_ANYTHING = re.compile(r"(?:\.\*){2,}")
_STARS = re.compile(r"(?:\[\^/\]\*){2,}")


def clean(text: str) -> str:
    """Return `text` without characters that would be mistaken for marks."""
    return text if exact(text) else text.translate(_CLEAN)


def holds_marks(text: str) -> bool:
    """Return whether outside text holds characters that are marks here."""
    return not exact(text)


def shown(word: str) -> str:
    """Return the word as a person would write it."""
    return word if exact(word) else word.translate(_SHOW)


def unknown(word: str) -> bool:
    """Return whether a part of the word cannot be known."""
    return not word.isascii() and _UNKNOWN_RE.search(word) is not None


def globbed(word: str) -> bool:
    """Return whether the word holds an active glob character."""
    return _GLOB_RE.search(word) is not None


def exact(word: str) -> bool:
    """Return whether the word is one known text."""
    return word.isascii() or _PRIVATE.search(word) is None


def known_part(word: str) -> str:
    """Return the word with its unknown pieces taken as empty."""
    return _UNKNOWN_RE.sub("", word)


def activate(value: str) -> str:
    """Return the value of an unquoted expansion with its glob characters active."""
    return value.replace("*", STAR).replace("?", ONE).replace("[", SET)


def split(value: str, separators: str) -> str:
    """Return the value with a BREAK wherever the shell would split it."""
    for char in separators:
        value = value.replace(char, BREAK)
    return value


def unbrace(word: str) -> tuple[str, ...]:
    """Return the words that brace expansion makes of one word."""
    if OPEN not in word:
        return (word.replace(COMMA, ","),) if COMMA in word or CLOSE in word else (word,)
    done = _expand(word, 0)
    return tuple(one.translate(_BRACES) for one in done[:_MOST_WORDS])


def _expand(word: str, depth: int) -> list[str]:
    start = word.find(OPEN)
    if start < 0 or depth > 8:
        return [word]
    level, parts, last = 0, [], start + 1
    for at in range(start, len(word)):
        char = word[at]
        if char == OPEN:
            level += 1
        elif char == CLOSE:
            level -= 1
            if level == 0:
                parts.append(word[last:at])
                return _combine(word[:start], parts, word[at + 1 :], depth)
        elif char == COMMA and level == 1:
            parts.append(word[last:at])
            last = at + 1
    return [
        word[: start + 1].replace(OPEN, "{") + rest
        for rest in _expand(word[start + 1 :], depth + 1)
    ]


def _combine(head: str, parts: list[str], tail: str, depth: int) -> list[str]:
    if len(parts) == 1:
        ranged = _range(parts[0])
        if ranged is None:
            inner = _expand(parts[0], depth + 1)
            parts = ["{" + one + "}" for one in inner]
        else:
            parts = ranged
    tails = _expand(tail, depth + 1)
    made: list[str] = []
    for part in parts:
        for middle in _expand(part, depth + 1):
            made += [head + middle + end for end in tails]
            if len(made) >= _MOST_WORDS:
                return made
    return made


def _range(text: str) -> list[str] | None:
    match = re.fullmatch(r"(-?\d{1,6})\.\.(-?\d{1,6})(?:\.\.(-?\d{1,6}))?", text)
    if match:
        low, high = int(match[1]), int(match[2])
        step = abs(int(match[3] or 1)) or 1
        numbers = range(low, high + 1, step) if low <= high else range(low, high - 1, -step)
        return [str(number) for number in numbers[:_MOST_WORDS]]
    match = re.fullmatch(r"([A-Za-z])\.\.([A-Za-z])", text)
    if match:
        first, last = ord(match[1]), ord(match[2])
        way = 1 if first <= last else -1
        return [chr(one) for one in range(first, last + way, way)][:_MOST_WORDS]
    return None


@lru_cache(maxsize=512)
def pattern(word: str) -> re.Pattern[str]:
    """Return an expression for every text that the word can stand for."""
    out: list[str] = []
    at = 0
    while at < len(word):
        char = word[at]
        if len(out) > _MOST_PARTS:
            out.append(".*")
            break
        if char in _UNKNOWN:
            out.append(r"\d*" if char == NUM else ".*")
        elif char == STAR:
            out.append("[^/]*")
        elif char == ONE:
            out.append("[^/]")
        elif char == SET:
            end = word.find("]", at + 2)
            if end < 0:
                out.append(r"\[")
            else:
                inside = _PRIVATE.sub("", word[at + 1 : end])
                negated = inside[:1] in "!^" and inside[:1] != ""
                body = re.sub(r"([\\\]\[&~|])", r"\\\1", inside.lstrip("!^"))
                readable = body and "--" not in body  # which may come to mean something else
                out.append(f"[{'^' if negated else ''}{body}]" if readable else "[^/]")
                at = end
        else:
            out.append(re.escape(char))
        at += 1
    text = _STARS.sub("[^/]*", _ANYTHING.sub(".*", "".join(out)))
    try:
        return re.compile(text, re.DOTALL | re.IGNORECASE)
    except re.error:
        return re.compile(".*", re.DOTALL)


def weight(word: str) -> int:
    """Return how many characters of the word are known."""
    return len(_PRIVATE.sub("", word))
