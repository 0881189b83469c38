# SPDX-License-Identifier: Apache-2.0
"""The command that shows what a session, or whatever else is chosen, changed on disk."""

from __future__ import annotations

from typing import Any

import click

from sandbox.cli import terminal
from sandbox.cli.calls.choosing import choosing, chosen_of, workspace_here
from sandbox.cli.options import JSON
from sandbox.operations.requests import ChangedRequest
from sandbox.text.terminal import safe_block, safe_line


@click.command(short_help="Show what a session changed on disk, as one diff.")
@choosing
@JSON
def diff(*, as_json: bool, **options: Any) -> int:
    """Show what an agent's session changed on disk and still stands, as one diff, whatever door it
    came through: commands, tools over MCP, and what the agent edited with tools of its own.

    Of a file that somebody else changed since, the calls' own changes are shown one by one.

    Without options that is the newest session of the workspace you are in. Secrets are masked.
    `lockgate undo` with the same options takes it back.

    \b
    Examples:
      lockgate diff
      lockgate diff --session 4f1c
      lockgate diff --agent main --since 2h --json
    """
    from sandbox.present.render import changes

    here = workspace_here()
    wanted = chosen_of(options, here) or chosen_of({**options, "session": "last"}, here)
    with terminal.client() as client:
        report = client.ask(ChangedRequest(**wanted))
    if as_json:
        terminal.show_json(report)
        return 0
    of = f" of session {safe_line(report['session'])}" if report["session"] else ""
    terminal.show(f"{len(report['calls'])} calls{of} changed:")
    terminal.show(changes(report["changes"]) or "  nothing that stands")
    if later := report.get("later"):
        names = ", ".join(f"`{safe_line(one)}`" for one in later)
        terminal.say(f"changed by others since, which is left out here: {names}")
    if report["diff"]:
        terminal.show(safe_block(report["diff"]).rstrip("\n"))
    return 0
