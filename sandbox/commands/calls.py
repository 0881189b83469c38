# SPDX-License-Identifier: Apache-2.0
"""Commands about calls: what goes on, what was done, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from sandbox.client import BlockingClient
from sandbox.commands import terminal
from sandbox.errors import BadInput
from sandbox.text import safe, safe_block, safe_line

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
CALL = click.argument("call", metavar="CALL")
CONFIRM = click.option("--yes", is_flag=True, help="Do not ask; needs a terminal all the same.")
ALL = 1_000_000
"""More calls than a record holds, for a search through all of it."""


@click.command(short_help="List what was decided, run and landed.")
@click.option("-n", "--limit", default=20, type=click.IntRange(min=1), help="How many calls.")
@click.option("--agent", metavar="ID", help="Only calls of this agent.")
@click.option("--tool", metavar="NAME", help="Only calls of this tool.")
@click.option(
    "--verdict", type=click.Choice(["allow", "report", "ask", "deny"]), help="Only this verdict."
)
@JSON
def log(limit: int, agent: str | None, tool: str | None, verdict: str | None, **flags: bool) -> int:
    """List the calls of the record, newest first.

    \b
    Examples:
      lockgate log
      lockgate log --verdict deny --limit 5
      lockgate log --agent coder --json
    """
    from sandbox.show import VERDICT_STYLE, brief, ended, subject, table

    wanted = {"agent": agent, "tool": tool, "verdict": verdict}
    filters = {key: value for key, value in wanted.items() if value is not None}
    calls = _store().calls(limit=limit if not filters else ALL)
    found = [one for one in calls if all(one.get(k) == v for k, v in filters.items())][:limit]
    if flags["as_json"]:
        terminal.show_json(found)
        return 0
    if not found:
        terminal.show("no call is recorded" + (" that matches" if filters else ""))
        return 0
    rows = [
        (
            one["id"],
            str(one.get("ts") or "")[:19],
            one.get("agent") or "",
            subject(one),
            one.get("verdict") or "",
            ", ".join(one.get("rules") or ())[:30],
            ended(one),
            brief(one.get("changes") or ()),
        )
        for one in found
    ]
    columns = ("id", "when", "agent", "call", "verdict", "rules", "outcome", "changes")
    terminal.show(table(columns, rows, styles=VERDICT_STYLE))
    return 0


@click.command(short_help="Show one call: decision, output, diff.")
@CALL
@click.option("--output", "part", flag_value="output", help="Only what it wrote.")
@click.option("--diff", "part", flag_value="diff", help="Only the diff.")
@click.option("--raw", is_flag=True, help="With --output: byte for byte.")
@JSON
def show(call: str, part: str | None, **flags: bool) -> int:
    """Show what was decided about CALL and why, what it wrote, and what it changed.

    CALL is an id of `lockgate log`, a beginning of one, or `last`.

    \b
    Examples:
      lockgate show last
      lockgate show last --diff
      lockgate show 4f1c --output --raw > log.txt
    """
    store = _store()
    found = store.call(call)
    stdout, stderr = store.output(found["id"])
    diff = store.diff(found["id"])
    if flags["as_json"]:
        texts = {"stdout": safe(stdout), "stderr": safe(stderr), "diff": diff}
        terminal.show_json({**found, **texts})
        return 0
    if part == "output":
        terminal.show_bytes(stdout if flags["raw"] else safe(stdout).encode())
        terminal.show_bytes(stderr if flags["raw"] else safe(stderr).encode(), to_stderr=True)
        return 0
    if part == "diff":
        terminal.show(safe_block(diff).rstrip("\n"))
        return 0
    from sandbox.show import record

    terminal.show(record(found, safe(stdout), safe(stderr), diff))
    return 0


@click.command(short_help="Take back what a call landed.")
@CALL
@JSON
def undo(call: str, **flags: bool) -> int:
    """Put back what CALL changed, exactly; refused where a later change would be lost.

    CALL is an id of `lockgate log`, a beginning of one, or `last`: the last call that landed.

    \b
    Examples:
      lockgate undo last
      lockgate undo 4f1c
    """
    from sandbox.show import changes

    with BlockingClient(terminal.dirs()) as client:
        result = client.exchange("undo", {"call": call})
    if flags["as_json"]:
        terminal.show_json(result)
        return 0
    terminal.show(f"undone {result['undone']}; `lockgate undo {result['id']}` does it again")
    if result["changes"]:
        terminal.show(changes(result["changes"]))
    return 0


@click.command(short_help="Land a held call's changes.")
@CALL
@CONFIRM
@JSON
def land(call: str, **flags: bool) -> int:
    """Land what gate 2 held of CALL (`last`: the last held one).

    That is a person's decision: it needs a terminal.

    \b
    Examples:
      lockgate show last --diff
      lockgate land last
    """
    found = _store().call(_identity(call, held))
    if not terminal.person_present():
        terminal.say("landing what was held is a person's decision and needs a terminal")
        return terminal.NOT_PERMITTED
    if not flags["yes"]:
        from sandbox.show import changes

        terminal.show(changes(found.get("changes") or ()))
        if not terminal.ask(f"Land {found['id']}?"):
            terminal.say("not landed")
            return terminal.REFUSED
    return _settle("land", found["id"], as_json=flags["as_json"])


@click.command(short_help="Throw a held call's changes away.")
@CALL
@JSON
def discard(call: str, **flags: bool) -> int:
    """Throw away what gate 2 held of CALL (`last`: the last held one).

    \b
    Example:
      lockgate discard last
    """
    return _settle("discard", _identity(call, held), as_json=flags["as_json"])


@click.command(short_help="End a background call and land its changes.")
@CALL
@JSON
def end(call: str, **flags: bool) -> int:
    """End the background call CALL; its changes are judged and land.

    \b
    Examples:
      lockgate run --background -- npm run dev
      lockgate end last
    """
    return _settle("end", _identity(call, unfinished), as_json=flags["as_json"])


def _settle(what: str, call: str, *, as_json: bool) -> int:
    from sandbox.show import changes

    with BlockingClient(terminal.dirs()) as client:
        result = client.exchange(what, {"call": call})
    if as_json:
        terminal.show_json(result)
        return 0
    done = {"land": "landed", "discard": "discarded", "end": "ended"}[what]
    note = f": {safe_line(result['message'])}" if result.get("message") else ""
    terminal.show(f"{done} {result['id']}{note}")
    if result["changes"]:
        terminal.show(changes(result["changes"]))
    return 0


def held(call: Mapping[str, Any]) -> bool:
    """Whether a call waits for a person to land or discard it."""
    return call.get("judgement") == "hold" and not call.get("landed")


def unfinished(call: Mapping[str, Any]) -> bool:
    """Whether a call has no outcome yet."""
    return call.get("ending") is None


def _identity(call: str, fits: Callable[[Mapping[str, Any]], bool]) -> str:
    """Return the whole id that a person means; `last` is the last call that fits."""
    if call != "last":
        return str(_store().call(call)["id"])
    for one in _store().calls(limit=ALL):
        if fits(one):
            return str(one["id"])
    raise BadInput(f"no call is {fits.__name__}")


def _store() -> Any:
    from sandbox.store import Store

    return Store(terminal.dirs())
