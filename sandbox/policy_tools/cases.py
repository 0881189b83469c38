# SPDX-License-Identifier: Apache-2.0
"""Cases for a policy: calls and the verdicts that they must get. Read, run, compared.

A case is `{command, verdict}` or `{tool, params, verdict}`, with an optional `rule`. Files are YAML
(a list, or a mapping with `cases`) or JSON lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from policy.gate1.decide import Policy, decide
from policy.model import ActionPlan, Decision, Verdict
from policy.rules.matching import CommandRule, Rule
from policy.sources.examples import CONTEXT, plan_of
from policy.sources.precedence import Effective
from policy.values import validation_text
from policy.values.strict_yaml import PolicyError, parse

MOST_CASES = 100_000
EVERYDAY = (
    "ls", "grep -rn a .", "touch a", "echo a > b", "mkdir a", "mv a b", "cp a b", "rm a",
    "chmod +x a", "git add a", "git commit -m a", "git push", "git pull", "git switch -c a",
    "git tag a", "pytest", "make", "python3 a.py", "npm install", "npm run build", "pip install a",
    "apt-get install a", "curl https://example.org", "gh pr create", "crontab a", "notify-send a",
    "mail -s a b@example.org", "npm publish", "terraform apply", "docker run a", "ssh a b",
    "cat ../a", "sudo ls", "rm -rf a",
)  # fmt: skip
"""One command of each kind, so that a file that names no program shows what it changes, too."""
_VERDICTS = tuple(verdict.value for verdict in Verdict)


@dataclass(frozen=True, slots=True)
class Case:
    """A call, and what it must get."""

    place: str
    """`file:line`."""
    plan: ActionPlan
    shown: str
    """The call in a few words."""
    verdicts: tuple[str, ...] = ()
    """Any of these is right; none: it has no expectation."""
    rule: str | None = None
    """A rule that must be among those that decided."""


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """What a policy said of a case."""

    case: Case
    decision: Decision

    @property
    def wrong(self) -> str:
        """How it differs from what was expected; empty when it does not."""
        case, decision = self.case, self.decision
        said = decision.verdict.value
        if case.verdicts and said not in case.verdicts:
            return f"expected {' or '.join(case.verdicts)}, got {said}: {decision.message}"
        if case.rule is not None and case.rule not in decision.rules:
            rules = ", ".join(decision.rules) or "none"
            return f"expected rule `{case.rule}`, got {rules}"
        return ""


def run(cases: Sequence[Case], policy: Policy) -> Iterator[CaseOutcome]:
    """Yield what a policy says of each case."""
    for case in cases:
        yield CaseOutcome(case, decide(case.plan, CONTEXT, policy))


def read_cases(path: Path, policy: Policy) -> tuple[Case, ...]:
    """Return the cases of a file. Raises PolicyError with file, line and what to do."""
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise PolicyError(f"{path}:{line}: it is not UTF-8") from None
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise PolicyError(f"{path}: it cannot be read: {why}") from None
    cases = []
    for line, data in _json_lines(text, path) if _is_json_lines(text) else _yaml(text, path):
        cases.append(_case(f"{path}:{line}", data, policy))
        if len(cases) > MOST_CASES:
            raise PolicyError(f"{path}:{line}: more than {MOST_CASES} cases; part the file")
    if not cases:
        raise PolicyError(
            f"{path}: it holds no case; write `- {{command: git push, verdict: ask}}`"
        )
    return tuple(cases)


@lru_cache(maxsize=1)
def examples() -> tuple[Case, ...]:
    """Return the built-in examples: everyday commands, and those that the catalog's entries match
    and miss."""
    policy = Policy.default()
    cases = {text: Case("everyday", plan_of(text, policy), text) for text in EVERYDAY}
    catalog = resources.files("policy").joinpath("catalog")
    for file in sorted(catalog.iterdir(), key=lambda one: one.name):
        if file.name.endswith(".yaml"):
            name = f"policy/catalog/{file.name}"
            for line, text in _listed(file.read_text("utf-8")):
                plan = plan_of(text, policy)
                cases.setdefault(text, Case(f"{name}:{line}", plan, text))
    return tuple(cases.values())


def of_files(effective: Effective) -> tuple[Case, ...]:
    """Return the examples of the policy files that count: calls that their rules match and miss,
    and a call of each tool that they name."""
    cases: dict[str, Case] = {}
    for source in effective.sources:
        content, name = source.document.content, source.document.name
        rules: tuple[Rule | CommandRule, ...] = (*content.rules, *content.commands)
        calls: list[tuple[str, Any]] = [
            (source.document.place(rule.id), example)
            for rule in rules
            for example in (*rule.match, *rule.miss)
        ]
        calls += [
            (source.document.place("tools"), {"tool": re.sub(r"[*?]+", "x", tool)})
            for _, tools in content.tools
            for tool in tools
        ]
        calls += [
            (source.document.place(kept.id), {"tool": "Write", "params": {"file_path": path}})
            for kept in content.governance
            for path in kept.match
        ]
        for place, call in calls:
            plan = plan_of(call, effective.policy)
            cases.setdefault(plan.digest(), Case(place or name, plan, _shown(plan)))
    return tuple(cases.values())


def _listed(text: str) -> Iterator[tuple[int, str]]:
    """Yield the examples of programs in a catalog file, with their lines."""
    root = yaml.compose(text, Loader=yaml.CSafeLoader)
    for key, section in root.value if isinstance(root, yaml.MappingNode) else ():
        if key.value != "programs":
            continue
        for entry in section.value:
            for name, examples in entry.value:
                if name.value in ("match", "miss"):
                    yield from ((one.start_mark.line + 1, one.value) for one in examples.value)


def _is_json_lines(text: str) -> bool:
    return text.lstrip().startswith("{")


def _json_lines(text: str, path: Path) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError):
                raise PolicyError(f"{path}:{number}: the line is no JSON object") from None


def _yaml(text: str, path: Path) -> Iterator[tuple[int, Any]]:
    data = parse(text, str(path))
    root = yaml.compose(text, Loader=yaml.CSafeLoader)
    if isinstance(data, dict) and set(data) == {"cases"} and isinstance(root, yaml.MappingNode):
        data, root = data["cases"], root.value[0][1]
    if not isinstance(data, list) or not isinstance(root, yaml.SequenceNode):
        raise PolicyError(f"{path}:1: it is no list of cases")
    for one, node in zip(data, root.value, strict=True):
        yield node.start_mark.line + 1, one


def _case(place: str, data: Any, policy: Policy) -> Case:
    if not isinstance(data, dict):
        raise PolicyError(
            f"{place}: a case is `{{command, verdict}}` or `{{tool, params, verdict}}`"
        )
    asked = {k: v for k, v in data.items() if k not in ("id", "verdict", "rule", "why")}
    wanted = data.get("verdict")
    verdicts = tuple(wanted) if isinstance(wanted, list) else (wanted,) if wanted else ()
    for verdict in verdicts:
        if verdict not in _VERDICTS:
            raise PolicyError(f"{place}: `verdict`: `{verdict}` is none of {', '.join(_VERDICTS)}")
    try:
        plan = plan_of(asked, policy)
    except ValidationError as error:
        raise PolicyError(
            f"{place}: {validation_text.worded(validation_text.first(error))}"
        ) from None
    except (ValueError, TypeError) as error:
        raise PolicyError(f"{place}: {str(error).removeprefix('an example: ')}") from None
    rule = data.get("rule")
    return Case(place, plan, _shown(plan), verdicts, str(rule) if rule is not None else None)


def _shown(plan: ActionPlan) -> str:
    params = plan.params
    if params.command is not None:
        return params.command
    return f"{plan.tool} {params.file_path or params.path or params.pattern or ''}".strip()
