# SPDX-License-Identifier: Apache-2.0
"""`lockgate check` and `lockgate explain`: gate 1 alone. Nothing runs; no supervisor is needed."""

from __future__ import annotations

import os
import shlex
import sys
from typing import Any

import click
from pydantic import ValidationError

from policy.model import ActionPlan, Context, Decision, Params, Verdict, Workspace
from sandbox.check import check_batch
from sandbox.commands import terminal
from sandbox.errors import BadInput
from sandbox.explain import explanation, show_text
from sandbox.gate import Answer, Gate
from sandbox.opinion import SecondOpinion
from sandbox.policies import Policies
from sandbox.text import safe_line
from sandbox.workspaces import Registry

STATUS = {Verdict.ALLOW: 0, Verdict.REPORT: 0, Verdict.DENY: 1, Verdict.ASK: 3}
SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": False}
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
WORKSPACE = click.option(
    "-w", "--workspace", metavar="PATH", help="Workspace; default: the one you are in."
)
TEXT = click.argument("text", nargs=-1, type=click.UNPROCESSED)


@click.command(context_settings=SETTINGS, short_help="Ask gate 1 about a command; run nothing.")
@WORKSPACE
@JSON
@click.option("--batch", is_flag=True, help="Answer JSON lines of stdin with JSON lines.")
@TEXT
def check(text: tuple[str, ...], workspace: str | None, **flags: bool) -> int:
    """Say what gate 1 answers to the shell text TEXT. Nothing runs.

    The status is 0 for allow and report, 1 for deny, 3 for ask. With --batch each line of stdin is
    {"id", "command"} or {"id", "tool", "params"}, and the status is 0.

    \b
    Examples:
      lockgate check 'git push origin main'
      lockgate check --json 'rm -rf build'
      lockgate check --batch < commands.jsonl > answers.jsonl
    """
    if flags["batch"]:
        if text:
            raise click.UsageError("`--batch` reads stdin and takes no TEXT")
        lines = (line.decode("utf-8", "surrogateescape") for line in sys.stdin.buffer)
        for answer in check_batch(lines, dirs=terminal.dirs()):
            terminal.show_bytes(answer.encode("utf-8", "surrogateescape") + b"\n")
        return 0
    decision = _decide(text, workspace)[1].decision
    if flags["as_json"]:
        terminal.show_json(_as_json(decision))
    else:
        words = f"{decision.verdict.value} ({decision.tier.value}): {decision.message}"
        terminal.show(safe_line(words))
    return STATUS[decision.verdict]


@click.command(context_settings=SETTINGS, short_help="Show every layer of gate 1's answer.")
@WORKSPACE
@JSON
@TEXT
def explain(text: tuple[str, ...], workspace: str | None, **flags: bool) -> int:
    """Show how gate 1 comes to its answer to the shell text TEXT: every layer with the words that
    caused it and its rule's place, the rights, the second reading, and what a milder verdict needs.

    \b
    Examples:
      lockgate explain 'echo x >> .devkit-waiver.yml'
      lockgate explain --json 'make test'
    """
    plan, answer = _decide(text, workspace)
    said = explanation(plan, answer)
    if flags["as_json"]:
        terminal.show_json(said)
    else:
        terminal.show(show_text(said))
    return STATUS[answer.decision.verdict]


def _decide(text: tuple[str, ...], workspace: str | None) -> tuple[ActionPlan, Answer]:
    if not text:
        raise click.UsageError("say which command, such as `git status`")
    registry = Registry(terminal.dirs())
    here = os.getcwd()  # noqa: PTH109
    if workspace is not None:
        found = registry.check(workspace)
    else:  # nothing runs, so any folder can be asked about
        found = registry.holding(here) or Workspace(here)
    command = text[0] if len(text) == 1 else shlex.join(text)
    try:
        plan = ActionPlan(
            tool="Bash",
            params=Params(command=command),
            workspace=found.path,
            cwd=here if registry.holding(here) == found else found.path,
        )
        command.encode("utf-8")
    except (ValidationError, UnicodeEncodeError):
        raise BadInput("the command is not UTF-8 text, so it cannot be judged") from None
    context = Context((found, *(one for one in registry.list() if one != found)), registry.home)
    with SecondOpinion() as second:
        gate = Gate(Policies(terminal.dirs()), second)
        return plan, gate.decide_now(plan, context, (found.path,))


def _as_json(decision: Decision) -> dict[str, Any]:
    return {
        **decision.model_dump(mode="json"),
        "allowed": decision.allowed,
        "rules": list(decision.rules),
    }
