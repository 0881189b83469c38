# SPDX-License-Identifier: Apache-2.0
"""How much an agent may do before it is paused or stopped by itself. Pure: time is an argument.

All limits are off unless the settings set them. What a sub-agent does counts for every agent above
it too, so that no agent gains by handing its work on.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from policy.autonomy.agent_globs import names_agent
from sandbox.config.budgets import AgentBudget, BudgetSettings, Then
from sandbox.host.latch import above

MIB = 1024 * 1024
MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class Exceeded:
    """A budget that is used up."""

    agent: str
    why: str
    then: Then
    until: float
    """When a pause ends, in the caller's time."""


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """What one call used."""

    failed: bool = False
    denied: bool = False
    output_bytes: int = 0
    changed_bytes: int = 0


@dataclass(slots=True)
class _Spent:
    """What an agent has used since its budgets began."""

    calls: deque[float] = field(default_factory=deque)
    seconds: float = 0.0
    failures: int = 0
    denials: int = 0
    output: int = 0
    changed: int = 0


class Budgets:
    """What each agent has used, against what it may."""

    def __init__(self, settings: BudgetSettings) -> None:
        self._settings = settings
        self._off = settings == BudgetSettings()
        self._spent: dict[str, _Spent] = {}

    def begin(self, agent: str, *, now: float) -> Exceeded | None:
        """Count a call that is about to be made."""
        for _, spent in self._each(agent):
            spent.calls.append(now)
            while spent.calls[0] <= now - MINUTE:
                spent.calls.popleft()
        return self._look(agent, now)

    def end(self, agent: str, use: BudgetUse, *, now: float) -> Exceeded | None:
        """Count what a call used that has ended."""
        for _, spent in self._each(agent):
            spent.output += use.output_bytes
            spent.changed += use.changed_bytes
            spent.denials = spent.denials + 1 if use.denied else 0
            if not use.denied:
                spent.failures = spent.failures + 1 if use.failed else 0
        return self._look(agent, now)

    def ran(self, agent: str, seconds: float) -> None:
        """Count how long a call of an agent ran."""
        for _, spent in self._each(agent):
            spent.seconds += seconds

    def tick(self, running: Iterable[tuple[str, float]], *, now: float) -> Iterator[Exceeded]:
        """Yield budgets that calls which run now have used up: (agent, when it began)."""
        if self._off:
            return
        since: dict[str, float] = {}
        for agent, began in running:
            for name in above(agent):
                since[name] = since.get(name, 0.0) + now - began
        for name, seconds in since.items():
            exceeded = self._over(name, self._spent.get(name, _Spent()), now, seconds)
            if exceeded is not None:
                self.forget(name)
                yield exceeded

    def forget(self, agent: str) -> None:
        """Let an agent's budgets begin anew."""
        self._spent.pop(agent, None)

    def uses(self) -> dict[str, list[str]]:
        """Return what each agent that did anything has used of its budgets, in words."""
        return {
            name: [f"{_shown(used)} of {most:g} {what}" for most, used, what in found]
            for name, spent in self._spent.items()
            if (found := [row for one in self._of(name) for row in _rows(one, spent, 0.0)])
        }

    def _of(self, agent: str) -> list[AgentBudget]:
        fits = [one for glob, one in self._settings.agents.items() if names_agent(glob, agent)]
        return [self._settings.everybody, *fits]

    def _each(self, agent: str) -> Iterator[tuple[str, _Spent]]:
        if not self._off:
            for name in above(agent):
                yield name, self._spent.setdefault(name, _Spent())

    def _look(self, agent: str, now: float) -> Exceeded | None:
        for name, spent in self._each(agent):
            if (found := self._over(name, spent, now, 0.0)) is not None:
                self.forget(name)
                return found
        return None

    def _over(self, agent: str, spent: _Spent, now: float, running: float) -> Exceeded | None:
        for budget in self._of(agent):
            why = _why(budget, spent, running)
            if why:
                return Exceeded(agent, why, budget.then, now + budget.pause_seconds)
        return None


def _shown(number: float) -> str:
    """Return a number for a person, rounded up: what passes a limit must not look like it."""
    return f"{math.ceil(number * 100) / 100:.10g}"


def _why(budget: AgentBudget, spent: _Spent, running: float) -> str:
    """Return which limit is passed, in words, or nothing."""
    for most, used, what in _amounts(budget, spent, running):
        if most is not None and used > most:
            return f"it used {_shown(used)} {what}, and {most:g} are its budget"
    for most, used, what in _in_a_row(budget, spent):
        if most is not None and used >= most:
            return f"{used} calls in a row {what}, and {most} are its budget"
    return ""


def _amounts(
    budget: AgentBudget, spent: _Spent, running: float
) -> tuple[tuple[float | None, float, str], ...]:
    return (
        (budget.calls_per_minute, len(spent.calls), "calls within a minute"),
        (budget.running_seconds, spent.seconds + running, "seconds of running time"),
        (budget.output_mib, spent.output / MIB, "MiB of output"),
        (budget.changed_mib, spent.changed / MIB, "MiB of changed files"),
    )


def _in_a_row(budget: AgentBudget, spent: _Spent) -> tuple[tuple[int | None, int, str], ...]:
    return (
        (budget.failures_in_a_row, spent.failures, "failed"),
        (budget.denials_in_a_row, spent.denials, "were refused"),
    )


def _rows(budget: AgentBudget, spent: _Spent, running: float) -> Iterator[tuple[float, float, str]]:
    """Yield the limits that are set: how much, how much is used, and of what."""
    amounts = _amounts(budget, spent, running)
    runs = [
        (most, used, f"calls in a row that {what}") for most, used, what in _in_a_row(budget, spent)
    ]
    for most, used, what in (*amounts, *runs):
        if most is not None:
            yield most, used, what
