# SPDX-License-Identifier: Apache-2.0
"""`lockgate audit`: ask the record, check it, take it elsewhere, count in it, mend it."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sandbox.cli import terminal
from sandbox.cli.options import JSON
from sandbox.text.terminal import safe_line

if TYPE_CHECKING:
    from sandbox.audit.call_entry import CallEntry
    from sandbox.audit.events.protected import TamperedRecord
    from sandbox.audit.query import Query
    from sandbox.audit.reader import Audit

_POLL_SECONDS = 0.5
_DAYS = 14
_TOP = 10
F = TypeVar("F", bound=Callable[..., Any])


def filters(function: F) -> F:
    """Give a command the options that say which decisions it is about; it gets a Query."""

    @functools.wraps(function)
    def with_query(**given: Any) -> Any:
        from sandbox.audit.query import Query, instant, verdicts

        now = time.time()
        names = ("decision", "tool", "agent", "rule", "since", "until", "limit")
        found = {name: given.pop(name, None) for name in names}
        query = Query(
            verdicts(found["decision"]),
            found["tool"],
            found["agent"],
            found["rule"],
            instant(found["since"], now),
            instant(found["until"], now),
            found["limit"],
        )
        return function(query=query, **given)

    options = (
        click.option("--until", metavar="TIME", help="Only before then."),
        click.option("--since", metavar="TIME", help="Only from then on: 2h, 3d, or ISO 8601."),
        click.option("--rule", metavar="ID", help="Only where this rule counted."),
        click.option("--agent", metavar="ID", help="Only of this agent."),
        click.option("--tool", metavar="NAME", help="Only of this tool."),
        click.option(
            "--decision", metavar="WORD", help="ALLOW, DENY, NEED_APPROVAL, or one verdict."
        ),
    )
    for option in options:
        with_query = option(with_query)
    return with_query  # type: ignore[return-value]


def limit(default: int | None) -> Callable[[F], F]:
    """Give a command the option that bounds its answer."""
    said = "At most so many, the newest."
    return click.option("-n", "--limit", default=default, type=click.IntRange(min=1), help=said)


@click.group(short_help="Ask the record, check it, take it elsewhere, mend it.")
def audit() -> None:
    """Look after the record of decisions and outcomes.

    \b
    Examples:
      lockgate audit show --decision DENY --since 2h
      lockgate audit verify
      lockgate audit export --format csv > calls.csv
    """


@audit.command(short_help="List decisions: by verdict, tool, agent, rule, time.")
@filters
@limit(20)
@click.option("--follow", is_flag=True, help="Go on with what comes.")
@JSON
def show(query: Query, *, follow: bool, **flags: bool) -> int:
    """List decisions, each with its rule, who approved it and what came of it, the newest last.

    What was changed around Lockgate meanwhile stands between them. With --json one object per line.
    Times without a zone are meant in this host's.

    \b
    Examples:
      lockgate audit show --decision NEED_APPROVAL
      lockgate audit show --tool Bash --agent coder --since 3d
      lockgate audit show --rule git-push --json
      lockgate audit show --follow
    """
    entries = _audit().calls(query)
    lines = [
        (str(entry.ts), json.dumps(entry.model_dump()) if flags["as_json"] else _line(entry))
        for entry in reversed(entries)
    ]
    around = _around(query, whole=len(entries) != query.limit, oldest=lines[0][0] if lines else "")
    if around:
        lines = sorted(
            [*lines, *((str(record.ts), _around_line(record, flags)) for record in around)]
        )
    for _, text in lines:
        terminal.show(text)
    if not lines and not follow and not flags["as_json"]:
        terminal.show("no decision is recorded that matches")
    if follow:
        _follow(query, as_json=flags["as_json"])
    return 0


def _follow(query: Query, *, as_json: bool) -> None:
    """Print decisions as they come, until interrupted; what comes of them is not known yet."""
    from sandbox.audit import history
    from sandbox.audit.events.reading import read
    from sandbox.audit.segments import LogPlace, Segments

    segments = Segments(terminal.dirs().state / "audit.jsonl")
    place = segments.end()
    while True:
        if not segments.reaches(place):
            place = segments.end()
        for at, raw in segments.from_place(place):
            place = LogPlace(at.segment, at.offset + len(raw))
            try:
                record = read(raw)
            except ValueError:
                continue
            if not query.matches(record):
                continue
            if as_json:
                fields = record.model_dump(exclude_unset=True)
                terminal.show(json.dumps({**fields, "id": record.call}))
            else:
                terminal.show(_line(history.call([record], "", record.call or "")))
        time.sleep(_POLL_SECONDS)


def _around(query: Query, *, whole: bool, oldest: str) -> list[TamperedRecord]:
    """Return what was changed around Lockgate in the time of the answer; nothing where it is asked
    for decisions of one kind."""
    from datetime import UTC, datetime

    from sandbox.audit.query import seconds_of
    from sandbox.audit.store import Store

    if any(one is not None for one in (query.verdicts, query.tool, query.agent, query.rule)):
        return []
    begin = "" if query.since is None else datetime.fromtimestamp(query.since, UTC).isoformat()
    until = float("inf") if query.until is None else query.until
    records = Store(terminal.dirs()).tampered(begin if whole else oldest)
    return [record for record in records if seconds_of(record.ts or "") < until]


def _around_line(record: TamperedRecord, flags: dict[str, bool]) -> str:
    if flags["as_json"]:
        return json.dumps(record.as_json())
    end = "put back" if record.restored else "left so"
    where = f"`{record.path}` in `{record.workspace}`"
    return safe_line(
        f"{str(record.ts)[:19]}  around Lockgate: {where} {record.kind}  [{record.rule}]  {end}"
    )


def _line(entry: CallEntry) -> str:
    from sandbox.present.render import ended, subject

    by = f" by {entry.approved_by}" if entry.approved_by else ""
    rules = ", ".join(entry.rules or ()) or "no rule"
    text = (
        f"{str(entry.ts)[:19]}  {entry.id}  {entry.verdict or '':<6}"
        f"  {entry.agent}: {subject(entry)}  [{rules}]  "
        + (f"{ended(entry)}{by}" if entry.ending else "")
    )
    return safe_line(text.rstrip())


@audit.command(short_help="Check that no line was changed, moved or cut.")
@click.option("--head", metavar="FILE", help="A copy of `audit.head` that you kept elsewhere.")
@JSON
def verify(head: str | None, **flags: bool) -> int:
    """Check the whole record; the status is 1 when a line was changed, moved or cut. With --head
    also that it still holds what it held when that copy was made.

    \b
    Examples:
      lockgate audit verify
      lockgate audit verify --head /mnt/backup/audit.head
    """
    from sandbox.audit.store import Store

    store = Store(terminal.dirs())
    wrong = store.verify() or (store.verify(Path(head)) if head else None)
    unknown = store.unknown() if wrong is None else {}
    if flags["as_json"]:
        said = {"file": str(store.log), "whole": wrong is None, "broken": wrong}
        terminal.show_json({**said, "unknown": unknown})
    elif wrong is None:
        terminal.show(f"{store.log}: whole")
        for part, count in unknown.items():
            lines = "1 line" if count == 1 else f"{count} lines"
            terminal.say(safe_line(f"this version does not know {part} ({lines})"))
    else:
        terminal.show(f"{store.log}: {safe_line(wrong)}")
    return 0 if wrong is None else terminal.REFUSED


FORMATS = ("jsonl", "csv", "autonomy")


@audit.command(short_help="Print decisions as JSON lines or CSV.")
@filters
@limit(None)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="jsonl", help="Default: jsonl."
)
def export(query: Query, form: str) -> int:
    """Print every decision that matches with all that is known of it, the oldest first.

    `autonomy` is the log of YELLOW and RED actions with the fields of that document.

    \b
    Examples:
      lockgate audit export > calls.jsonl
      lockgate audit export --format csv --since 2026-02-01T00:00:00Z
      lockgate audit export --format autonomy --agent main
    """
    import csv
    import sys

    from sandbox.reporting.audit_export import COLUMNS, autonomy_line, csv_row

    record = _audit()
    if form == "autonomy":
        query = replace(query, verdicts=query.verdicts or frozenset(("report", "ask", "deny")))
        for _, records in record.families(query, oldest_first=True):
            if line := autonomy_line(records):
                terminal.show(line.model_dump_json(exclude_none=True))
        return 0
    writer = csv.writer(sys.stdout)
    if form == "csv":
        writer.writerow(COLUMNS)
    for entry in record.each(query, oldest_first=True):
        if form == "csv":
            writer.writerow(csv_row(entry))
        else:
            terminal.show(json.dumps(entry.model_dump()))
    return 0


@audit.command(short_help="Count decisions by day, tool, agent and rule.")
@filters
@JSON
def stats(query: Query, **flags: bool) -> int:
    """Count decisions by verdict and day (UTC), tool, agent and rule, and say how many are denied.

    \b
    Examples:
      lockgate audit stats
      lockgate audit stats --agent coder --since 7d --json
    """
    found = _audit().stats(query)
    if flags["as_json"]:
        terminal.show_json(found.as_json())
        return 0
    if not found.decisions:
        terminal.show("no decision is recorded that matches")
        return 0
    terminal.show(f"{found.decisions} decisions, {100 * found.denial_rate:.1f} % denied")
    days = dict(list(found.days.items())[-_DAYS:])
    groups = (("day (UTC)", days), ("tool", found.tools), ("agent", found.agents))
    for title, group in (*groups, ("rule", found.rules)):
        rows = list(group.items())
        terminal.show("\n" + counted(title, rows if title.startswith("day") else rows[:_TOP]))
    return 0


def counted(title: str, rows: list[tuple[str, dict[str, int]]]) -> str:
    """Return a table of counts by verdict."""
    from sandbox.present.tables import table

    verdicts = ("allow", "report", "ask", "deny")
    cells = [
        (safe_line(name), *(str(counts.get(verdict, 0)) for verdict in verdicts))
        for name, counts in rows
    ]
    return table((title, *verdicts), cells)


@audit.command(short_help="Close what a crash left; accept what was lost.")
@click.option("--set-aside", is_flag=True, help="Keep a broken log as it is, and begin a new one.")
@click.option("--yes", is_flag=True, help="Say yes without being asked.")
@JSON
def repair(**flags: bool) -> int:
    """Mend the record, with your name in it: cut off a last line that was never finished, accept
    that lines were lost. A record that is broken in its middle is only set aside as a whole.

    \b
    Examples:
      lockgate audit repair
      lockgate audit repair --set-aside --yes
    """
    from sandbox.audit.repair import repair as mend
    from sandbox.audit.store import Store

    store = Store(terminal.dirs())
    wrong = store.verify()
    done: list[str] = []
    if wrong is not None:
        terminal.say(wrong)
        if terminal.is_an_agents():
            terminal.say("an agent cannot do this; a person repairs the record")
            return terminal.REFUSED
        if not flags["yes"] and not terminal.agree(
            "Accept that, and write so into the record?",
            alone="a repair needs your yes; give it at a terminal or with `--yes`",
            no="not repaired",
        ):
            return terminal.REFUSED
        done = mend(store, by=terminal.user(), set_aside=flags["set_aside"])
    if flags["as_json"]:
        terminal.show_json({"file": str(store.log), "broken": wrong, "done": done})
        return 0
    for line in done or ("whole; nothing to repair",):
        terminal.show(f"{store.log}: {safe_line(line)}")
    return 0


@audit.command(short_help="Make the index of the record anew.")
def reindex() -> int:
    """Make the index anew from the record. It is made by itself where it is missing or wrong.

    \b
    Example:
      lockgate audit reindex
    """
    _audit().reindex()
    terminal.show("the index is made")
    return 0


def _audit() -> Audit:
    from sandbox.audit.reader import Audit

    def said(lines: int) -> None:
        if lines % 100_000 == 0:
            terminal.say(f"{lines} lines of the record are indexed")

    return Audit(terminal.dirs(), said=said)
