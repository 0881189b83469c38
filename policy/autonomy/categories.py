# SPDX-License-Identifier: Apache-2.0
"""Put actions and calls into the categories of autonomy-levels.md ("Level Definitions").

A category's name, what belongs to it and its level when nobody configures one are data
(`defaults/levels.yaml`). Which level counts for whom is `levels`' business.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from functools import lru_cache

from policy.facts import WRITES, Facts
from policy.model import Frozen, LayerAnswer, Verdict
from policy.values.paths import canonical
from policy.values.strict_yaml import PolicyError


class Level(str, Enum):
    """The three autonomy levels, from the mildest to the strictest."""

    GREEN = "green"
    """Do without asking."""
    YELLOW = "yellow"
    """Do and report."""
    RED = "red"
    """Ask first."""


LEVELS = tuple(Level)
VERDICTS = {Level.GREEN: Verdict.ALLOW, Level.YELLOW: Verdict.REPORT, Level.RED: Verdict.ASK}

_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_BETWEEN = re.compile(r"[^a-z0-9*]+")
_PROGRAM = re.compile(r"`([^`]+)`")
_MOST_NAME = 200


def strictest_level(levels: Iterable[Level]) -> Level:
    """Return the strictest level; no level at all means RED."""
    return max(levels, key=LEVELS.index, default=Level.RED)


@lru_cache(maxsize=4096)
def key(name: str) -> str:
    """Return a name in the form in which names are compared: `Git Operations`, `git_operations`."""
    spaced = _CAPITAL.sub("_", name[:_MOST_NAME]).casefold()
    return _BETWEEN.sub("_", spaced).strip("_")


class Category(Frozen):
    """What belongs to a category; the file `levels.yaml` says what each field means."""

    titles: tuple[str, ...] = ()
    level: Level
    actions: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CategoryMatch:
    """One answer of the tier layer, and the categories that it belongs to (none: unknown)."""

    answer: LayerAnswer
    categories: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Index:
    """Which categories a field of the file names, per value."""

    rules: Mapping[str, frozenset[str]]
    programs: Mapping[str, frozenset[str]]
    otherwise: Mapping[str, frozenset[str]]
    tools: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, categories: Mapping[str, Category]) -> _Index:
        """Return the index of some categories."""
        return cls(**{field: _by(categories, field) for field in cls.__slots__})


def _by(categories: Mapping[str, Category], field: str) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for name, one in categories.items():
        for value in getattr(one, field):
            found.setdefault(value, set()).add(name)
    return {value: frozenset(names) for value, names in found.items()}


class Categories:
    """The built-in categories, and those that a user adds.

    INVARIANT (P7, categories): a user's category is added to the built-in ones that an action
    belongs to and never takes their place, so that adding one can only tighten.
    """

    def __init__(self, built_in: Mapping[str, Category], own: Mapping[str, Category]) -> None:
        """Raises PolicyError where a user's category has the name of a built-in one."""
        self._built_in = {key(name): one for name, one in built_in.items()}
        self._own = {key(name): one for name, one in own.items()}
        names = {key(title): name for name, one in self._built_in.items() for title in one.titles}
        names |= {name: name for name in self._built_in}
        for name, one in self._own.items():
            for spelling in dict.fromkeys((name, *map(key, one.titles))):
                if spelling in names:
                    raise PolicyError(f"category `{spelling}` exists already; use another name")
                names[spelling] = name
        self._names = names
        self._all = self._built_in | self._own
        files = _by(self._all, "files")
        self._files = {canonical(name): found for name, found in files.items()}
        self._index, self._own_index = _Index.of(self._built_in), _Index.of(self._own)

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def named(self, name: str) -> str | None:
        """Return the category of a name in any spelling (`git`, `Git Operations`), or None."""
        return self._names.get(key(name))

    def required(self, name: str) -> str:
        """Return the category of a name. Raises PolicyError where there is none."""
        found = self.named(name)
        if found is None:
            raise PolicyError(f"`{name}` is not a category; use one of {', '.join(self._all)}")
        return found

    def level(self, category: str) -> Level:
        """Return the level that the document's tables give a category."""
        return self._all[category].level

    def title(self, category: str) -> str:
        """Return the name of a category as the document's tables write it."""
        return next(iter(self._all[category].titles), category)

    def of_action(self, action: str) -> frozenset[str]:
        """Return the categories that a name of an action or of a category belongs to."""
        name = key(action)
        if name in self._names:
            return frozenset((self._names[name],))
        weights = {c: _weight(one, action, name) for c, one in self._built_in.items()}
        most = max(weights.values(), default=0)
        own = {c for c, one in self._own.items() if _weight(one, action, name)}
        return frozenset({c for c, weight in weights.items() if weight and weight == most} | own)

    def of_call(
        self, tool: str, facts: Facts, said: Iterable[LayerAnswer]
    ) -> tuple[CategoryMatch, ...]:
        """Return the categories of each answer that the tier layer gave on a call."""
        filed, none = self._of_files(facts), frozenset[str]()
        return tuple(
            CategoryMatch(
                answer, self._of_answer(tool, answer) | (filed if answer.rule == "write" else none)
            )
            for answer in said
        )

    def _of_answer(self, tool: str, answer: LayerAnswer) -> frozenset[str]:
        plain = _get(self._index.tools, tool)
        own = _get(self._own_index.tools, tool) | _every(self._own_index, answer)
        if answer.rule == "unknown-tool":
            # what its server or its agent calls it; `mcp__SERVER__TOOL` ends in the tool's own name
            return (plain or self.of_action(tool) | self.of_action(_last(tool))) | own
        if answer.verdict is Verdict.ALLOW:
            return plain | own
        found = _get(self._index.rules, answer.rule)
        # what a listed program does is of its category as well: `twine` publishes
        found = found | _named(self._index, answer) if found else _by_program(self._index, answer)
        if answer.verdict is Verdict.REPORT:
            # a RED category describes what the tiers call DANGER or FORBIDDEN
            found = frozenset(c for c in found if not self._is_red(c)) or plain
        return found | own

    def _is_red(self, category: str) -> bool:
        return self._all[category].level is Level.RED

    def _of_files(self, facts: Facts) -> frozenset[str]:
        names = {
            canonical(part)
            for touch in facts.touches
            if touch.how in WRITES
            for part in touch.path.split("/")
        }
        found = [self._files[name] for name in names & self._files.keys()]
        return frozenset().union(*found)


def _last(tool: str) -> str:
    """Return the own name of a tool of an MCP server."""
    return tool.rpartition("__")[2]


def _weight(category: Category, action: str, name: str) -> int:
    """Return how exactly a category names an action; 0 is not at all."""
    fits = [len(p.replace("*", "")) for p in category.actions if fnmatchcase(name, p)]
    return max([*fits, len(name) if action in category.tools else 0])


def _get(index: Mapping[str, frozenset[str]], value: str) -> frozenset[str]:
    return index.get(value, frozenset())


def _by_program(index: _Index, answer: LayerAnswer) -> frozenset[str]:
    """Return the categories of the program that an answer begins with, or of the answer's rule."""
    generic = _get(index.otherwise, answer.rule)
    if not generic:
        return generic
    return _named(index, answer) or generic


def _named(index: _Index, answer: LayerAnswer) -> frozenset[str]:
    named = _PROGRAM.match(answer.reason)
    if named is None:
        return frozenset()
    program = named[1].strip()
    return _get(index.programs, program) or _get(index.programs, program.split(" ")[0])


def _every(index: _Index, answer: LayerAnswer) -> frozenset[str]:
    """Return every category that names an answer in any way."""
    return (
        _get(index.rules, answer.rule) | _get(index.otherwise, answer.rule) | _named(index, answer)
    )
