# SPDX-License-Identifier: Apache-2.0
"""Patterns of commands (`docker`, `gh pr create`, `kubectl *`, `git push --force`) against the
commands that a call runs.

The words of a pattern are the program and its first operands, each of which may hold `*` and `?`;
options may stand between them, with or without a value. A word of the pattern that begins with `-`
is an option that stands anywhere. A word of the call that cannot be known fits every word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Generic, TypeVar

from policy.facts import Facts
from policy.values.partial import globbed, pattern, unknown

RuleT = TypeVar("RuleT")
MOST_WORDS = 8
"""Words of a pattern."""
_VERSION = re.compile(r"(?<=[a-z])-?\d+(?:\.\d+)*$")
_WILD = re.compile(r"[*?]")


class ProgramIndex(Generic[RuleT]):
    """Rules, looked up by the program that their patterns begin with."""

    def __init__(self) -> None:
        self._plain: dict[str, list[tuple[tuple[str, ...], str, RuleT]]] = {}
        self._wild: list[tuple[tuple[str, ...], str, RuleT]] = []

    def add(self, text: str, rule: RuleT) -> None:
        """Look a rule up by a pattern."""
        words = tuple(text.split())
        if _WILD.search(words[0]):
            self._wild.append((words, text, rule))
        else:
            self._plain.setdefault(words[0], []).append((words, text, rule))

    def find(self, facts: Facts) -> Iterator[tuple[str, RuleT]]:
        """Yield the patterns that fit, with their rules."""
        if not self._plain and not self._wild:
            return
        for name in facts.programs:  # as the catalog reads it: `git -C sub push` is `git push`
            words = tuple(name.split(" "))
            for wanted, text, rule in self._of(words[0]):
                if len(wanted) == len(words) and all(map(fits, words[1:], wanted[1:])):
                    yield text, rule
        for call in facts.calls:
            for wanted, text, rule in self._of(call[0]):
                if len(wanted) > 1 and _spelled(call, wanted):
                    yield text, rule

    def _of(self, program: str) -> Iterator[tuple[tuple[str, ...], str, RuleT]]:
        base = program.rsplit("/", 1)[-1]
        names = dict.fromkeys((program, base, _VERSION.sub("", base)))
        for name in names:
            yield from self._plain.get(name, ())
        for one in self._wild:
            if any(fnmatchcase(name, one[0][0]) for name in names):
                yield one


def check_pattern(text: str) -> str:
    """Return a pattern of commands. Raises ValueError for one that fits nothing."""
    words = text.split()
    if not words or words[0].startswith("-"):
        raise ValueError(f"`{text}` names no program")
    if len(words) > MOST_WORDS:
        raise ValueError(f"`{text}` holds more than {MOST_WORDS} words")
    if any(len(_WILD.findall(word)) > MOST_WORDS for word in words):
        raise ValueError(f"`{text}` holds too many wildcards in one word")
    return text


def _spelled(call: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    options = [word for word in wanted[1:] if word.startswith("-")]
    operands = tuple(word for word in wanted[1:] if not word.startswith("-"))
    named = [one.partition("=")[0] for one in call[1:]]
    if not all(any(fits(one, option) for one in named) for option in options):
        return False
    return _operands(call, operands)


def _operands(call: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    """Whether the operands of a call begin with `wanted`, whichever options have a value."""
    places = {1}
    for one in wanted:
        found = set()
        for at in range(1, len(call)):
            if at not in places:
                continue
            if call[at].startswith("-") and len(call[at]) > 1:
                places.add(at + 1)
                if "=" not in call[at] and at + 2 < len(call):
                    places.add(at + 2)  # the option has a value
            elif fits(call[at], one):
                found.add(at + 1)
        places = found
    return bool(places)


@lru_cache(maxsize=4096)
def fits(word: str, wanted: str) -> bool:
    """Whether a word of a call, as far as it is known, can be a word of a pattern."""
    if unknown(word) or globbed(word):
        return bool(_WILD.search(wanted)) or bool(pattern(word).fullmatch(wanted))
    return word == wanted or fnmatchcase(word, wanted.replace("[", "[[]"))
