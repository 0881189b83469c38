# SPDX-License-Identifier: Apache-2.0
"""What gate 1 costs: medians of `decide` over everyday commands, for `make bench`.

Warm: the catalog is loaded, each command was decided before, the second reading runs.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from policy.gate1.decide import Policy, apply_second_reading, decide, wants_second_opinion
from policy.model import ActionPlan, Context, Params, Tier, Workspace
from policy.rules.matching import Check, Checks, CommandRule, PolicyFile, Rule, Triggers
from sandbox.gates.second_opinion import SecondOpinion

ROUNDS = 15
MORE_RULES = 1000
TARGETS_US = {"alone": 150.0, "second": 500.0, "more rules": 1000.0}
"""Microseconds: at most this without and with the second reading, and this much more with
a thousand rules."""
_HERE = "/workspace"
_CONTEXT = Context(workspaces=(Workspace(_HERE),), home="/home/user")
EVERYDAY = (
    "ls -la",
    "cat README.md",
    "git status",
    "git diff HEAD~1 -- src",
    "git log --oneline -20",
    "git add -A && git commit -m 'fix: the parser'",
    "rg -n 'def main' src",
    "grep -rn TODO . | head -50",
    "find . -name '*.py' -not -path './.venv/*'",
    "sed -n 1,80p src/app.py",
    "wc -l src/*.py",
    "pytest -q tests/test_app.py",
    "python -m pytest -x -q",
    "make test",
    "npm run build",
    "cargo check",
    "go test ./...",
    "mkdir -p build && cp -r assets build/",
    "echo 'done' > build/stamp.txt",
    "sed -i 's/old/new/' src/app.py",
    "jq .version package.json",
    "cd src && python app.py --help",
    "diff -u a.txt b.txt || true",
    "tar czf build/out.tgz dist",
    "echo $(git rev-parse HEAD) > build/revision",
    "for f in src/*.py; do head -1 \"$f\"; done",
    "cat <<'EOF' > notes.md\n# Notes\n\nrm -rf is only text here\nEOF",
    "test -f .env.example && cp .env.example config.txt",
    "python3 -c 'import json; print(json.load(open(\"package.json\"))[\"name\"])'",
    "ls | sort | uniq -c | sort -rn | head",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cost:
    """What one answer costs, in microseconds, over the everyday commands."""

    median: float
    p95: float
    answers: int


@dataclass(frozen=True, slots=True)
class Times:
    """What gate 1 costs."""

    alone: Cost
    """`decide` by itself."""
    fresh: Cost
    """`decide` in a workspace that it has not seen before, so that it remembers no path."""
    second: Cost
    """With the second reading, as a call meets it."""
    more_rules: Cost
    """With a thousand more rules, without the second reading."""


def decide_times(rounds: int = ROUNDS) -> Times:
    """Measure gate 1. Starts the second reading and ends it."""
    policy, many = Policy.default(), with_rules(Policy.default(), MORE_RULES)
    plans = [_plan(command) for command in EVERYDAY]
    with SecondOpinion() as opinion:
        opinion.wait_ready()

        def twice(plan: ActionPlan, number: int) -> None:
            wanted = wants_second_opinion(plan, policy)
            question = opinion.ask(plan.params.command or "") if wanted else None
            decision = decide(plan, _CONTEXT, policy)
            if decision.allowed:
                apply_second_reading(decision, opinion.wait(question) or (), policy)

        places = [f"{_HERE}-{number}" for number in range(rounds + 1)]
        contexts = [Context(workspaces=(Workspace(one),), home="/home/user") for one in places]
        elsewhere = {
            (command, number): _plan(command, place)
            for command in EVERYDAY
            for number, place in enumerate(places)
        }

        def fresh(plan: ActionPlan, number: int) -> None:
            asked = elsewhere[plan.params.command or "", number]
            decide(asked, contexts[number], policy)

        return Times(
            alone=_cost(plans, lambda plan, _: decide(plan, _CONTEXT, policy), rounds),
            fresh=_cost(plans, fresh, rounds),
            second=_cost(plans, twice, rounds),
            more_rules=_cost(plans, lambda plan, _: decide(plan, _CONTEXT, many), rounds),
        )


def with_rules(policy: Policy, count: int) -> Policy:
    """Return a policy with this many more rules, half on files and half on programs."""
    rules = []
    for number in range(count // 2):
        patterns = (f"generated/module{number}/**", f"*.gen{number}")
        check = Check(id="no-writes", writes=patterns, decision="deny")
        rules.append(
            Rule(
                id=f"files-{number}",
                name=f"Files {number}",
                triggers=Triggers(file_patterns=patterns),
                enforcement=Checks(checks=(check,)),
            )
        )
    commands = [
        CommandRule(
            id=f"program-{number}",
            programs=(f"program{number} deploy",),
            tier=Tier.DANGER,
            because="it is measured",
            match=(f"program{number} deploy",),
        )
        for number in range(count - len(rules))
    ]
    return policy.tightened(PolicyFile(rules=tuple(rules), commands=tuple(commands)))


def _plan(command: str, place: str = _HERE) -> ActionPlan:
    return ActionPlan(tool="Bash", params=Params(command=command), workspace=place, cwd=place)


def _cost(plans: list[ActionPlan], work: Callable[[ActionPlan, int], object], rounds: int) -> Cost:
    """Return what work on a plan costs, given the number of its round; the first is not counted."""
    found = []
    for plan in plans:
        work(plan, 0)
        each = []
        for number in range(1, rounds + 1):
            began = time.perf_counter()
            work(plan, number)
            each.append((time.perf_counter() - began) * 1e6)
        found.append(statistics.median(each))
    found.sort()
    return Cost(statistics.median(found), found[int(len(found) * 0.95)], len(plans) * rounds)
