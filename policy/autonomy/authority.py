# SPDX-License-Identifier: Apache-2.0
"""Who asks, and what that changes: the level, mode, trust and role layers of gate 1 together.

Pure. What a call is, `tiers` says; here it is looked at who wants it. A user's explicit override
of a category (autonomy-levels.md, `overrides`) lowers what the tier layer reports or asks about in
that category; nothing else is ever lowered: not FORBIDDEN, not a rule, not a place, not a role.

Answers are remembered per set of layers, since the same few are given all day.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from policy.autonomy.categories import LEVELS, VERDICTS, CategoryMatch, strictest_level
from policy.autonomy.levels import LevelAnswer, Levels, LevelsFile
from policy.autonomy.modes import Mode, ModesFile
from policy.autonomy.reputation import Domain, TrustLevel, lower, rank
from policy.autonomy.roles import Roles, RolesFile
from policy.autonomy.trust import LANDINGS, TrustFile
from policy.facts import Facts
from policy.model import (
    ActionPlan,
    Context,
    Frozen,
    Landing,
    LayerAnswer,
    Rights,
    Tier,
    Verdict,
    strictest,
)
from policy.rules import tiers
from policy.values import strict_yaml

LAYERS = ("role", "trust", "mode", "level")
"""The layers of this module; a layer of the call itself speaks first where both say the same."""

ESCALATION = "level-escalation"
"""The rule that sends a call to the agent's parent (autonomy-levels.md, "Escalation")."""

FileT = TypeVar("FileT", bound=Frozen)
_ORDER = tuple(Verdict)
_MODES = tuple(Mode)
_BY_NAME = "tools"
_BY_NAME_ALONE = frozenset(
    ("messages", "external_api", "cron", "notifications", "canvas", "spawn", "memory", "research")
)
"""Categories whose actions a tool's name tells; what touches files or runs commands is judged by
its paths and texts, which are not known of such a tool."""
_LOSES = re.compile(
    r"(?i)delet|remov|drop|purge|destroy|wipe|erase|reset|revoke|cancel|kill|truncat|install|exec"
)
_OBJECTION = "objection_seconds"
_FILES: dict[tuple[str, type[Frozen]], tuple[str, ...]] = {
    ("levels", LevelsFile): ("levels.yaml", "autonomy.yaml"),
    ("modes", ModesFile): ("modes.yaml",),
    ("trust", TrustFile): ("trust.yaml",),
    ("roles", RolesFile): ("roles.yaml",),
}
"""A user's own files; of several names for one part only one may be there."""
_NAMED = LayerAnswer(
    layer="level", verdict=Verdict.ALLOW, reason="the policy says what the tool may do, by its name"
)


@dataclass(frozen=True, eq=False)
class AutonomyLayers:
    """Everything that gate 1 knows of users, agents, modes and roles; built once."""

    levels: Levels
    modes: ModesFile
    trust: TrustFile
    roles: Roles
    limits: tuple[TrustFile, ...] = ()
    """Files that may only lower a level of trust."""

    @staticmethod
    @lru_cache(maxsize=1)
    def default() -> AutonomyLayers:
        """Return what comes with the package: full trust for `main`, no role, no confirmation."""
        return AutonomyLayers(
            Levels.default(), ModesFile.default(), TrustFile.default(), Roles.default()
        )

    def with_folder(self, folder: Path) -> AutonomyLayers:
        """Return the layers with a user's own files, as far as the folder holds them: levels.yaml
        (or autonomy.yaml), modes.yaml, trust.yaml, roles.yaml. Raises PolicyError."""
        autonomy = self
        for (part, model), names in _FILES.items():
            file = strict_yaml.find(model, folder, *names)
            if file is not None:
                content: Any = file.content
                try:
                    autonomy = autonomy.extended(**{part: content})
                except strict_yaml.PolicyError as error:
                    raise file.refused(error) from None
        return autonomy

    def extended(
        self,
        *,
        levels: LevelsFile | None = None,
        modes: ModesFile | None = None,
        trust: TrustFile | None = None,
        roles: RolesFile | None = None,
    ) -> AutonomyLayers:
        """Return the layers with a user's own files, whose words count."""
        return replace(
            self,
            levels=self.levels.extended(levels) if levels else self.levels,
            modes=_updated(self.modes, modes),
            trust=_trusting(self.trust, trust),
            roles=self.roles.extended(roles) if roles else self.roles,
        )

    def tightened(
        self,
        *,
        levels: LevelsFile | None = None,
        modes: ModesFile | None = None,
        trust: TrustFile | None = None,
        roles: RolesFile | None = None,
    ) -> AutonomyLayers:
        """Return the layers with files that can only make it stricter."""
        mode = self.modes.mode
        if modes is not None:
            mode = min(mode, modes.mode, key=_MODES.index)
        return replace(
            self,
            levels=self.levels.tightened(levels) if levels else self.levels,
            modes=self.modes.model_copy(update={"mode": mode}),
            limits=(*self.limits, trust) if trust else self.limits,
            roles=self.roles.extended(roles) if roles else self.roles,
        )

    def judge(
        self,
        plan: ActionPlan,
        facts: Facts,
        judged: Sequence[LayerAnswer],
        others: Sequence[LayerAnswer],
        context: Context,
    ) -> tuple[list[LayerAnswer], Landing]:
        """Return all answers on a call, the tier layer's as the user's overrides leave them, and
        how its changes land. `judged` is the tier layer's word, `others` what rules and places say.
        """
        matches = self.levels.categories.of_call(plan.tool, facts, judged)
        matches = tuple(self._claimed(match, plan) for match in matches)
        layer_answers = [*self.lowered(matches, plan.user), *others]
        worst = strictest(match.answer.verdict for match in matches)
        # what the policy says of a tool by name needs no category
        names = frozenset(match.categories for match in matches if match.answer.rule != _BY_NAME)
        layer_answers.append(_level(self, names, plan.user, plan.agent, worst) if names else _NAMED)
        background = plan.params.run_in_background
        base = strictest(layer_answer.verdict for layer_answer in layer_answers)
        layer_answers.append(_mode(self, plan.tool, base, background=background))
        domain, current = self._trusted(matches, plan.agent, context)
        tier = tiers.tier([*judged, *others])
        layer_answers.append(_trust(self, plan.agent, domain, tier, current))
        layer_answers += self.roles.answers(plan, facts, judged, context)[0]
        return layer_answers, LANDINGS[current]

    def _claimed(self, match: CategoryMatch, plan: ActionPlan) -> CategoryMatch:
        """Return the answer on a tool that nobody knows as its category's level leaves it, where
        the tables of autonomy-levels.md name an action like it; a RED one is asked about."""
        if match.answer.rule != "unknown-tool" or not match.categories:
            return match
        if ":" in plan.tool or _LOSES.search(plan.tool):
            return match
        if not match.categories <= _BY_NAME_ALONE:
            return match
        level = self.levels.level_of_all(match.categories, plan.user, plan.agent)
        if level.verdict is Verdict.ASK:
            return match
        reason = f"{match.answer.reason}, but its name is that of an action: {level.why}"
        changed = {"verdict": level.verdict, "reason": reason}
        return replace(match, answer=match.answer.model_copy(update=changed))

    def lowered(self, found: Iterable[CategoryMatch], user: str) -> list[LayerAnswer]:
        """Return the tier layer's answers, lowered where the user's overrides say so."""
        return [self._lowered(match, user) for match in found]

    def _lowered(self, match: CategoryMatch, user: str) -> LayerAnswer:
        answer = match.answer
        if answer.verdict in (Verdict.ALLOW, Verdict.DENY) or not match.categories:
            return answer
        levels = [self.levels.override(name, user) for name in match.categories]
        known = [one for one in levels if one is not None]
        if len(known) < len(levels):
            return answer
        level = strictest_level(known)
        if _ORDER.index(VERDICTS[level]) >= _ORDER.index(answer.verdict):
            return answer
        titles = ", ".join(
            self.levels.categories.title(category) for category in sorted(match.categories)
        )
        reason = f"{answer.reason} ({level.value} by the word of `{user}`: {titles})"
        return answer.model_copy(update={"verdict": VERDICTS[level], "reason": reason})

    def _trusted(
        self, found: Iterable[CategoryMatch], agent: str, context: Context
    ) -> tuple[Domain, TrustLevel]:
        """Return the domain of a call in which its agent is trusted least, and how far."""
        domains = {
            Domain.DEPLOYMENTS if "infra" in match.categories else Domain.CODE_CHANGES
            for match in found
            if match.answer.verdict is not Verdict.ALLOW
        } or {Domain.CODE_CHANGES}
        levels = [(rank(level), domain.value, domain, level) for domain in domains
                  for level in (self.trusted(agent, domain, context),)]  # fmt: skip
        _, _, domain, level = min(levels, key=lambda one: (one[0], -len(one[1])))
        return domain, level

    def trusted(self, agent: str, domain: Domain, context: Context) -> TrustLevel:
        """Return an agent's current level in a domain: what it earned, or where it starts."""
        return _current(self, agent, domain, context.trust)

    @property
    def objection_seconds(self) -> float:
        """How long changes that land unless somebody objects wait: the longest that a file says."""
        said = (
            limit.objection_seconds for limit in self.limits if _OBJECTION in limit.model_fields_set
        )
        return max((self.trust.objection_seconds, *said))

    def bounded(self, plan: ActionPlan, rights: Rights) -> Rights:
        """Return rights as the plan's role leaves them."""
        if plan.role is None:
            return rights
        role = self.roles.find(plan.role)
        return rights.meet(role.rights()) if role is not None else Rights()


@lru_cache(maxsize=4096)
def _level(
    autonomy: AutonomyLayers,
    found: frozenset[frozenset[str]],
    user: str,
    agent: str,
    said: Verdict,
) -> LayerAnswer:
    """Return the level layer's answer on categories that were found together; it decides, and so
    names a rule, only where it is stricter than what the tier layer said."""
    each = [autonomy.levels.level_of_all(names, user, agent) for names in found]
    worst = max(each, key=_strictness)
    decides = _ORDER.index(worst.verdict) > _ORDER.index(said)
    name = next(iter(worst.categories), "unknown")
    rule = ESCALATION if worst.escalate else f"level-{name}" if decides else ""
    return LayerAnswer(layer="level", verdict=worst.verdict, reason=worst.why, rule=rule)


@lru_cache(maxsize=4096)
def _current(
    autonomy: AutonomyLayers, agent: str, domain: Domain, earned: tuple[tuple[str, str], ...]
) -> TrustLevel:
    own = autonomy.trust.level(agent, domain, dict(earned))
    return lower([own, *(limit.most(agent, domain) for limit in autonomy.limits)])


@lru_cache(maxsize=1024)
def _mode(autonomy: AutonomyLayers, tool: str, base: Verdict, *, background: bool) -> LayerAnswer:
    return autonomy.modes.answer(tool, base, background=background)


@lru_cache(maxsize=4096)
def _trust(
    autonomy: AutonomyLayers, agent: str, domain: Domain, tier: Tier, current: TrustLevel
) -> LayerAnswer:
    return autonomy.trust.answer(agent, domain, tier, current)


def _strictness(answer: LevelAnswer) -> tuple[int, int, str]:
    return _ORDER.index(answer.verdict), LEVELS.index(answer.level), answer.why


def _trusting(file: TrustFile, own: TrustFile | None) -> TrustFile:
    """Return trust with a user's own words; where they say that an agent starts, is its level no
    longer pinned by what they are put on."""
    if own is None:
        return file
    pins = {name: level for name, level in file.pins.items() if name not in own.agents}
    return _updated(file.model_copy(update={"pins": pins}), own)


def _updated(file: FileT, own: FileT | None) -> FileT:
    """Return a file with what a user's own says in its place; mappings are joined."""
    if own is None:
        return file
    said = {name: getattr(own, name) for name in own.model_fields_set}
    joined = {
        name: {**getattr(file, name), **value} if isinstance(value, dict) else value
        for name, value in said.items()
    }
    return file.model_copy(update=joined)
