# SPDX-License-Identifier: Apache-2.0
"""`lockgate ps`: agents, their children, cells and calls that go on, as a tree."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from sandbox.cli import terminal
from sandbox.client.blocking import running_now
from sandbox.text.terminal import safe_line

if TYPE_CHECKING:
    from sandbox.audit.events.protected import TamperedRecord

MOST_NAMED = 5
"""Stopped agents that run no more of which the names are said."""
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
    from sandbox.agents.view import ended, lines, tree
    from sandbox.approvals.store.database import count_questions
    from sandbox.audit.open_changes import OpenChanges
    from sandbox.host.latch import Latch
    from sandbox.present.guard_line import guard_line
    from sandbox.present.tables import table
    from sandbox.reporting.waiting import count_reports

    dirs = terminal.dirs()
    now = running_now(dirs)
    changed = OpenChanges(dirs).read()
    follow_ups = now.get("follow_ups", ())
    roots = tree(dirs, now["running"], now["cells"], follow_ups)
    stopped = Latch(dirs).in_force()
    asking = count_questions(dirs, time.time())
    gone = ended(dirs, stopped, now["running"], now["cells"])
    here = [info for info in stopped if info not in gone]
    if flags["as_json"]:
        terminal.show_json(
            {
                **now,
                "changed_around": [record.as_json() for record in changed],
                "agents": roots,
                "questions": asking,
                "stopped": [info.message() for info in here],
                "stopped_ended": [info.message() for info in gone],
            }
        )
        return 0
    for info in here:
        terminal.say(info.message())
    if gone:
        names = ", ".join(safe_line(str(info.agent)) for info in gone[:MOST_NAMED])
        more = f" and {len(gone) - MOST_NAMED} more" if len(gone) > MOST_NAMED else ""
        terminal.say(
            f"stopped, and nothing of them runs: {names}{more}; "
            "`lockgate resume --ended` lets their names be used again"
        )
    if changed:
        terminal.say(around(changed))
    if roots:
        heads = ("what", "pid", "state", "cpu", "memory", "age", "command")
        rows = [tuple(safe_line(cell) for cell in row) for row in lines(roots)]
        terminal.show(table(heads, rows))
    if "guard" in now:
        terminal.show(f"guard: {guard_line(now['guard'])}")
    if waiting := count_reports(dirs):
        terminal.show(f"reports: {waiting} wait; `lockgate reports` tells them")
    if asking:
        terminal.show(f"questions: {asking} wait; `lockgate approvals` lists them")
    if not now["running"] and not follow_ups:
        terminal.show("no call goes on")
    if not now["cells"]:
        terminal.show("no cell stands ready")
    return 0


def around(changed: Sequence[TamperedRecord]) -> str:
    """Say in one line what was changed around Lockgate and not acknowledged."""
    names = dict.fromkeys(f"`{safe_line(record.path)}`" for record in reversed(changed))
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return (
        f"changed around Lockgate: {', '.join(list(names)[:MOST_NAMED])}{more}; "
        "`lockgate guard --once` lists them"
    )
