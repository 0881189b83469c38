# SPDX-License-Identifier: Apache-2.0
"""`lockgate replay`: recorded tool calls, one after another, in one cell."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import click

from policy.model import Workspace
from sandbox.calls.supervisor import Supervisor
from sandbox.cli import terminal
from sandbox.errors import BadInput
from sandbox.present import render as show
from sandbox.testing.replay import Mark, replay
from sandbox.workspaces.registry import Registry

ENDED = 128 + signal.SIGTERM


@click.command("replay", short_help="Replay recorded tool calls from a file.")
@click.option("-w", "--workspace", metavar="PATH", help="Workspace; default: the one you are in.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line of FILE.")
@click.argument("file", type=click.Path(allow_dash=True))
def command(file: str, workspace: str | None, **flags: bool) -> int:
    """Make the tool calls of FILE (`-`: stdin) one after another and say what came of each.

    A line is {"id", "tool", "params"} and, if wanted, "agent", "intent", "approve" (a person's yes
    to gate 1's question about this call) and "expect". A PATH that is not registered counts as a
    workspace for this replay alone.

    "expect" holds what is to be compared: "verdict", "tier", "ending", "judgement", "landed",
    "exit_status" as they are, and texts, or lists of them, that must be there: "rules_has",
    "stdout_has", "stdout_not", "stderr_has", "message_has", "changes_has" (paths).

    The status is 2 when a line is wrong, 1 when an outcome differs from its "expect", 125 when
    Lockgate failed.

    \b
    Examples:
      lockgate replay examples/session.jsonl
      lockgate replay --json -w ~/project calls.jsonl
    """
    lines = _read(file)
    place = _place(workspace)
    try:
        return asyncio.run(_replay(lines, place, as_json=flags["as_json"]))
    except asyncio.CancelledError:
        terminal.say("ended by a signal; the calls so far are in `lockgate log`")
        return ENDED


async def _replay(lines: list[str], place: Workspace, *, as_json: bool) -> int:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    marks, outcomes = [], []
    if not as_json:
        terminal.show(show.replay_head())
    async with Supervisor(terminal.dirs(), workspaces=(place,)) as supervisor:
        async for outcome, mark in replay(supervisor, lines, place.path):
            row = show.replay_row(outcome, wrong=mark is Mark.BAD)
            terminal.show(json.dumps(outcome) if as_json else row)
            sys.stdout.flush()
            marks.append(mark)
            outcomes.append(outcome)
    if not as_json:
        counts = {"failed": marks.count(Mark.FAILED), "wrong": marks.count(Mark.BAD)}
        terminal.show(show.replay_sum(outcomes, **counts))
    if Mark.FAILED in marks:
        return terminal.FAILED
    if Mark.BAD in marks:
        return terminal.USAGE
    return terminal.REFUSED if any(one.get("expected") is False for one in outcomes) else 0


def _read(file: str) -> list[str]:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return data.decode("utf-8").split("\n")
    except OSError as error:
        raise BadInput(f"`{file}` cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(f"`{file}` is not UTF-8") from None


def _place(workspace: str | None) -> Workspace:
    registry = Registry(terminal.dirs())
    if workspace is not None:
        return registry.check(workspace)
    try:
        return registry.around(os.getcwd())  # noqa: PTH109
    except FileNotFoundError:
        raise BadInput("the folder you are in is gone; `-w PATH` names a workspace") from None
