# SPDX-License-Identifier: Apache-2.0
"""Read git's configuration text as git does, to see which settings a change adds.

Follows git's own reader (config.c) character by character, since a reading that differs would
overlook a key: comments end at the line, continuations do not start in comments, a section header
may be followed by a key on the same line. Pure; never raises on any text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import lru_cache

Setting = tuple[str, str | None]
"""`section.subsection.key` with section and key in lower case, and the value (None: no `=`)."""

_BOOLEANS = frozenset((None, "", "true", "false", "yes", "no", "on", "off", "1", "0"))
_USUAL = 200
"""Characters of a setting's name; an answer on a longer one is not kept."""
_SPACE = " \t\n\r"
"""What git calls a space (ctype.c): no other control character, and none beyond ASCII."""
RUNS = re.compile(r"\s*(?:ext|fd)::|\s*!|\s*-")
"""Addresses that make git run a program."""


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text.removeprefix("\ufeff").replace("\r\n", "\n")
        self._at = 0
        self._section = ""
        self.whole = False
        """Whether the text was read to its end, and git would refuse nothing in it."""

    def _next(self) -> str:
        if self._at >= len(self._text):
            self._at += 1
            return ""
        self._at += 1
        return self._text[self._at - 1]

    def _skip_line(self) -> None:
        while self._next() not in ("\n", ""):
            pass

    def settings(self) -> Iterator[Setting]:
        """Give the settings up to the first thing that git would refuse."""
        while True:
            char = self._next()
            if char == "":
                self.whole = True
                return
            if char in _SPACE:
                continue
            if char in "#;":
                self._skip_line()
            elif char == "[":
                section = self._header()
                if section is None:
                    return
                self._section = section
            elif char.isascii() and char.isalpha():
                setting = self._setting(char)
                if setting is None:
                    return
                yield setting
            else:
                return

    def _header(self) -> str | None:
        name = ""
        while True:
            char = self._next()
            if char == "]":
                return name.lower() or None
            if char in ("", "\n"):
                return None
            if char in _SPACE:
                return self._subsection(name.lower())
            if not (char.isascii() and (char.isalnum() or char in "-.")):
                return None
            name += char

    def _subsection(self, section: str) -> str | None:
        char = " "
        while char != '"':
            if char in ("", "\n") or char not in _SPACE:
                return None
            char = self._next()
        name = ""
        while True:
            char = self._next()
            if char in ("", "\n"):
                return None
            if char == '"':
                break
            name += self._next() if char == "\\" else char
        return f"{section}.{name}" if self._next() == "]" else None

    def _setting(self, first: str) -> Setting | None:
        key = first
        char = self._next()
        while char.isascii() and (char.isalnum() or char == "-"):
            key += char
            char = self._next()
        while char in (" ", "\t"):
            char = self._next()
        name = f"{self._section}.{key.lower()}"
        if char in ("\n", ""):
            return name, None
        if char != "=":
            return None
        value = self._value()
        return None if value is None else (name, value)

    def _value(self) -> str | None:
        value, quoted, comment, space = "", False, False, ""
        while True:
            char = self._next()
            if char in ("\n", ""):
                return None if quoted else value
            if comment:
                continue
            if char in _SPACE and not quoted:
                space += char if value else ""
                continue
            if not quoted and char in "#;":
                comment = True
                continue
            value, space = value + space, ""
            if char == "\\":
                char = self._next()
                if char in ("\n", ""):  # git reads a line's end where the text ends
                    continue
                if char not in ("t", "b", "n", "\\", '"'):
                    return None
                value += {"t": "\t", "b": "\b", "n": "\n"}.get(char, char)
            elif char == '"':
                quoted = not quoted
            else:
                value += char


def settings(text: str) -> list[Setting]:
    """Return the settings of a text in their order, up to where git would stop with an error."""
    return list(_Reader(text).settings())


def read(text: str) -> tuple[list[Setting], bool]:
    """Return the settings of a text, and whether git would read it to its end."""
    reader = _Reader(text)
    found = list(reader.settings())
    return found, reader.whole


def added(before: str | None, after: str | None, patterns: Iterable[str]) -> list[str]:
    """Return the names of settings that match a pattern and were added or got another value."""
    old = settings(before or "")
    found = []
    wanted = tuple(patterns)
    for name, value in settings(after or ""):
        if (name, value) in old:
            continue
        lower = name.lower()
        if lower == "core.fsmonitor" and value in _BOOLEANS:
            continue  # git's own monitor, or none
        runs = re.fullmatch(r"remote\..*\.(?:push)?url", lower) and RUNS.match(value or "")
        if runs or fits(name, wanted):
            found.append(name)
    return list(dict.fromkeys(found))


def fits(name: str, patterns: Iterable[str]) -> bool:
    """Whether a setting is one of some patterns (`section.*.key`, in lower case)."""
    key, wanted = name.lower(), tuple(patterns)
    return _fits(key, wanted) if len(key) <= _USUAL else _one_fits(key, wanted)


def _one_fits(key: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(key, pattern) for pattern in patterns)


_fits = lru_cache(maxsize=4096)(_one_fits)
"""The same few settings are asked about at each call that writes."""
