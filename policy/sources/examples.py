# SPDX-License-Identifier: Apache-2.0
"""The examples of a policy file's rules: calls that a rule must match, and calls that it must not.

Pure. A rule that does not do what its author thinks never starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from policy.gate1.decide import Policy, decide
from policy.model import ActionPlan, Context, Params, Workspace
from policy.programs.own_programs import OwnProgram
from policy.rules.matching import CommandRule, Rule
from policy.rules.schema import Example
from policy.sources.document import Document
from policy.sources.precedence import Layer, Source, decided
from policy.values import validation_text
from policy.values.strict_yaml import PolicyError, located

HERE = "/workspace"
CONTEXT = Context(workspaces=(Workspace(HERE),), home="/home/user")
"""Where examples stand."""
_KEYS = {"tool", "params", "intent", "agent", "role", "user", "cwd"}


def check(document: Document, base: Policy) -> None:
    """Run the examples of a file's rules. Raises PolicyError for the first that fails."""
    try:
        policy = decided(base, document.content, Source(Layer.USER, document, trusted=False))
    except (PolicyError, ValueError) as error:
        raise PolicyError(located(document.name, document.text, _said(error))) from None
    content = document.content
    rules: tuple[Rule | CommandRule | OwnProgram, ...]
    rules = (*content.rules, *content.commands, *content.programs)
    for rule in rules:
        name = rule.rule if isinstance(rule, OwnProgram) else rule.id
        wanted = [*((one, True) for one in rule.match), *((one, False) for one in rule.miss)]
        for example, matches in wanted:
            try:
                decision = decide(plan_of(example, policy), CONTEXT, policy)
            except ValueError as error:
                where = f"{document.place(rule.id)}: rule `{rule.id}`"
                said = f"an example: {_said(error).removeprefix('an example: ')}"
                raise PolicyError(f"{where}: {said}") from None
            if (name in decision.rules) is not matches:
                what = "does not match" if matches else "matches"
                tail = "" if matches else ", which it says it does not"
                raise PolicyError(
                    f"{document.place(rule.id)}: rule `{rule.id}`: it {what} its example "
                    f"`{_written(example)}`{tail}"
                )


def without_effect(document: Document, base: Policy) -> Iterator[str]:
    """Yield a line for each rule on programs that changes nothing of what would count anyway."""
    content = document.content
    for program in content.programs:
        known = [name for name in program.programs if "/" not in name and base.catalog.knows(name)]
        for name in known:
            why = "`commands` makes it stricter, `overrides` under `levels` milder"
            yield (
                f"{document.place(program.id)}: rule `{program.id}`: the policy knows `{name}`, so "
                f"this has no effect on it; {why}"
            )
    for rule in content.commands:
        others = tuple(command for command in content.commands if command is not rule)
        less = content.model_copy(update={"commands": others})
        with_it, without = (
            decided(base, policy_document, Source(Layer.USER, document))
            for policy_document in (content, less)
        )
        if all(
            decide(plan_of(one, base), CONTEXT, with_it).verdict
            is decide(plan_of(one, base), CONTEXT, without).verdict
            for one in rule.match
        ):
            yield (
                f"{document.place(rule.id)}: rule `{rule.id}`: its examples get the same verdict "
                "without it, since a rule under `commands` only tightens; `programs` names your own"
            )


def plan_of(example: Example | Mapping[str, Any], policy: Policy) -> ActionPlan:
    """Return the plan of an example: a command line, `{command}` or `{tool, params, intent}`.

    Raises ValueError for one that is no call.
    """
    asked = {"command": example} if isinstance(example, str) else dict(example)
    if "command" in asked:
        tool = policy.tools.shell[0] if policy.tools.shell else "Bash"
        asked = {"tool": tool, "params": {"command": asked.pop("command")}, **asked}
    unknown = sorted(set(asked) - _KEYS)
    if unknown or "tool" not in asked:
        what = f"`{unknown[0]}` is not known" if unknown else "`tool` or `command` is missing"
        raise ValueError(f"an example: {what}")
    params = Params.model_validate(asked.pop("params", {}))
    return ActionPlan(params=params, workspace=HERE, **asked)


def _said(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return validation_text.worded(validation_text.first(error))
    return str(error).splitlines()[0]


def _written(example: Example) -> str:
    return example if isinstance(example, str) else str(example)
