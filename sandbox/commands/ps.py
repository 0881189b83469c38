# SPDX-License-Identifier: Apache-2.0
"""`lockgate ps`: agents, their children, cells and calls that go on, as a tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from sandbox.commands import terminal
from sandbox.serving.client import BlockingClient
from sandbox.serving.start import connect
from sandbox.text import safe_line

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command(short_help="Show agents, cells and calls that go on, as a tree.")
@JSON
def ps(**flags: bool) -> int:
    """Show the agents under watch, their children, the cells and the calls that go on.

    \b
    Examples:
      lockgate ps
      lockgate ps --json
    """
    from sandbox.agents.view import lines, tree
    from sandbox.show import table
    from sandbox.stopping.latch import Latch

    dirs = terminal.dirs()
    found: Mapping[str, Any] = {"running": [], "cells": []}
    line = connect(dirs)
    if line is not None:
        line.close()
        with BlockingClient(dirs) as client:
            found = client.exchange("ps", {})
    roots = tree(dirs, found["running"], found["cells"])
    latch = Latch(dirs)
    stopped = [info for info in (latch.read(), *latch.agents()) if info is not None]
    if flags["as_json"]:
        terminal.show_json(
            {**found, "agents": roots, "stopped": [info.message() for info in stopped]}
        )
        return 0
    for info in stopped:
        terminal.say(info.message())
    if roots:
        names = ("what", "pid", "state", "cpu", "memory", "age", "command")
        rows = [tuple(safe_line(cell) for cell in row) for row in lines(roots)]
        terminal.show(table(names, rows))
    if "guard" in found:
        terminal.show(f"guard: {guard_line(found['guard'])}")
    if not found["running"]:
        terminal.show("no call goes on")
    if not found["cells"]:
        terminal.show("no cell stands ready")
    return 0


def guard_line(state: Mapping[str, Any]) -> str:
    """Say in one line how the supervisor's guard is."""
    match state["state"]:
        case "off":
            return "off (`guard: {enabled: false}` in the settings)"
        case "starting":
            return "it starts"
        case "away":
            return "a guard that a person started has its place"
        case "failed":
            return safe_line(f"failed: {state['problem']}; it is started again")
    count = state["guarded"]
    said = f"watches {count} protected path{'' if count == 1 else 's'}"
    if state["told"]:
        said += f"; {state['told']} changed around Lockgate since it started"
    return safe_line("; ".join([said, *state["failed"]]))
