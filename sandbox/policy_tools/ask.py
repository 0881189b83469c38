# SPDX-License-Identifier: Apache-2.0
"""Ask gate 1 about a plan as a supervisor would, without one: `check`, `explain`. Runs nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from policy.model import ActionPlan, Context, Params, Workspace
from policy.tools.dialects import BadCall, normalise
from policy.values import validation_text as mistakes
from policy.values.strict_yaml import PolicyError
from sandbox.agents.reputation import Reputations
from sandbox.config.settings import load_settings
from sandbox.errors import BadInput
from sandbox.gates.gate1 import Answer, Gate, within
from sandbox.gates.policy_files import Policies
from sandbox.gates.second_opinion import SecondOpinion
from sandbox.host.dirs import Dirs
from sandbox.text.terminal import safe_line
from sandbox.workspaces.project_files import ProjectFiles
from sandbox.workspaces.registry import Registry

_WHO = ("agent", "role", "user", "intent", "derived_from")
_KEYS = {"tool", "params", "command", "cwd", "workspace", "id", *_WHO}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a call stands."""

    workspace: Workspace
    cwd: str


def place(registry: Registry, workspace: str | None, here: str, cwd: str | None = None) -> Place:
    """Return where a call from the folder `here` stands. Nothing runs, so any folder can be asked
    about. Raises BadInput for a workspace that is none."""
    around = registry.holding(here)
    found = registry.check(workspace) if workspace else around or Workspace(here)
    return Place(found, cwd or (here if around == found else found.path))


def plan_of(
    asked: Mapping[str, Any], where: Place, *, dialect: str | None = None, user: str
) -> ActionPlan:
    """Return the plan of `{command}` or `{tool, params}`, with who asks. Raises BadInput.

    `dialect` is the coding agent whose names of tools and parameters these are.
    """
    unknown = sorted(map(str, set(asked) - _KEYS))
    if unknown:
        known = ", ".join(sorted(_KEYS))
        raise BadInput(f"the call has a key `{safe_line(unknown[0])}`; it may have {known}")
    if "command" in asked and ("params" in asked or "tool" in asked):
        raise BadInput("a call has either `command` or `tool` with `params`")
    if "command" not in asked and "tool" not in asked:
        raise BadInput("the call has neither `command` nor `tool`")
    tool = asked.get("tool", "Bash")
    params = asked.get("params") or {}
    if "command" in asked:
        params = {"command": asked["command"]}
    who = {"user": user, **{key: asked[key] for key in _WHO if asked.get(key) is not None}}
    cwd = asked.get("cwd") or where.cwd
    try:
        json.dumps([tool, params, who, cwd], ensure_ascii=False).encode()
        if dialect is not None and "command" not in asked:
            use = normalise(dialect, tool, params)
            return use.plan(workspace=where.workspace.path, cwd=cwd, **who)
        return ActionPlan(
            tool=tool, params=Params.model_validate(params), workspace=where.workspace.path,
            cwd=cwd, **who,
        )  # fmt: skip
    except UnicodeEncodeError:
        raise BadInput("the command is not UTF-8 text, so it cannot be judged") from None
    except (BadCall, RecursionError) as error:
        raise BadInput(f"the call cannot be read: {error}") from None
    except ValidationError as error:
        wrong = safe_line(mistakes.worded(mistakes.first(error)))
        raise BadInput(f"the call's {wrong}") from None


def answer(dirs: Dirs, registry: Registry, plan: ActionPlan) -> Answer:
    """Return gate 1's answer to a plan, as it would be for a call now."""
    policies = Policies(dirs)
    context = context_of(dirs, registry, policies, plan)
    with SecondOpinion() as second:
        found = Gate(policies, second, ProjectFiles()).decide_now(plan, context, (plan.workspace,))
    return within(found, load_settings(dirs).limits)


def context_of(dirs: Dirs, registry: Registry, policies: Policies, plan: ActionPlan) -> Context:
    """Return what gate 1 knows of this host when it judges a plan. Raises BadInput."""
    here = Workspace(plan.workspace)
    return Context(
        (here, *(one for one in registry.list() if one != here)),
        home=registry.home,
        own=dirs.folders,
        trust=_earned(dirs, policies, plan),
    )


def _earned(dirs: Dirs, policies: Policies, plan: ActionPlan) -> tuple[tuple[str, str], ...]:
    """Return what the plan's agent has earned; nothing while a policy file is wrong."""
    try:
        trust = policies.of((plan.workspace,)).policy.standing.trust
    except PolicyError:
        return ()
    return Reputations(dirs).earned(plan.agent, trust)
