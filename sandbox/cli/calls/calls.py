# SPDX-License-Identifier: Apache-2.0
"""Commands that read the record of calls: what was decided, run and landed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from sandbox.cli import terminal
from sandbox.cli.calls.choosing import everywhere, last_here
from sandbox.operations.requests import LookHeldRequest
from sandbox.text.terminal import safe, safe_block, safe_line

if TYPE_CHECKING:
    from sandbox.audit.call_entry import CallEntry
    from sandbox.audit.store import Store

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
MOST_NAMED = 10
"""Paths that one line names."""
SESSION_CHARS = 8
"""Of a session's id, in a list: a beginning is enough to name it."""
CALL = click.argument("call", metavar="CALL")


@click.command(short_help="List what was decided, run and landed.")
@click.option("-n", "--limit", default=20, type=click.IntRange(min=1), help="How many calls.")
@click.option("--agent", metavar="ID", help="Only calls of this agent.")
@click.option("--tool", metavar="NAME", help="Only calls of this tool.")
@click.option(
    "--verdict", type=click.Choice(["allow", "report", "ask", "deny"]), help="Only this verdict."
)
@click.option(
    "--session",
    is_flag=False,
    flag_value="last",
    metavar="[ID]",
    help="Only this session of an agent; without an ID the newest one.",
)
@click.option("--since", metavar="TIME", help="Only from then on: 2h, 3d, or ISO 8601.")
@click.option("--held", is_flag=True, help="Only what waits for a person to land or discard it.")
@JSON
def log(
    limit: int,
    agent: str | None,
    tool: str | None,
    verdict: str | None,
    session: str | None,
    since: str | None,
    **flags: bool,
) -> int:
    """List the calls and undos of the record, newest first, and what was changed around Lockgate.

    \b
    Examples:
      lockgate log
      lockgate log --held
      lockgate log --session
      lockgate log --since 2h
      lockgate log --verdict deny --limit 5
      lockgate log --agent coder --json
    """
    from sandbox.audit.query import Query, instant, seconds_of
    from sandbox.present.render import VERDICT_STYLE, brief, ended, sent, subject
    from sandbox.present.tables import table

    start = instant(since, time.time())
    some = not (agent is tool is verdict is session is None) or flags["held"]
    verdicts = frozenset((verdict,)) if verdict else None
    store = _store()
    whole = None if session is None else store.session(session)
    wanted = Query(verdicts, tool, agent, session=whole, since=start, limit=limit)
    every = not some and start is None
    entries = store.calls(limit=limit) if every else store.search(wanted, held=flags["held"])
    if flags["as_json"]:
        terminal.show_json([entry.model_dump() for entry in entries])
        return 0
    shown_from = str(entries[-1].ts or "") if len(entries) == limit else ""
    around = [] if some else store.tampered(shown_from)
    if start is not None:
        around = [record for record in around if seconds_of(record.ts or "") >= start]
    if not entries and not around:
        terminal.show("no call is recorded" + ("" if every else " that matches"))
        return 0
    networks = ("sent",) if any(entry.connections for entry in entries) else ()
    sessions = ("session",) if any(entry.session for entry in entries) else ()
    rows: list[tuple[str, ...]] = [
        (
            entry.id,
            str(entry.ts or "")[:19],
            entry.agent or "",
            subject(entry),
            entry.verdict or "",
            ", ".join(entry.rules or ())[:30],
            ended(entry),
            *((sent(entry),) if networks else ()),
            *(((entry.session or "")[:SESSION_CHARS],) if sessions else ()),
            brief(entry.changes or (), total=entry.changes_total),
        )
        for entry in entries
    ]
    rows += [
        (
            "",
            str(record.ts or "")[:19],
            "",
            f"around Lockgate, in {record.workspace}",
            "",
            record.rule or "",
            "put back" if record.restored else "left so",
            *("" for _ in (*networks, *sessions)),
            brief(({"kind": record.kind, "path": record.path},)),
        )
        for record in around
    ]
    if around:
        rows.sort(key=lambda row: row[1], reverse=True)
    columns = ("id", "when", "agent", "call", "verdict", "rules", "outcome", *networks, *sessions,
               "changes")  # fmt: skip
    terminal.show(table(columns, rows, styles=VERDICT_STYLE))
    return 0


@click.command(short_help="Show one call: decision, output, diff.")
@CALL
@click.option("--output", "part", flag_value="output", help="Only what it wrote.")
@click.option("--diff", "part", flag_value="diff", help="Only the diff.")
@click.option("--before", metavar="PATH", help="Only what a file held before, byte for byte.")
@click.option("--raw", is_flag=True, help="With --output: byte for byte.")
@everywhere
@JSON
def show(call: str, part: str | None, before: str | None, **flags: bool) -> int:
    """Show what was decided about CALL and why, what it wrote, and what it changed.

    CALL is an id of `lockgate log`, a beginning of one, or `last`: the last call of the workspace
    you are in. Of a held call a person at a terminal is shown what it would change now; that is
    what `lockgate land` lands.

    \b
    Examples:
      lockgate show last
      lockgate show last --diff
      lockgate show 4f1c --output --raw > log.txt
      lockgate show 4f1c --before src/a.py > src/a.py
    """
    from sandbox.audit.query import seconds_of

    if before is not None:
        terminal.only_a_person("reading what is kept of files")
    store = _store()
    if call == "last":
        call = last_here(everywhere=flags["all_workspaces"], what="recorded", fits=_is_call)
    entry = store.call(call)
    if before is not None:
        from sandbox.calls.edits.kept_contents import read_before

        terminal.show_bytes(read_before(entry.workspace or "", entry.id, before))
        return 0
    if entry.is_held and part != "output" and terminal.person_present():
        _look_anew(entry.id)
        entry = store.call(entry.id)
    stdout, stderr = store.output(entry.id)
    diff = store.diff(entry.id)
    gone = store.dropped(entry.id, seconds_of(entry.ts or ""))
    if gone:
        terminal.say("what calls of that time wrote is no longer kept (`outputs_mib`)")
    if flags["as_json"]:
        texts = {"stdout": safe(stdout), "stderr": safe(stderr), "diff": diff, "dropped": gone}
        terminal.show_json({**entry.model_dump(), **texts})
        return 0
    if part == "output":
        terminal.show_bytes(stdout if flags["raw"] else safe(stdout).encode())
        terminal.show_bytes(stderr if flags["raw"] else safe(stderr).encode(), to_stderr=True)
        return 0
    if part == "diff":
        if diff:
            terminal.show(safe_block(diff).rstrip("\n"))
        elif not gone:
            terminal.say("no diff of it is kept" if entry.changes else "it changed nothing")
        return 0
    from sandbox.present.render import record

    terminal.show(record(entry, safe(stdout), safe(stderr), diff))
    return 0


def _is_call(entry: CallEntry) -> bool:
    """Whether an entry of the record is a call, and no undo or landing of a part."""
    return not (entry.undone or entry.of)


def _look_anew(call: str) -> None:
    """Have a held call looked at as things stand: what is shown from then on may land (P8)."""
    from sandbox.errors import SandboxError

    try:
        with terminal.client() as client:
            look = client.ask(LookHeldRequest(call))
    except SandboxError as error:
        terminal.say(f"shown as it was when it was held; it could not be looked at now: {error}")
        return
    if look["differs"]:
        names = ", ".join(f"`{safe_line(one)}`" for one in look["differs"][:MOST_NAMED])
        terminal.say(f"not what was shown before: {names}")


def _store() -> Store:
    from sandbox.audit.store import Store

    return Store(terminal.dirs())
