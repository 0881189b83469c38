# SPDX-License-Identifier: Apache-2.0
"""Commands about what becomes of a call: held, land, discard, object, undo, end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from sandbox.cli import terminal
from sandbox.cli.calls.choosing import (
    HELD,
    choosing,
    chosen_of,
    everywhere,
    in_no_workspace,
    last_here,
    workspace_here,
)
from sandbox.errors import BadInput
from sandbox.operations.requests import (
    DiscardRequest,
    EndRequest,
    HeldRequest,
    LandRequest,
    ObjectRequest,
    Request,
    UndoChosenRequest,
    UndoLastRequest,
    UndoRequest,
)
from sandbox.text.durations import say_duration
from sandbox.text.terminal import cut, safe_block, safe_line

if TYPE_CHECKING:
    from sandbox.audit.call_entry import CallEntry
    from sandbox.audit.store import Store

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
CALL = click.argument("call", metavar="CALL")
CONFIRM = click.option("--yes", is_flag=True, help="Do not ask; needs a terminal all the same.")
_WHY_CHARS = 120
NOTHING_LANDED = "no call has landed anything that could be undone"


@click.command(short_help="Take back what calls landed.")
@click.argument("call", metavar="[CALL]", required=False)
@click.option(
    "--last",
    "count",
    type=click.IntRange(min=1),
    metavar="N",
    help="The last N landed calls, of all agents, in the workspace you are in.",
)
@choosing
@click.option(
    "--all-workspaces", is_flag=True, help="In every workspace, not in the one you are in alone."
)
@click.option("--dry-run", is_flag=True, help="Show what it would change; change nothing.")
@JSON
def undo(call: str | None, count: int | None, **options: Any) -> int:
    """Put back what CALL changed, exactly; refused where a later change would be lost.

    CALL is an id of `lockgate log`, a beginning of one, or `last`: the last call whose changes
    stand, in the workspace you are in. Where the last thing done there was an undo, `last` takes
    back nothing further: it names the call before. An undo is in the log as well; to undo it does
    the call again. With --last, calls are undone newest first, until one cannot be; the status is
    1 then.

    With --session (without an ID: the newest one here), --agent, --since, --workspace, or several
    of them, all that fits is undone, whatever door it came through, and also what agents edited
    with tools of their own. What cannot be undone stays and is named; the status is 1 then. That
    is a person's decision.

    \b
    Examples:
      lockgate undo last
      lockgate undo 4f1c --dry-run
      lockgate undo --last 3
      lockgate undo --session --dry-run
      lockgate undo --agent main:sub:7 --since 2h
    """
    here = None if options["all_workspaces"] else workspace_here()
    every = bool(options["all_workspaces"])
    wanted = chosen_of(options, here, everywhere=every)
    if (call is not None) + (count is not None) + bool(wanted) != 1:
        raise BadInput("give CALL, `--last N`, or what to choose by: --session, --agent, ...")
    if here is None and not every and not ({"session", "workspace"} & wanted.keys()):
        _check_named(call, count)
    dry_run = {"dry_run": options["dry_run"]}
    with terminal.patient_client() as client:
        if call is not None:
            name = call if call != "last" else _last_landed(here)
            result = client.ask(UndoRequest(name, **dry_run))
            if options["as_json"]:
                terminal.show_json(result)
            else:
                _show_undone(result)
            return 0
        if wanted:
            report = client.ask(UndoChosenRequest(**wanted, **dry_run))
        else:
            assert count is not None  # else CALL is given
            report = client.ask(UndoLastRequest(count, workspace=here, **dry_run))
    if options["as_json"]:
        terminal.show_json(report)
    elif wanted and options["dry_run"]:
        _show_all(report)
    else:
        _show_each(report)
    return terminal.REFUSED if report["stopped"] or report["stay"] else 0


def _check_named(call: str | None, count: int | None) -> None:
    """Check that an undo outside of every workspace says what is to be undone. Raises BadInput."""
    if call not in (None, "last"):
        return
    if call is None and count is None:  # by agent or time
        raise BadInput(
            "you are in no workspace; name one (`-w PATH`), or give `--all-workspaces` to undo in "
            "every one"
        )
    standing = _store().landed(1)
    if not standing:
        raise BadInput(NOTHING_LANDED)
    raise BadInput(in_no_workspace(standing[0].model_dump(), "landed"))


def _last_landed(workspace: str | None) -> str:
    store = _store()
    standing = store.landed(1, workspace)
    if (again := store.undone_last(workspace)) is not None:
        raise BadInput(_undone_already(again, standing[0] if standing else None))
    if standing:
        return standing[0].id
    if workspace is None:
        raise BadInput(NOTHING_LANDED)
    raise BadInput(
        f"no call has landed anything in `{workspace}` that could be undone; `--all-workspaces` "
        "looks everywhere"
    )


def _undone_already(call: CallEntry, before: CallEntry | None) -> str:
    """Say that `last` names a call that is undone, and what stands before it."""
    from sandbox.present.render import subject

    again = f"`lockgate undo {call.undone_by}` does it again"
    further = (
        f"`lockgate undo {before.id}` also takes back the one before it ({subject(before)})"
        if before is not None
        else "no call before it has landed anything that stands here; `--all-workspaces` looks "
        "everywhere"
    )
    return f"the last, `{call.id}` ({subject(call)}), is undone already; {further}; {again}"


def _show_each(report: Mapping[str, Any]) -> None:
    for result in report["done"]:
        _show_undone(result, _recorded(result["undone"]))
    if report["stopped"]:
        terminal.say(report["stopped"])
        terminal.say(f"not undone: {', '.join(report['left'])}")
    _say_staying(report)


def _show_all(report: Mapping[str, Any]) -> None:
    """Show what an undo of several calls would change, as one diff."""
    from sandbox.present.render import changes

    calls = ", ".join(result["undone"] for result in report["done"])
    terminal.show(f"an undo of {len(report['done'])} calls would change ({calls}):")
    terminal.show(changes(report["changes"]) or "  nothing that differs from now")
    if report["diff"]:
        terminal.show(safe_block(report["diff"]).rstrip("\n"))
    _say_staying(report)


def _say_staying(report: Mapping[str, Any]) -> None:
    for call in report["stay"]:
        terminal.say(f"stays: {call['because']}")


def _recorded(call: str) -> CallEntry | None:
    try:
        return _store().call(call)
    except BadInput:  # its records went away with an old file of the log
        return None


def _show_undone(result: Mapping[str, Any], call: CallEntry | None = None) -> None:
    from sandbox.present.render import changes

    whose = safe_line(f" of {call.agent} in {call.workspace}") if call else ""
    if result["id"]:
        terminal.show(
            f"undone {result['undone']}{whose}; `lockgate undo {result['id']}` does it again"
        )
    else:
        note = f" ({safe_line(result['message'])})" if result.get("message") else ""
        terminal.show(f"an undo of {result['undone']}{whose} would change{note}:")
    if result["changes"]:
        terminal.show(changes(result["changes"], total=result.get("changes_total")))
    if result.get("diff"):
        terminal.show(safe_block(result["diff"]).rstrip("\n"))


@click.command(short_help="List what waits for a person to land or discard it.")
@JSON
def held(**flags: bool) -> int:
    """List what waits for a person: calls that gate 2 held, and proposals.

    `lockgate show CALL` shows one, `lockgate land CALL [PATH...]` lands it or a part of it,
    `lockgate discard CALL` throws it away.

    \b
    Examples:
      lockgate held
      lockgate held --json
    """
    from sandbox.present.render import short_names, subject
    from sandbox.present.tables import table

    with terminal.client() as client:
        client.keep_running()
        found = client.ask(HeldRequest())
    if flags["as_json"]:
        terminal.show_json(found)
        return 0
    if not found:
        terminal.show("nothing waits")
        return 0
    known = {entry.id: entry for entry in _store().held()}
    places = short_names({one["workspace"] for one in found})
    rows = [
        (
            one["id"],
            say_duration(one["age"]),
            one["agent"],
            subject(known[one["id"]]) if one["id"] in known else "",
            one["changes"],
            _size(one["bytes"]),
            *((places[one["workspace"]],) if len(places) > 1 else ()),
            _why(one),
        )
        for one in found
    ]
    where = ("workspace",) if len(places) > 1 else ()
    columns = ("id", "age", "agent", "call", "changes", "size", *where, "why")
    terminal.show(table(columns, rows))
    return 0


def _why(one: Mapping[str, Any]) -> str:
    why = "proposal" if one["proposal"] else cut(str(one["because"]), _WHY_CHARS)
    if one["there"] and one["note"]:
        return "; ".join(filter(None, (why, str(one["note"])))).strip()
    return str(one["note"] or why)


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


@click.command(short_help="Land a held call's changes, or some of them.")
@CALL
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option(
    "--force",
    is_flag=True,
    help="Also over files that changed meanwhile; what is there is kept for an undo.",
)
@everywhere
@CONFIRM
@JSON
def land(call: str, paths: tuple[str, ...], **flags: bool) -> int:
    """Land what is held of CALL (`last`: the last held one of the workspace you are in), or only
    the PATHs in it.

    A PATH is relative to the workspace, as `lockgate show CALL` lists it: a file, a folder with all
    it holds, or a glob (`*` within one name, `**` through folders). A move lands with both of its
    ends. The rest stays held. That is a person's decision: it needs a terminal.

    \b
    Examples:
      lockgate show last --diff
      lockgate land last
      lockgate land 4f1c src/ 'docs/**/*.md'
    """
    entry = _store().call(_held_one(call, everywhere=flags["all_workspaces"]))
    terminal.require_person("landing what was held")
    if not flags["yes"]:
        from sandbox.present.render import changes

        total = entry.changes_total
        terminal.show(changes(entry.changes or (), total=total))
        what = f" {len(paths)} of its paths" if paths else ""
        if not terminal.ask(f"Land{what and what + ' of'} {entry.id}?"):
            terminal.say("not landed")
            return terminal.REFUSED
    digest = entry.shown_digest  # P8: what stands there now, and above
    request = LandRequest(entry.id, paths, force=flags["force"], digest=digest)
    return _settle(request, as_json=flags["as_json"])


@click.command(short_help="Throw a held call's changes away.")
@CALL
@everywhere
@JSON
def discard(call: str, **flags: bool) -> int:
    """Throw away what is held of CALL (`last`: the last held one of the workspace you are in), or
    what waits to land.

    \b
    Example:
      lockgate discard last
    """
    if call == "last":
        call = _held_one(call, everywhere=flags["all_workspaces"])
    return _settle(DiscardRequest(call), as_json=flags["as_json"])


@click.command("object", short_help="Object to changes that wait to land.")
@CALL
@click.option("--because", default="", metavar="TEXT", help="What the agent is told.")
@JSON
def object_(call: str, because: str, **flags: bool) -> int:
    """Object to CALL (`last`: the newest) while its changes wait to land: they are thrown away.

    Changes of `semi-auto` agents wait for some seconds; `lockgate ps` shows which do.

    \b
    Examples:
      lockgate object last
      lockgate object 4f1c --because 'keep the old name'
    """
    return _settle(ObjectRequest(call, because), as_json=flags["as_json"])


@click.command(short_help="End a background call and land its changes.")
@CALL
@everywhere
@JSON
def end(call: str, **flags: bool) -> int:
    """End the background call CALL (`last`: the last that goes on in the workspace you are in); its
    changes are judged and land.

    \b
    Examples:
      lockgate run --background -- npm run dev
      lockgate end last
    """
    if call == "last":
        name = _last_going_on(everywhere=flags["all_workspaces"])
    else:
        name = _store().call(call).id
    return _settle(EndRequest(name), as_json=flags["as_json"])


_DONE = {"land": "landed", "discard": "discarded", "object": "discarded", "end": "ended"}


def _settle(request: Request[Any], *, as_json: bool) -> int:
    from sandbox.present.render import changes

    with terminal.patient_client() as client:
        if request.op in ("end", "object"):  # a call of the supervisor that runs, and of no other
            client.keep_running()
        result = client.ask(request)
    if as_json:
        terminal.show_json(result)
        return 0
    note = f": {safe_line(result['message'])}" if result.get("message") else ""
    terminal.show(f"{_DONE[request.op]} {result['id']}{note}")
    if result["changes"]:
        terminal.show(changes(result["changes"], total=result.get("changes_total")))
    return 0


def is_held(call: CallEntry) -> bool:
    """Whether a call waits for a person to land or discard it."""
    return call.is_held


def _held_one(call: str, *, everywhere: bool) -> str:
    """Return the whole id that a person means; `last` is the last held call, here."""
    if call != "last":
        return _store().call(call).id
    return last_here(everywhere=everywhere, what=HELD, fits=is_held)


def _last_going_on(*, everywhere: bool) -> str:
    """Return the id of the newest background call that goes on here, as the supervisor has it.

    Raises BadInput where there is none, or one is in no workspace.
    """
    from sandbox.client.blocking import running_now

    here = None if everywhere else workspace_here()
    running = [one for one in running_now(terminal.dirs())["running"] if one.get("background")]
    some = [one for one in running if here in (None, one["workspace"])]
    if not some:
        more = f" in `{here}`; `--all-workspaces` looks everywhere" if here else ""
        raise BadInput(f"no call goes on in the background{more}")
    newest = max(some, key=lambda one: float(one["started"]))
    if here is None and not everywhere:
        raise BadInput(in_no_workspace(newest, "going on"))
    return str(newest["id"])


def _store() -> Store:
    from sandbox.audit.store import Store

    return Store(terminal.dirs())
