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

from policy.model import ActionPlan, Context, Params, Workspace
from policy.values import validation_text as mistakes
from sandbox.gates.gate1 import Gate
from sandbox.gates.policy_files import BuiltIn, Policies
from sandbox.gates.second_opinion import SecondOpinion
from sandbox.host import login as person
from sandbox.host.dirs import Dirs
from sandbox.policy_tools import ask as asking
from sandbox.workspaces.project_files import ProjectFiles
from sandbox.workspaces.registry import Registry

ContextOf = Callable[[ActionPlan], Context]
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
    a workspace is about the registered one that holds the folder `here`.
    """
    default = DEFAULT_WORKSPACE
    if dirs is None:
        policies: BuiltIn | Policies = BuiltIn()
        context = _alone(home or str(Path.home()))
    else:
        registry = Registry(dirs, home=Path(home) if home else None)
        around = registry.holding(here) if here is not None else None
        default = around.path if around is not None else DEFAULT_WORKSPACE
        policies = Policies(dirs)
        context = partial(asking.context_of, dirs, registry, policies)
    with SecondOpinion() as second:
        gate = Gate(policies, second, ProjectFiles())
        for line in lines:
            if line.strip():
                yield json.dumps(answer(line, gate, context, default), ensure_ascii=False)


def _alone(home: str) -> ContextOf:
    """Return what gives the context of a plan on a host of which nothing else is known."""
    return lambda plan: Context(workspaces=(Workspace(plan.workspace),), home=home)


def answer(
    line: str, gate: Gate, context: ContextOf, workspace: str = DEFAULT_WORKSPACE
) -> dict[str, Any]:
    """Return the answer for one line; a line that cannot be read is denied."""
    name: Any = None
    try:
        asked = json.loads(line)
        if not isinstance(asked, dict):
            return _bad(None, "the line is not an object")
        name = asked.get("id")
        plan = _plan(asked, workspace)
    except (ValueError, RecursionError, ValidationError, TypeError) as error:
        return _bad(name, _first_line(error))
    try:
        decision = gate.decide_now(plan, context(plan), (plan.workspace,)).decision
    except Exception as error:  # the outermost edge: it refuses
        return _bad(name, f"gate 1 failed: {type(error).__name__}")
    return {
        "id": name,
        "verdict": decision.verdict.value,
        "tier": decision.tier.value,
        "rules": list(decision.rules),
        "message": decision.message,
    }


def _plan(asked: dict[str, Any], default: str) -> ActionPlan:
    workspace = asked.get("workspace") or default
    if "command" in asked and not isinstance(asked["command"], str):
        raise ValueError("`command` is not text")
    if "command" not in asked and "tool" not in asked:
        raise ValueError("`command` or `tool` is missing")
    if "command" in asked and ("tool" in asked or "params" in asked):
        raise ValueError("a call has either `command` or `tool` with `params`")
    params = asked["params"] if "params" in asked else {"command": asked.get("command")}
    return ActionPlan(
        tool=asked.get("tool") or "Bash",
        params=Params.model_validate(params),
        intent=asked.get("intent") or "",
        agent=asked.get("agent") or "main",
        role=asked.get("role"),
        user=asked.get("user") or person.login(),
        workspace=workspace,
        cwd=asked.get("cwd") or workspace,
    )


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return mistakes.worded(mistakes.first(error))
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
