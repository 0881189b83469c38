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
from sandbox.text.terminal import safe_line
from sandbox.workspaces.registry import Registry

if TYPE_CHECKING:
    from sandbox.guard.guard import GuardSettings, Tampering


@click.command(short_help="Tell changes of protected files that no landing made.")
@click.option("--once", is_flag=True, help="Look once, against the last look, and end.")
@click.option("--restore", is_flag=True, help="Put the last known content back.")
@click.option(
    "-w", "--workspace", "paths", metavar="PATH", multiple=True, help="Only this workspace."
)
@click.option("--json", "as_json", is_flag=True, help="Print each change as a line of JSON.")
def guard(paths: tuple[str, ...], **flags: bool) -> int:
    """Watch the protected files of the registered workspaces until it is ended.

    A change that no landing or undo made, by a tool that went around Lockgate or by a person, is
    recorded and told; what changed while no guard ran is told at the start. With --once the status
    is 1 when there is such a change, 125 when a workspace cannot be looked at.

    \b
    Examples:
      lockgate guard
      lockgate guard --restore -w ~/project
      lockgate guard --once --json
    """
    from sandbox.gates.policy_files import Policies
    from sandbox.guard.guard import Guard

    dirs = terminal.dirs()
    registry = Registry(dirs)
    wanted = [registry.find(path).path for path in paths] if paths else None

    def tell(one: Tampering) -> None:
        if flags["as_json"]:
            terminal.show(json.dumps(one.record().as_json()))
        else:
            terminal.say(line(one))

    settings = _settings(load_settings(dirs), restore=flags["restore"])
    policies = Policies(dirs)
    guarding = Guard(
        dirs,
        workspaces=wanted,
        settings=settings,
        paths=lambda root: policies.paths((root,)),
        say=terminal.say,
        tell=tell,
    )
    if flags["once"]:
        told = guarding.look()
        if guarding.failed:
            return terminal.FAILED
        if not told and not flags["as_json"]:
            terminal.show("no protected file was changed around Lockgate")
        return terminal.REFUSED if told else 0
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


def line(one: Tampering) -> str:
    """Return one change as a person reads it."""
    done = {
        "created": "was created",
        "modified": "was changed",
        "deleted": "was deleted",
        "replaced": "was replaced by something else",
        "mode": "got another mode or owner",
        "linked": "got a second name, through which it can be changed",
    }[one.kind]
    end = "it is put back" if one.restored else "it was left so"
    if one.note:
        end = f"it could not be put back: {one.note}"
    kept = f"; what was found is in `{one.kept}`" if one.kept and one.restored else ""
    return (
        f"`{safe_line(one.path)}` in `{safe_line(one.workspace)}` {done} and no landing did it "
        f"({one.rule}): {end}{kept}"
    )


def _settings(settings: Settings, *, restore: bool) -> GuardSettings:
    from sandbox.guard.guard import GuardSettings

    found = getattr(settings, "guard", None)
    mine = found if isinstance(found, GuardSettings) else GuardSettings()
    return mine.model_copy(update={"restore": True}) if restore else mine
