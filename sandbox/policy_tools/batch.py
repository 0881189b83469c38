# SPDX-License-Identifier: Apache-2.0
"""Ask gate 1 alone, line by line: `lockgate check --batch`. Needs no daemon and runs nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from policy.model import ActionPlan, Decision, Params
from policy.values import validation_text
from sandbox.agents.peer import Caller
from sandbox.errors import BadInput
from sandbox.gates.gate1 import Gate1
from sandbox.gates.policy_files import BuiltIn
from sandbox.gates.second_opinion import SecondOpinion
from sandbox.host.dirs import Dirs
from sandbox.questions.contexts import of_nothing
from sandbox.questions.offline import OfflineGate
from sandbox.questions.plans import Whereabouts, plan_of
from sandbox.workspaces.project_files import ProjectFiles
from sandbox.workspaces.registry import Registry

PlanOf = Callable[[dict[str, Any]], ActionPlan]
Decide = Callable[[ActionPlan], Decision]
_KEYS = ("intent", "agent", "role", "user", "workspace", "cwd")
DEFAULT_WORKSPACE = "/workspace"
"""Where a call stands that names no workspace, and nobody is in one."""


def check_batch(
    lines: Iterable[str],
    *,
    dirs: Dirs | None = None,
    home: str | None = None,
    here: str | None = None,
) -> Iterator[str]:
    """Yield one JSON line per line of input: id, verdict, tier, rules, message.

    `dirs` says whose policy files count; without it the built-in rules stand alone. A line without
    a workspace is about the registered one that holds the folder `here`, and starts there.
    """
    folder = here or DEFAULT_WORKSPACE
    if dirs is None:
        whereabouts = Whereabouts(folder, str, lambda _: DEFAULT_WORKSPACE)
        with SecondOpinion() as second:
            alone = _alone(home or str(Path.home()), Gate1(BuiltIn(), second, ProjectFiles()))
            yield from _answers(lines, partial(_plan, Caller(None), whereabouts), alone)
        return
    registry = Registry(dirs)
    whereabouts = Whereabouts(folder, str, partial(_around, registry), registry)
    with OfflineGate(dirs) as gate:
        plan_of = partial(_plan, Caller.itself(dirs), whereabouts)
        yield from _answers(lines, plan_of, lambda plan: gate.answer(plan)[0].decision)


def _answers(lines: Iterable[str], plan_of: PlanOf, decide: Decide) -> Iterator[str]:
    for line in lines:
        if line.strip():
            yield json.dumps(answer(line, plan_of, decide), ensure_ascii=False)


def _alone(home: str, gate: Gate1) -> Decide:
    """Return what decides by the built-in rules, on a host of which nothing else is known."""
    return lambda plan: (
        gate.decide_now(plan, of_nothing((plan.workspace,), home), (plan.workspace,)).decision
    )


def _around(registry: Registry, folder: str) -> str:
    workspace = registry.holding(folder)
    return workspace.path if workspace is not None else DEFAULT_WORKSPACE


def answer(line: str, plan_of: PlanOf, decide: Decide) -> dict[str, Any]:
    """Return the answer for one line; a line that cannot be read is denied."""
    name: Any = None
    try:
        asked = json.loads(line)
        if not isinstance(asked, dict):
            return _bad(None, "the line is not an object")
        name = asked.get("id")
        plan = plan_of(asked)
    except (ValueError, RecursionError, ValidationError, TypeError, BadInput) as error:
        return _bad(name, _first_line(error))
    try:
        decision = decide(plan)
    except Exception as error:  # the outermost edge: it refuses
        return _bad(name, f"gate 1 failed: {type(error).__name__}")
    return {
        "id": name,
        "verdict": decision.verdict.value,
        "tier": decision.tier.value,
        "rules": list(decision.rules),
        "message": decision.message,
    }


def _plan(caller: Caller, whereabouts: Whereabouts, asked: dict[str, Any]) -> ActionPlan:
    if "command" in asked and not isinstance(asked["command"], str):
        raise ValueError("`command` is not text")
    if "command" not in asked and "tool" not in asked:
        raise ValueError("`command` or `tool` is missing")
    if "command" in asked and ("tool" in asked or "params" in asked):
        raise ValueError("a call has either `command` or `tool` with `params`")
    params = asked["params"] if "params" in asked else {"command": asked.get("command")}
    Params.model_validate(params)  # so that what is wrong in it is named as it was given
    said = {key: asked[key] for key in _KEYS if asked.get(key)}
    return plan_of(
        {**said, "tool": asked.get("tool") or "Bash", "params": params}, caller, whereabouts
    )


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return validation_text.worded(validation_text.first(error))
    if isinstance(error, json.JSONDecodeError):
        return "it is not JSON; write an object in double quotes"
    return str(error).split("\n", 1)[0] or type(error).__name__


def _bad(name: Any, why: str) -> dict[str, Any]:
    return {
        "id": name if isinstance(name, str | int) else None,
        "verdict": "deny",
        "tier": "forbidden",
        "rules": ["bad-input"],
        "message": f"the line cannot be read: {why}",
    }


def _lines(stream: Any) -> Iterator[str]:
    for line in stream:
        yield line.decode("utf-8", "surrogateescape") if isinstance(line, bytes) else line


def main(argv: Sequence[str] | None = None) -> int:
    """Read lines from standard input, write answers to standard output."""
    words = list(sys.argv[1:] if argv is None else argv)
    if "--batch" not in words:
        sys.stderr.write("check: only `--batch` is offered here\n")
        return 2
    lines = _lines(sys.stdin.buffer)
    for line in check_batch(lines, dirs=Dirs.default(), here=str(Path.cwd())):
        sys.stdout.buffer.write(line.encode("utf-8", "surrogateescape") + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
