# SPDX-License-Identifier: Apache-2.0
"""`reports`: what agents did that their user is told afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sandbox.cli import terminal
from sandbox.cli.options import JSON
from sandbox.text.terminal import safe_line

if TYPE_CHECKING:
    from policy.people.reports import YellowReport
    from sandbox.audit.call_entry import CallEntry


@click.command(short_help="Tell what was done and is to be reported.")
@click.option("--all", "everything", is_flag=True, help="Also what you were told already.")
@click.option("--keep", is_flag=True, help="Do not count them as told.")
@click.option("--counts", is_flag=True, help="Count per day (UTC) what was decided, GREEN as well.")
@JSON
def reports(everything: bool, keep: bool, *, counts: bool, **flags: bool) -> int:
    """List the reports that wait for you, the oldest first, and count them as told.

    What an agent lists still waits for you.

    \b
    Examples:
      lockgate reports
      lockgate reports --all --json
      lockgate reports --counts
    """
    if counts:
        return _counts(as_json=flags["as_json"])
    from sandbox.present.tables import table
    from sandbox.reporting.yellow_reports import Reports

    store = Reports(terminal.dirs().create())
    notes = store.all() if everything else store.waiting()
    if flags["as_json"]:
        from sandbox.audit.store import Store

        names = [noted.call for noted in notes]
        sessions = Store(terminal.dirs()).sessions_of(names)
        calls = Store(terminal.dirs()).some(names)
        terminal.show_json(
            [
                {
                    "call": noted.call,
                    "session": sessions.get(noted.call),
                    **noted.report.model_dump(mode="json"),
                    "told": noted.delivered,
                    "undone_by": call.undone_by if (call := calls.get(noted.call)) else None,
                }
                for noted in notes
            ]
        )
    elif notes:
        from sandbox.audit.store import Store

        calls = Store(terminal.dirs()).some([noted.call for noted in notes])
        rows = [
            (
                noted.report.timestamp,
                noted.report.category,
                safe_line(noted.report.details),
                _undo(noted.report, calls.get(noted.call)),
            )
            for noted in notes
        ]
        terminal.show(table(("time", "category", "what", "undo"), rows))
    else:
        terminal.show("nothing to report")
    if not (keep or terminal.is_an_agents()):  # an agent that read them has told nobody
        store.delivered([noted.call for noted in notes], "batch")
    return 0


def _undo(report: YellowReport, call: CallEntry | None) -> str:
    """Say how a reported call is taken back, as things stand now."""
    from sandbox.host.before_images import is_kept

    if report.undo_command is None:
        return "" if report.reversible else "cannot be undone"
    if call is not None and call.undone_by:
        return f"undone by {call.undone_by}"
    if call is not None and not is_kept(call.workspaces, call.last) and not call.parts:
        return "cannot be undone: nothing is kept of it"
    return report.undo_command


def _counts(*, as_json: bool) -> int:
    """Print how many calls were GREEN, YELLOW, RED and denied, per day (autonomy-levels.md)."""
    from sandbox.audit.query import Query
    from sandbox.audit.reader import Audit
    from sandbox.present.tables import table
    from sandbox.reporting.yellow_reports import Reports

    words = {"green": "allow", "yellow": "report", "red": "ask", "denied": "deny"}
    reported = Reports(terminal.dirs()).per_day()
    days = []
    for day, found in Audit(terminal.dirs()).stats(Query()).days.items():
        count = {name: found.get(verdict, 0) for name, verdict in words.items()}
        green = max(count["yellow"] - reported.get(day, 0), 0)  # of which no report is due
        count |= {"green": count["green"] + green, "yellow": count["yellow"] - green}
        days.append({"day": day, **count})
    if as_json:
        terminal.show_json(days)
    elif days:
        rows = [tuple(str(value) for value in one.values()) for one in days]
        terminal.show(table(("day (UTC)", *words), rows))
    else:
        terminal.show("nothing was decided yet")
    return 0
