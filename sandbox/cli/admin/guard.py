# SPDX-License-Identifier: Apache-2.0
"""`lockgate guard`: tell changes of protected files that no landing made."""

from __future__ import annotations

import json
import signal
import threading
from typing import TYPE_CHECKING

import click

from sandbox.cli import terminal
from sandbox.config.settings import Settings, load_settings
from sandbox.errors import BadInput
from sandbox.text.terminal import safe_line
from sandbox.workspaces.registry import Registry

if TYPE_CHECKING:
    from sandbox.audit.events.protected import TamperedRecord
    from sandbox.guard.guard import GuardSettings, Tampering


@click.command(short_help="Tell changes of protected files that no landing made.")
@click.option(
    "--once", is_flag=True, help="Look once, list what nobody has acknowledged yet, and end."
)
@click.option("--acknowledge", is_flag=True, help="List the same; it is told no more after a yes.")
@click.option("--yes", is_flag=True, help="With --acknowledge: do not ask; needs a terminal.")
@click.option("--restore", is_flag=True, help="Put the last known content back.")
@click.option(
    "-w", "--workspace", "paths", metavar="PATH", multiple=True, help="Only this workspace."
)
@click.option("--json", "as_json", is_flag=True, help="Print each change as a line of JSON.")
def guard(paths: tuple[str, ...], **flags: bool) -> int:
    """Watch the protected files of the registered workspaces until it is ended.

    A change that no landing or undo made, by a tool that went around Lockgate or by a person, is
    recorded and told; what changed while no guard ran is told at the start. --once lists such
    changes, also those that the supervisor's guard has told, until a person acknowledges them: the
    status is 1 when there are some, 125 when a workspace cannot be looked at.

    \b
    Examples:
      lockgate guard
      lockgate guard --restore -w ~/project
      lockgate guard --once --json
      lockgate guard --acknowledge
    """
    from sandbox.audit.open_changes import OpenChanges
    from sandbox.gates.policy_files import Policies
    from sandbox.guard.guard import Guard

    if flags["acknowledge"]:
        terminal.require_person("acknowledging what was changed around Lockgate")
    dirs = terminal.dirs()
    registry = Registry(dirs)
    wanted = [registry.find(path).path for path in paths] if paths else None

    def tell(one: Tampering) -> None:
        if flags["as_json"]:
            terminal.show(json.dumps(one.record().as_json()))
        else:
            terminal.say(line(one.record()))

    settings = _settings(load_settings(dirs), restore=flags["restore"])
    policies = Policies(dirs)
    guarding = Guard(
        dirs,
        workspaces=wanted,
        settings=settings,
        paths=lambda root: policies.paths((root,)),
        say=terminal.say,
        tell=(lambda _: None) if flags["once"] or flags["acknowledge"] else tell,
    )
    if flags["once"] or flags["acknowledge"]:
        guarding.look()
        records = OpenChanges(dirs).read()
        here = [
            tampered_record
            for tampered_record in records
            if wanted is None or tampered_record.workspace in wanted
        ]
        for one in here:
            terminal.show(json.dumps(one.as_json()) if flags["as_json"] else line(one))
        if flags["acknowledge"] and here:
            return _acknowledge(records, here, ask=not flags["yes"])
        if guarding.failed:
            return terminal.FAILED
        if not here and not flags["as_json"]:
            terminal.show("no protected file was changed around Lockgate")
        if here and not flags["as_json"]:
            terminal.say("told until a person has seen it: `lockgate guard --acknowledge`")
        return terminal.REFUSED if here else 0
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())

    def said() -> None:
        guarding.ready.wait()
        if not stopping.is_set():
            count = guarding.guarded
            terminal.say(
                f"guards {count} protected path{'' if count == 1 else 's'}; Ctrl-C ends it"
            )

    threading.Thread(target=said, daemon=True).start()
    guarding.run(stopping)
    return 0


def line(one: TamperedRecord) -> str:
    """Return one change as a person reads it."""
    done = {
        "created": "was created",
        "modified": "was changed",
        "deleted": "was deleted",
        "replaced": "was replaced by something else",
        "mode": "got another mode or owner",
        "linked": "got a second name, through which it can be changed",
    }.get(one.kind or "", "was changed")
    end = "it is put back" if one.restored else "it was left so"
    if one.note:
        end = f"it could not be put back: {safe_line(one.note)}"
    kept = f"; what was found is in `{safe_line(one.kept)}`" if one.kept and one.restored else ""
    when = f"{one.ts[:19].replace('T', ' ')}  " if one.ts else ""
    return (
        f"{when}`{safe_line(one.path)}` in `{safe_line(one.workspace)}` {done} and no landing did "
        f"it ({one.rule}): {end}{kept}"
    )


def _acknowledge(found: list[TamperedRecord], here: list[TamperedRecord], *, ask: bool) -> int:
    """Record that a person has seen all that is open; what comes meanwhile stays open."""
    from sandbox.audit.events.protected import AcknowledgedRecord
    from sandbox.audit.store import Store

    if len(here) != len(found):
        raise BadInput("changes of other workspaces are open too; leave `--workspace` out")
    if ask and not terminal.ask("Have you seen all of these, so that they are told no more?"):
        terminal.say("they are told on")
        return terminal.REFUSED
    until = max(tampered_record.n or 0 for tampered_record in found)
    record = AcknowledgedRecord(until=until, by=terminal.user())
    Store(terminal.dirs()).append(record, durable=True)
    terminal.show(f"acknowledged {len(found)} change{'' if len(found) == 1 else 's'}")
    return 0


def _settings(settings: Settings, *, restore: bool) -> GuardSettings:
    from sandbox.guard.guard import GuardSettings

    found = getattr(settings, "guard", None)
    mine = found if isinstance(found, GuardSettings) else GuardSettings()
    return mine.model_copy(update={"restore": True}) if restore else mine
