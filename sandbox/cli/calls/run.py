# SPDX-License-Identifier: Apache-2.0
"""`lockgate run`: one command through both gates, with all of its options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from sandbox.cli import terminal
from sandbox.cli.calls.making import Person, fields_of, is_text, make_call, show_call
from sandbox.cli.options import Duration
from sandbox.client.connect import connect, reach
from sandbox.client.line import Line
from sandbox.errors import SandboxError, Stopped
from sandbox.text.terminal import safe_line


@click.command(
    context_settings={"allow_interspersed_args": False},
    short_help="Run a command in the workspace's cell.",
)
@click.option("-w", "--workspace", metavar="PATH", help="Workspace; default: the one you are in.")
@click.option(
    "--also", multiple=True, metavar="PATH", help="A further workspace that it may see; repeatable."
)
@click.option("--agent", default="main", metavar="ID", help="Agent that the call belongs to.")
@click.option("--role", metavar="ROLE", help="Role of the agent; it can only narrow.")
@click.option("--user", metavar="NAME", help="User whose levels count; default: you.")
@click.option(
    "--timeout",
    type=Duration(),
    metavar="TIME",
    help="End the command after this time (status 124): 90, 90s, 10m, 2h.",
)
@click.option(
    "--env", multiple=True, metavar="KEY=VALUE", help="Set a variable for the command; repeatable."
)
@click.option("--cwd", metavar="PATH", help="Folder to start in; default: the one you are in.")
@click.option("--intent", default="", metavar="TEXT", help="Why the command is run, for the log.")
@click.option("--task", metavar="ID", help="Task that it is derived from, for grants and the log.")
@click.option("--background", is_flag=True, help="Start it, print its id and return.")
@click.option("-i", "--stdin", is_flag=True, help="Pass a terminal's input on; pipes always are.")
@click.option("--raw", is_flag=True, help="Pass output on byte for byte (default: safe to print).")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON at the end.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing of what landed.")
@click.option("--yes", is_flag=True, help="Say yes to gate 1's question; needs a terminal.")
@click.option(
    "--wait", is_flag=True, help="Wait for `lockgate approve` where nobody is here to ask."
)
@click.option("--ticket", metavar="TICKET", hidden=True, help="Make a call that a hook admitted.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def run(
    workspace: str | None,
    also: tuple[str, ...],
    agent: str,
    role: str | None,
    user: str | None,
    timeout: float | None,
    env: tuple[str, ...],
    cwd: str | None,
    intent: str,
    task: str | None,
    command: tuple[str, ...],
    ticket: str | None,
    **flags: bool,
) -> int:
    """Run COMMAND in the workspace's cell, judge what it changed, and land that.

    One argument is shell text, given to bash; several are a program and its arguments.

    The status is the command's own; 124: time limit (120 s unless --timeout says so), 125:
    Lockgate failed, 126: not permitted (denied, nobody to ask, or its changes were held or
    discarded), 127: not found, 128+n: ended by signal n. What a command had changed when its time
    was over lands; Ctrl-C throws it away, and Ctrl-C twice within 2 s stops everything.

    \b
    Examples:
      lockgate run -- pytest -q
      lockgate run 'grep -rn TODO src | wc -l'
      lockgate run -w ~/project --timeout 60 -- make test
      lockgate run --background -- python3 -m http.server
    """
    if ticket is not None:
        # What the agent types into it later was not judged: the call gets no input.
        flags |= {"stdin": False, "no_input": True}
        fields = {"ticket": ticket, "text": flags["as_json"]}
        return make_call(_line_that_runs, fields, None, flags)
    if not command:
        raise click.MissingParameter(param_type="argument", param_hint="'COMMAND...'")
    if flags["yes"] and not terminal.person_present():
        terminal.say("`--yes` is a person's word and counts only at a terminal")
        return terminal.NOT_PERMITTED
    if not is_text(command):
        terminal.say("the command is not UTF-8 text, so it cannot be judged")
        return terminal.FAILED
    fields = fields_of(
        command,
        agent=agent,
        workspace=workspace,
        also=also,
        role=role,
        user=user,
        timeout=timeout,
        env=_environment(env),
        cwd=cwd,
        intent=intent,
        task=task,
        background=flags["background"],
        text=flags["as_json"],
    )
    asking = _asking(yes=flags["yes"])
    if asking is None and flags["wait"]:
        terminal.say("if it needs a person, it waits: `lockgate approvals` lists what waits")
        fields["ask"] = "wait"
    return make_call(_line, fields, asking, flags)


PATIENCE = 50
"""Seconds for which a call without a terminal waits for an answer from elsewhere, in a shell."""


def called(
    fields: dict[str, Any], flags: Mapping[str, bool], typed: bytearray | None = None
) -> int:
    """Make a call for another command: a person at the terminal is asked, or one elsewhere.

    What was typed meanwhile and the command did not read is added to `typed`.
    """
    asking = _asking(yes=False)
    wanted = fields if asking else {**fields, "ask": PATIENCE}
    try:
        return show_call(_line, wanted, asking, flags, typed)
    except Stopped as error:
        terminal.refuse(error, terminal.NOT_PERMITTED)
    except SandboxError as error:
        terminal.refuse(error, terminal.FAILED)


def _line() -> Line:
    line = reach(terminal.dirs())
    if line.note:
        terminal.say(line.note)
    return line


def _line_that_runs() -> Line:
    """Return a line to the supervisor that runs, of whatever version: it knows what it gave out."""
    return connect(terminal.dirs()) or reach(terminal.dirs())


def _asking(*, yes: bool) -> Any:
    """Return what answers gate 1's question: `--yes`, a person at the terminal, or nobody."""
    if yes:
        from sandbox.approvals.approver import UNSEEN

        return lambda message, line: {"approved": True, "by": terminal.user(), "reason": UNSEEN}
    return Person() if terminal.can_ask() else None


def _environment(pairs: tuple[str, ...]) -> dict[str, str] | None:
    found = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign or not key:
            raise click.BadParameter(f"`{safe_line(pair)}` is not KEY=VALUE", param_hint="--env")
        found[key] = value
    return found or None
