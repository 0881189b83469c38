# SPDX-License-Identifier: Apache-2.0
"""`connect`: write an agent's configuration so that its tools go through Lockgate."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from sandbox.cli import terminal
from sandbox.connect.agents import AGENTS, MODES, Mode
from sandbox.connect.edits import Places, Scope
from sandbox.errors import BadInput
from sandbox.text.terminal import safe_line

if TYPE_CHECKING:
    from sandbox.connect.changes import Change
    from sandbox.connect.records import Connection


class _Agent(click.Choice[str]):
    """The name of an agent, or that of its program."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the agent's name."""
        return super().convert(PROGRAMS.get(value, value), param, ctx)


PROGRAMS = {"claude": "claude-code", "code": "vscode", "cursor-agent": "cursor"}
"""Programs that are called otherwise than the agent."""


@click.command(short_help="Put a coding agent behind the gates.")
@click.argument("agent", type=_Agent(AGENTS), metavar="AGENT")
@click.option("--project", "scope", flag_value=Scope.PROJECT.value, help="This project (default).")
@click.option("--user", "scope", flag_value=Scope.USER.value, help="All projects of yours.")
@click.option(
    "--mode",
    type=click.Choice([one.value for one in Mode]),
    help="How its tools get here; default: mcp for codex and vscode, else hooks.",
)
@click.option("--remove", is_flag=True, help="Take it back: the files become what they were.")
@click.option("--yes", is_flag=True, help="Do it without asking.")
@click.option("--dry-run", is_flag=True, help="Show what would be changed; change nothing.")
def connect(agent: str, scope: str | None, mode: str | None, **flags: bool) -> int:
    """Connect AGENT: claude-code, codex, gemini, cursor or vscode.

    Shows what it will change, asks, keeps a backup, and tries the connection: a canary that must
    be denied, and one that must run. The status is 1 when the connection does not work.

    \b
    Examples:
      lockgate connect claude-code
      lockgate connect codex --user
      lockgate connect gemini --mode mcp --dry-run
      lockgate connect claude-code --remove
    """
    if terminal.is_an_agents():
        raise BadInput("an agent does not change how agents are connected; a person does")
    alone = flags["remove"] or flags["dry_run"]
    project = _project(user=scope == Scope.USER.value, as_it_is=alone, yes=flags["yes"])
    if isinstance(project, bool):
        return terminal.REFUSED
    places = here(project)
    if flags["dry_run"]:
        return _show(agent, places, mode, remove=flags["remove"])
    if flags["remove"]:
        return _remove(agent, places, yes=flags["yes"])
    if project is not None:
        from sandbox.cli.admin.toolchains import offer_toolchains

        offer_toolchains(str(project), yes=flags["yes"])
    return _connect(agent, places, Mode(mode) if mode else MODES[agent][0], yes=flags["yes"])


def here(project: Path | None) -> Places:
    """Return the places of this user's agents, for a project or for all."""
    from sandbox.host.relaunch import program

    return Places(Path("~").expanduser(), project, program(), dict(os.environ))


def _show(agent: str, places: Places, mode: str | None, *, remove: bool) -> int:
    """Show what a connection, or its end, would change."""
    from sandbox.connect import changes as changing
    from sandbox.connect.agents import wanted
    from sandbox.connect.records import Connections

    old = Connections(terminal.dirs()).find(agent, places.project)
    modes = {each: wanted(agent, each, places) for each in MODES[agent]}
    if remove:
        written = [modes[old.mode]] if old else list(modes.values())
        todo = [*changing.ending(agent, old, written), *_excluding(agent, places, [])]
    else:
        chosen = Mode(mode) if mode else MODES[agent][0]
        want = modes.pop(chosen, None) or wanted(agent, chosen, places)
        found = changing.connecting(agent, want, old, list(modes.values()))
        made = [each.path for each in found if each.without is None and each.new is not None]
        todo = [each for each in found if each.changes] + _excluding(agent, places, made)
    for change in todo:
        terminal.show(changing.diff(change))
    terminal.say("nothing is changed (`--dry-run`)" if todo else "nothing would be changed")
    return 0


def _connect(agent: str, places: Places, mode: Mode, *, yes: bool) -> int:
    from sandbox.connect import changes as changing
    from sandbox.connect.agents import wanted
    from sandbox.connect.records import Connections
    from sandbox.connect.versions import fails_open

    known = Connections(terminal.dirs().create())
    old = known.find(agent, places.project)
    want = wanted(agent, mode, places)
    others = [wanted(agent, one, places) for one in MODES[agent] if one is not mode]
    changes = changing.connecting(agent, want, old, others)
    if not _carry_out(changes, places, agent, mode, old, yes=yes):
        return terminal.REFUSED
    for note in want.notes:
        terminal.say(note)
    if mode is Mode.HOOKS and (warning := fails_open(agent)):
        terminal.say(f"note: {warning}")
    return _try(agent, mode, places)


def _remove(agent: str, places: Places, *, yes: bool) -> int:
    from sandbox.connect import changes as changing
    from sandbox.connect.agents import wanted
    from sandbox.connect.records import Connections

    known = Connections(terminal.dirs().create())
    old = known.find(agent, places.project)
    modes = (old.mode,) if old else MODES[agent]
    written = [wanted(agent, mode, places) for mode in modes]
    changes = changing.ending(agent, old, written)
    changes += _excluding(agent, places, [])  # also where the files are gone already
    if not changes:
        terminal.say(f"{agent} is not connected here; nothing is changed")
        if old:
            known.forget(old)
        return 0
    if not _agreed(changes, yes=yes):
        return terminal.REFUSED
    _note(changes, places, agent, "disconnected")
    for change in changes:
        changing.carry_out(change, within=places.project)
    for kept in old.files if old else ():
        changing.drop_folders(kept.folders)
    if old:
        known.forget(old)
    terminal.say(f"{agent} is not connected any more")
    return 0


def _carry_out(
    changes: list[Change],
    places: Places,
    agent: str,
    mode: Mode,
    old: Connection | None,
    *,
    yes: bool,
) -> bool:
    """Show, ask, write and remember; False where the person said no."""
    import time

    from sandbox.connect import changes as changing
    from sandbox.connect.agents import wanted
    from sandbox.connect.records import Connection, Connections, Kept

    todo = [change for change in changes if change.changes]
    made = [change.path for change in changes if change.without is None and change.new is not None]
    todo += _excluding(agent, places, made)
    if not todo and old is not None and old.mode is mode:
        terminal.say(f"{agent} is connected already ({mode.value}); nothing is changed")
        return True
    if todo and not _agreed(todo, yes=yes):
        return False
    before: dict[Path, Kept] = {one.path: one for one in old.files} if old else {}
    mine = {file.path for file in wanted(agent, mode, places).files}
    scope = Scope.USER if places.project is None else Scope.PROJECT
    files = [
        changing.kept(change, (), before.get(change.path))
        for change in changes
        if change.path in mine
    ]
    known = Connections(terminal.dirs())

    def remember(kept: list[Kept]) -> Path:
        now = Connection(agent, scope, mode, places.project, time.time(), tuple(kept))
        return known.save(now)

    remember(files)  # before anything is written, so that it can always be taken back
    _note(todo, places, agent, "connected")
    folders = {change.path: changing.carry_out(change, within=places.project) for change in todo}
    kept = [
        changing.kept(change, folders.get(change.path, ()), before.get(change.path))
        for change in changes
        if change.path in mine
    ]
    folder = remember(kept)
    terminal.say(f"{agent} is connected ({mode.value}); what was there is kept in {folder}")
    return True


def _excluding(agent: str, places: Places, made: list[Path]) -> list[Change]:
    """Return what keeps the files that a connection makes out of commits, and takes that back."""
    from policy.values.strict_yaml import PolicyError
    from sandbox.connect.excluded import excluding

    try:
        change = excluding(agent, places.project, made) if places.project is not None else None
    except PolicyError as error:
        terminal.say(f"its files are not kept out of commits: {error}")
        return []
    return [change] if change is not None else []


def _agreed(changes: list[Change], *, yes: bool) -> bool:
    from sandbox.connect.changes import diff

    for change in changes:
        terminal.show(diff(change))
    alone = "nothing is changed; give your word at a terminal or with `--yes`"
    return yes or terminal.agree("Change this?", alone=alone, no="nothing is changed")


def _note(
    changes: list[Change], places: Places, agent: str, event: Literal["connected", "disconnected"]
) -> None:
    """Record a person's change of protected files, so that the guard knows whose it is."""
    from sandbox.audit.events.people import ConnectionRecord
    from sandbox.audit.store import Store
    from sandbox.connect.records import sha256

    root = places.project
    said = [
        {
            "path": str(change.path.relative_to(root)) if root else str(change.path),
            "kind": "deleted"
            if change.new is None
            else "created"
            if change.now is None
            else "modified",
            "type": "file",
            **({} if change.new is None else {"sha256": sha256(change.new)}),
        }
        for change in changes
        if root is None or change.path.is_relative_to(root)
    ]
    record = ConnectionRecord(
        event=event,
        agent=agent,
        workspace=str(root) if root else None,
        changes=said,
        by=terminal.user(),
    )
    Store(terminal.dirs()).append(record, durable=True)


def _try(agent: str, mode: Mode, places: Places) -> int:
    """Try the connection and say how it went."""
    from sandbox.connect.health import tried

    folder = places.project or _any_workspace()
    if folder is None:
        terminal.say("not tried: no workspace is registered; `lockgate init`, then connect again")
        return terminal.REFUSED
    found = tried(agent, mode, places, folder)
    for one in found:
        terminal.say(f"{'works' if one.ok else 'does NOT work'}: {one.what}")
    return 0 if all(one.ok for one in found) else terminal.REFUSED


def _any_workspace() -> Path | None:
    from sandbox.workspaces.registry import Registry

    registry = Registry(terminal.dirs())
    around = registry.holding(Path.cwd())
    first = around or next(iter(registry.list()), None)
    return Path(first.path) if first else None


def _project(*, user: bool, as_it_is: bool, yes: bool) -> Path | bool | None:
    """Return the workspace here, which is registered if the person agrees (not `as_it_is`); None
    for the user's configuration, False for a no."""
    from sandbox.workspaces.registry import NeedsApproval, Registry

    if user:
        return None
    registry = Registry(terminal.dirs())
    folder = Path.cwd()
    around = registry.holding(folder)
    if around is not None:
        return Path(around.path)
    root = next((one for one in (folder, *folder.parents) if (one / ".git").exists()), folder)
    if as_it_is:
        return root
    path = registry.check(root).path
    terminal.only_a_person("registering a workspace")
    said = f"{safe_line(path)} is no workspace yet"
    alone = f"{said}; `lockgate init`, or `--yes`"
    if not yes and not terminal.agree(
        f"{said}. Register it?", alone=alone, no="nothing is changed"
    ):
        return False
    try:
        return Path(registry.add(path).path)
    except NeedsApproval:
        return Path(registry.add(path, approved=True).path)
