# SPDX-License-Identifier: Apache-2.0
"""`lockgate clean`: move a folder that git ignores out of the way, so that it can come back."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Literal

import click

from sandbox.cli import terminal
from sandbox.errors import BadInput
from sandbox.text.terminal import safe_line

if TYPE_CHECKING:
    from sandbox.gates.cleaning import Cleaned


@click.command(short_help="Move a folder that git ignores out of a workspace.")
@click.argument("path", required=False)
@click.option("--back", metavar="ID", help="Move a folder back.")
@click.option("--forget", metavar="ID", help="Delete for good what was moved away.")
@click.option("--yes", is_flag=True, help="Do it without a question.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def clean(path: str | None, back: str | None, forget: str | None, **flags: bool) -> int:
    """Move the folder PATH, all of whose files git ignores (`node_modules`, `build`), out of its
    workspace. Without PATH, list what was moved away. The status is 1 for a no.

    \b
    Examples:
      lockgate clean node_modules
      lockgate clean --back 1a2b3c4d
      lockgate clean
    """
    from sandbox.gates.cleaning import Cleaning
    from sandbox.gates.policy_files import Policies
    from sandbox.workspaces.registry import Registry

    if sum(one is not None for one in (path, back, forget)) > 1:
        raise BadInput("give one of PATH, `--back` and `--forget`")
    dirs = terminal.dirs()
    cleaning = Cleaning(dirs)
    if path is None and back is None and forget is None:
        found = cleaning.listed()
        if flags["as_json"]:
            terminal.show_json([asdict(cleaned) for cleaned in found])
        for one in found if not flags["as_json"] else ():
            terminal.show(safe_line(f"{one.id}  {one.path}  {one.files} files"))
        return 0
    terminal.only_a_person("moving folders away")
    if back is not None:
        one = cleaning.put_back(back)
        _note("clean-back", one)
        terminal.show(safe_line(f"{one.path}: is back"))
        return 0
    if forget is not None:
        one = cleaning.forget(forget)
        _note("clean-forgotten", one)
        terminal.show(safe_line(f"{one.path}: is deleted"))
        return 0
    assert path is not None
    workspace = Registry(dirs).holding(path)
    if workspace is None:
        raise BadInput(f"`{path}` lies in no registered workspace")
    files = cleaning.check(path, workspace.path, Policies(dirs).paths((workspace.path,)))
    if not flags["yes"] and not terminal.agree(
        f"Move {safe_line(path)} away ({files} files)?",
        alone="it needs your yes; give it at a terminal or with `--yes`",
        no="nothing was moved",
    ):
        return terminal.REFUSED
    one = cleaning.move_away(path, files)
    _note("cleaned", one)
    if flags["as_json"]:
        terminal.show_json(asdict(one))
    else:
        said = f"{one.path}: moved away; `lockgate clean --back {one.id}` brings it back"
        terminal.show(safe_line(said))
    return 0


def _note(event: Literal["cleaned", "clean-back", "clean-forgotten"], one: Cleaned) -> None:
    """Record what a person did with a folder."""
    from sandbox.audit.events.people import CleanedRecord
    from sandbox.audit.store import Store

    record = CleanedRecord(
        event=event, path=one.path, id=one.id, files=one.files, by=terminal.user()
    )
    Store(terminal.dirs()).append(record, durable=True)
