# SPDX-License-Identifier: Apache-2.0
"""Levels of autonomy: GREEN, YELLOW, RED per category, user and agent (autonomy-levels.md).

Pure: which level counts, not what is done about it. A level is configured per user ("Per-User
Autonomy Config") and tightened per type of agent ("Per-Agent-Type Overrides"); an action that no
category covers is judged by its effects ("Decision Tree" and "Uncertainty Handling").

INVARIANT (P7, levels): what an agent's type says, and what a tightening file says, can only make a
level stricter; only a user's own words may lower one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

from policy.autonomy.categories import (
    LEVELS,
    VERDICTS,
    Categories,
    Category,
    Level,
    key,
    strictest_level,
)
from policy.autonomy.levels_schema import AgentLevels, LevelsFile, QuietHours, UserLevels
from policy.model import Frozen, Verdict
from policy.values import strict_yaml
from policy.values.strict_yaml import PolicyError

__all__ = [
    "AgentLevels",
    "Category",
    "Level",
    "LevelAnswer",
    "LevelEffects",
    "Levels",
    "LevelsFile",
    "QuietHours",
    "UserLevels",
    "classify_unknown",
    "score",
    "tree",
]

_Said = tuple[dict[str, Level], dict[str, Level]]
"""What a file says of a user: the levels of its lists, and those of its overrides."""


class LevelEffects(Frozen):
    """What is known of an action that no category covers; what is not given counts as the worse."""

    external: bool = True
    irreversible: bool = True
    important_state: bool = True
    financial: bool = True
    reputational: bool = True
    data_loss: bool = True


WEIGHTS = {"external": 2, "irreversible": 2, "financial": 3, "reputational": 2, "data_loss": 2}
"""The weights of "Uncertainty Handling"."""
RED_FROM = 3
YELLOW_FROM = 1


class LevelAnswer(Frozen):
    """Which level counts for an action, and why."""

    level: Level
    why: str
    categories: tuple[str, ...] = ()
    escalate: bool = False
    """The level lies above what this agent may do at all: its parent must ask for it."""

    @property
    def verdict(self) -> Verdict:
        """What the level means for gate 1."""
        return Verdict.ASK if self.escalate else VERDICTS[self.level]


def tree(effects: LevelEffects) -> Level:
    """Return the level by the decision tree."""
    if effects.external:
        return Level.RED if effects.irreversible else Level.YELLOW
    return Level.YELLOW if effects.important_state else Level.GREEN


def score(effects: LevelEffects) -> int:
    """Return the sum of the weights of what is true."""
    return sum(weight for name, weight in WEIGHTS.items() if getattr(effects, name))


def classify_unknown(effects: LevelEffects) -> LevelAnswer:
    """Return the level of an action that no category covers: the stricter of tree and score."""
    total = score(effects)
    scored = Level.RED if total >= RED_FROM else Level.YELLOW if total >= YELLOW_FROM else None
    by_tree, by_score = tree(effects), scored or Level.GREEN
    return LevelAnswer(
        level=strictest_level((by_tree, by_score)),
        why=f"no category covers it: {by_tree.value} by its effects, {by_score.value} by its score"
        f" of {total}",
    )


class Levels:
    """Everything that the level layer knows; built once, then only read."""

    def __init__(
        self, files: Sequence[LevelsFile], *, tightening: Sequence[LevelsFile] = ()
    ) -> None:
        """Take the built-in file, then users' own, whose words count; then those that may only
        tighten. Raises PolicyError for a category that does not exist or is listed twice."""
        first, *rest = files
        self._files, self._tightening = tuple(files), tuple(tightening)
        own: dict[str, Category] = {}
        for file in (*rest, *tightening):
            own |= {key(name): one for name, one in file.categories.items()}
        self.categories = Categories(first.categories, own)
        known = (*files, *tightening)
        self._users = [self._read(file) for file in files]
        self._tight = [self._read(file) for file in tightening]
        self._agents = [
            (name.casefold(), self._keyed(f"agent `{name}`", one.levels.items()), one.max_level)
            for file in known
            for name, one in file.agent_overrides.items()
        ]
        self._types = {k: v for file in known for k, v in file.agent_types.items()}

    @staticmethod
    @lru_cache(maxsize=1)
    def default() -> Levels:
        """Return the levels that come with the package."""
        return Levels([strict_yaml.default(LevelsFile, "levels.yaml")])

    def extended(self, file: LevelsFile) -> Levels:
        """Return the levels with a user's own file, whose words count."""
        return Levels([*self._files, file], tightening=self._tightening)

    def tightened(self, file: LevelsFile) -> Levels:
        """Return the levels with a file that can only make them stricter."""
        return Levels(self._files, tightening=[*self._tightening, file])

    def user(self, name: str) -> UserLevels:
        """Return what the files say of a user: channel and quiet hours fall back on `default`."""
        whom = dict.fromkeys(("default", name))
        own_levels = [file.users[who] for who in whom for file in self._files if who in file.users]
        return UserLevels(
            **{
                field: getattr(levels, field)
                for levels in own_levels
                for field in levels.model_fields_set
            }
        )

    def channels(self) -> dict[str, str]:
        """Return the escalation channel of each user whom a file names."""
        users = sorted({who for file in self._files for who in file.users})
        said = {who: self.user(who).escalation_channel for who in users}
        return {who: channel for who, channel in said.items() if channel}

    def override(self, category: str, user: str) -> Level | None:
        """Return the level that the user's overrides give a category, if they name it."""
        level: Level | None = None
        for _, overrides in self._said(self._users, user):
            level = overrides.get(category, level)
        return level

    def level_of(
        self,
        action: str,
        user: str = "default",
        agent: str = "main",
        effects: LevelEffects | None = None,
    ) -> LevelAnswer:
        """Return the level of an action, or of a category in any spelling, for a user's agent."""
        return self.level_of_all(self.categories.of_action(action), user, agent, effects)

    def level_of_all(
        self,
        categories: Iterable[str],
        user: str = "default",
        agent: str = "main",
        effects: LevelEffects | None = None,
    ) -> LevelAnswer:
        """Return the strictest level of some categories; none at all is an unknown action."""
        names = sorted(categories)
        if not names:
            return self._bounded(classify_unknown(effects or LevelEffects()), agent)
        each = {name: self._level(name, user, agent) for name in names}
        level = strictest_level(each.values())
        titles = ", ".join(self.categories.title(n) for n in names if each[n] is level)
        why = f"{titles}: {level.value} for `{user}`"
        return self._bounded(LevelAnswer(level=level, why=why, categories=tuple(names)), agent)

    @staticmethod
    def _said(files: Iterable[Mapping[str, _Said]], user: str) -> Iterable[_Said]:
        """Yield what files say of everybody, then what they say of one user."""
        whom = dict.fromkeys(("default", user))
        return (file[who] for who in whom for file in files if who in file)

    def _bounded(self, answer: LevelAnswer, agent: str) -> LevelAnswer:
        most = self.max_level(agent)
        if LEVELS.index(answer.level) <= LEVELS.index(most):
            return answer
        why = f"{answer.why}; `{agent}` may at most do {most.value}, its parent must ask for it"
        return answer.model_copy(update={"why": why, "escalate": True})

    def max_level(self, agent: str) -> Level:
        """Return the highest level that an agent may act at."""
        limits = [most for name, _, most in self._agents if most and self._is(agent, name)]
        return min(limits, key=LEVELS.index, default=Level.RED)

    def _level(self, category: str, user: str, agent: str) -> Level:
        level = self.categories.level(category)
        for listed, overrides in self._said(self._users, user):
            level = overrides.get(category, listed.get(category, level))
        found = [level]
        for both in self._said(self._tight, user):
            found += [one[category] for one in both if category in one]
        found += [
            levels[category]
            for name, levels, _ in self._agents
            if category in levels and self._is(agent, name)
        ]
        return strictest_level(found)

    def _is(self, agent: str, pattern: str) -> bool:
        """Whether an agent is of a type: its name, its type, or anything below it.

        What is below another agent (`main:sub:7`) counts by each part of its path, and by those
        above it: what a pattern says of one, it says of all that work for it (P7).
        """
        parts = agent.casefold().split(":")
        for at, head in enumerate(parts):
            kind = self._types.get(head)
            for end in range(at + 1, len(parts) + 1):
                rest = parts[at + 1 : end]
                firsts = (head,) if kind is None else (head, kind)
                names = [":".join((first, *rest)) for first in firsts]
                if pattern in names or any(fnmatchcase(name, pattern) for name in names):
                    return True
        return False

    def _read(self, file: LevelsFile) -> dict[str, _Said]:
        return {
            name: (
                self._keyed(f"user `{name}`", one.listed()),
                self._keyed(f"user `{name}`: overrides", one.overrides.items()),
            )
            for name, one in file.users.items()
        }

    def _keyed(self, where: str, levels: Iterable[tuple[str, Level]]) -> dict[str, Level]:
        found: dict[str, Level] = {}
        for name, level in levels:
            try:
                category = self.categories.required(name)
            except PolicyError as error:
                raise PolicyError(f"{where}: {error}") from None
            if found.setdefault(category, level) is not level:
                raise PolicyError(
                    f"{where}: `{name}` is both {found[category].value} and {level.value}; keep one"
                )
        return found
