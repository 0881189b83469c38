# SPDX-License-Identifier: Apache-2.0
"""`lockgate check` and `lockgate explain`: gate 1 alone. Nothing runs; no supervisor is needed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import click

from policy.model import ActionPlan, Decision, Verdict
from policy.tools.dialects import AGENTS
from sandbox.agents.peer import Caller
from sandbox.cli import terminal
from sandbox.errors import BadInput
from sandbox.gates.gate1 import Gate1Answer
from sandbox.policy_tools.ask import plan_of
from sandbox.policy_tools.batch import check_batch
from sandbox.policy_tools.explain import explanation, show_text
from sandbox.questions.offline import decide_offline
from sandbox.questions.plans import Whereabouts, command_of
from sandbox.text.terminal import safe_line
from sandbox.workspaces.registry import Registry

STATUS = {Verdict.ALLOW: 0, Verdict.REPORT: 0, Verdict.DENY: 1, Verdict.ASK: 3}
SETTINGS = {"allow_interspersed_args": False}
STDIN = "-"
_WHO = ("agent", "role", "user", "intent")
_OPTIONS = (
    click.option("-w", "--workspace", metavar="PATH",
                 help="Workspace; default: the one you are in."),
    click.option("--agent", metavar="ID", help="Agent that asks; default: main."),
    click.option("--role", metavar="ROLE", help="Role of the agent; it can only narrow."),
    click.option("--user", metavar="NAME", help="User whose levels count; default: you."),
    click.option("--intent", default="", metavar="TEXT", help="Why it is wanted."),
    click.option("--tool", metavar="NAME", help="Ask about this tool, not a command."),
    click.option("--params", metavar="JSON",
                 help="The tool's parameters, an object; `-` reads them from stdin."),
    click.option("--from", "dialect", type=click.Choice(AGENTS),
                 help="Tool and parameters are called as this coding agent calls them."),
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    click.argument("text", nargs=-1, type=click.UNPROCESSED),
)  # fmt: skip


def _options(command: Callable[..., int]) -> Callable[..., int]:
    for one in reversed(_OPTIONS):
        command = one(command)
    return command


@click.command(context_settings=SETTINGS, short_help="Ask gate 1 about a command; run nothing.")
@click.option("--batch", is_flag=True, help="Answer JSON lines of stdin with JSON lines.")
@_options
def check(text: tuple[str, ...], batch: bool, as_json: bool, **asked: str | None) -> int:
    """Say what gate 1 answers to the shell text TEXT, or to a call of another tool. Nothing runs.

    TEXT `-` reads one call from stdin: {"command"} or {"tool", "params"}, with "agent", "role",
    "user", "intent", "cwd" as wanted. The status is 0 for allow and report, 1 for deny, 3 for ask.
    With --batch each line of stdin is such a call with an "id", and the status is 0.

    \b
    Examples:
      lockgate check 'git push origin main'
      lockgate check --json 'rm -rf build'
      lockgate check --role Researcher -- pytest -q
      lockgate check --tool Write --params '{"file_path": "a.py", "content": ""}'
      lockgate check --batch < commands.jsonl > answers.jsonl
    """
    if batch:
        if text:
            raise click.UsageError("`--batch` reads stdin and takes no TEXT")
        lines = (line.decode("utf-8", "surrogateescape") for line in sys.stdin.buffer)
        for answer in check_batch(lines, dirs=terminal.dirs(), here=_here()):
            terminal.show_bytes(answer.encode("utf-8", "surrogateescape") + b"\n")
        return 0
    decision = _decide(text, asked)[1].decision
    if as_json:
        terminal.show_json(_as_json(decision))
    else:
        words = f"{decision.verdict.value} ({decision.tier.value}): {decision.message}"
        terminal.show(safe_line(words))
    return STATUS[decision.verdict]


@click.command(context_settings=SETTINGS, short_help="Show every layer of gate 1's answer.")
@_options
def explain(text: tuple[str, ...], as_json: bool, **asked: str | None) -> int:
    """Show how gate 1 comes to its answer to the shell text TEXT, or to a call of another tool:
    every layer with the words that caused it and its rule's place, the rights, the second reading,
    and what a milder verdict needs. TEXT `-` reads one call from stdin, as in `check`.

    \b
    Examples:
      lockgate explain 'echo x >> .devkit-waiver.yml'
      lockgate explain --json 'make test'
      lockgate explain --agent sub:1 --role Coder 'git push'
      lockgate explain --from codex --tool apply_patch --params - < call.json
    """
    plan, answer = _decide(text, asked)
    said = explanation(plan, answer)
    if as_json:
        terminal.show_json(said)
    else:
        terminal.show(show_text(said))
    return STATUS[answer.decision.verdict]


def _decide(text: tuple[str, ...], asked: dict[str, str | None]) -> tuple[ActionPlan, Gate1Answer]:
    dirs = terminal.dirs()
    call = _call(text, asked["tool"], asked["params"])
    call |= {key: asked[key] for key in (*_WHO, "workspace") if asked[key]}
    whereabouts = Whereabouts.anywhere(Registry(dirs), _here())
    plan = plan_of(call, Caller.itself(dirs), whereabouts, dialect=asked["dialect"])
    return plan, decide_offline(dirs, plan)[0]


def _call(text: tuple[str, ...], tool: str | None, params: str | None) -> dict[str, Any]:
    """Return the call that TEXT or `--tool` and `--params` say."""
    if tool is not None:
        if text:
            raise click.UsageError("`--tool` takes no TEXT; give `--params`")
        given = sys.stdin.read() if params == STDIN else params or "{}"
        return {"tool": tool, "params": _object(given, "`--params`")}
    if params is not None:
        raise click.UsageError("`--params` belongs to a tool; give `--tool NAME`")
    if not text:
        raise click.UsageError("say which command, such as `git status`")
    if text == (STDIN,):
        return _object(sys.stdin.read(), "stdin")
    return {"command": command_of(text)}


def _object(text: str, what: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise BadInput(f"{what} is not JSON; write an object in double quotes") from None
    if not isinstance(found, dict):
        raise BadInput(f"{what} is no JSON object")
    return found


def _here() -> str:
    return os.getcwd()  # noqa: PTH109


def _as_json(decision: Decision) -> dict[str, Any]:
    return {
        **decision.model_dump(mode="json"),
        "allowed": decision.allowed,
        "rules": list(decision.rules),
    }
