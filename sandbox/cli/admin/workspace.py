# SPDX-License-Identifier: Apache-2.0
"""`lockgate init` and `lockgate workspace`: which folders a call may work in."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from policy.model import Workspace
from sandbox.cli import terminal
from sandbox.cli.admin.toolchains import offer_toolchains
from sandbox.projects.git_filters import told_of_filters
from sandbox.projects.toolchains import ToolchainRecord
from sandbox.text.terminal import safe_line
from sandbox.workspaces.registry import NeedsApproval, Registry, State

MOST_NAMES = 10
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
YES = click.option(
    "--yes", is_flag=True, help="Say yes to a folder outside your home, or one that programs obey."
)


@click.command(short_help="Register a folder as a workspace and say what comes next.")
@click.argument("path", required=False, default=".", metavar="[PATH]")
@YES
def init(path: str, **flags: bool) -> int:
    """Register PATH (default: this folder) as a workspace, and say what its cells will not see
    (secrets) and cannot write (protected files). Where the project uses a Python, Node, Rust or Go
    of your home or of /opt, it asks whether cells may see that, read-only; `--yes` says so.

    \b
    Examples:
      lockgate init
      lockgate init ~/project
    """
    found = _add(path, approved=flags["yes"])
    if found is None:
        return terminal.REFUSED
    terminal.show(f"workspace {safe_line(found.path)}")
    for line in _unseen(found.path):
        terminal.show(safe_line(line))
    offer_repository(found.path, yes=flags["yes"])
    if line := told_of_filters(found.path):
        terminal.show(safe_line(line))
    offer_toolchains(found.path, yes=flags["yes"])
    for option in _fitting(found.path):
        terminal.show(f"its programs may need `lockgate image build {option}`")
    terminal.show("next: `lockgate doctor` checks this host, `lockgate run -- COMMAND` runs one")
    return 0


def _fitting(path: str) -> tuple[str, ...]:
    """Return what `lockgate image build` is given for a project of this kind."""
    from policy.people.shortfall import fitting_images

    try:
        return fitting_images(one.name for one in Path(path).iterdir())
    except OSError:
        return ()


@click.group(short_help="Add, remove, list and check workspaces.")
def workspace() -> None:
    """Say which folders a call may work in.

    \b
    Examples:
      lockgate workspace add ~/project
      lockgate workspace validate /etc/passwd
    """


@workspace.command(short_help="Register a folder.")
@click.argument("path")
@YES
def add(path: str, **flags: bool) -> int:
    """Register the folder PATH. One outside your home needs your yes, as does one in a git folder,
    in a hidden folder (`~/.vim`) or in `~/bin`: rules go by names from a workspace's top.

    \b
    Examples:
      lockgate workspace add ~/project
      lockgate workspace add /srv/app --yes
    """
    found = _add(path, approved=flags["yes"])
    if found is None:
        return terminal.REFUSED
    terminal.show(safe_line(found.path))
    return 0


@workspace.command(short_help="Take a folder off the list.")
@click.argument("path")
def remove(path: str) -> int:
    """Take PATH off the list; its files stay as they are.

    \b
    Example:
      lockgate workspace remove ~/project
    """
    terminal.only_a_person("taking a workspace off the list")
    gone = Registry(terminal.dirs()).remove(path).path
    ToolchainRecord(terminal.dirs()).agree(gone, ())
    terminal.show(safe_line(gone))
    return 0


@workspace.command("list", short_help="List the registered folders.")
@JSON
def list_(**flags: bool) -> int:
    """List the registered workspaces, one a line.

    \b
    Examples:
      lockgate workspace list
      lockgate workspace list --json
    """
    found = Registry(terminal.dirs()).list()
    if flags["as_json"]:
        terminal.show_json([asdict(item) for item in found])
    else:
        for item in found:
            terminal.show(safe_line(item.path))
    return 0


@workspace.command(short_help="Say how each registered folder stands.")
@JSON
def status(**flags: bool) -> int:
    """Say how each workspace stands; the status is 1 when one is not ready.

    \b
    Examples:
      lockgate workspace status
      lockgate workspace status --json
    """
    from sandbox.present.tables import table

    statuses = Registry(terminal.dirs()).status()
    if flags["as_json"]:
        terminal.show_json([asdict(item) for item in statuses])
    elif statuses:
        rows = [(item.path, item.state.value, item.reason) for item in statuses]
        styles = {"ready": "green", "gone": "red", "changed": "red"}
        terminal.show(table(("workspace", "state", "reason"), rows, styles=styles))
    else:
        terminal.show("no workspace is registered; `lockgate init` registers this folder")
    return 0 if all(item.state is State.READY for item in statuses) else terminal.REFUSED


@workspace.command(short_help="Say whether a path may be used.")
@click.argument("path")
@JSON
def validate(path: str, **flags: bool) -> int:
    """Say whether a call may use PATH, and why; the status is 1 when it may not.

    \b
    Examples:
      lockgate workspace validate src/app.py
      lockgate workspace validate /etc/passwd
    """
    validation = Registry(terminal.dirs()).validate(path)
    if flags["as_json"]:
        terminal.show_json(asdict(validation))
    else:
        terminal.show(f"{'valid' if validation.valid else 'not valid'}: {validation.reason}")
    return 0 if validation.valid else terminal.REFUSED


def _unseen(path: str) -> list[str]:
    """Return lines about what a cell of this workspace will not see, and what it cannot write."""
    from sandbox.cell.overlay.masks import Patterns, TooLarge, find
    from sandbox.gates.policy_files import Policies

    paths = Policies(terminal.dirs()).paths((path,))
    hide, show = paths.mask_expressions()
    try:
        found = find(path, Patterns([*hide], [*show], [*paths.pin_expressions()]))
    except TooLarge:
        return ["too many files to look for secrets: no cell can be made of this folder"]
    lines = []
    for what, names in zip(("cells will not see", "cells cannot write"), found, strict=True):
        named = [name for name in names if name != ".lockgate"]
        if named:
            more = f" and {len(named) - MOST_NAMES} more" if len(named) > MOST_NAMES else ""
            lines.append(f"{what}: {', '.join(named[:MOST_NAMES])}{more}")
    return lines


def offer_repository(path: str, *, yes: bool) -> None:
    """Where the repository of a workspace lies elsewhere, say so, and register that on a yes."""
    from sandbox.projects.git_elsewhere import advice, find_elsewhere, folder_to_register

    registry = Registry(terminal.dirs())
    elsewhere = find_elsewhere(path)
    if elsewhere is None:
        return
    main = elsewhere.main
    if main is not None and (around := registry.holding(main)) is not None:
        terminal.show(safe_line(f"git works here: calls see {around.path} too, its repository's"))
        return
    folder = folder_to_register(elsewhere, registry)
    if main is not None and folder == main and not terminal.is_an_agents():
        said = safe_line(f"its repository is that of {main}, which no workspace holds")
        if yes or (terminal.can_ask() and terminal.ask(f"{said}. Register that too?")):
            terminal.show(safe_line(f"workspace {registry.add(main, approved=True).path}"))
            return
    terminal.say(advice(elsewhere, registry))


def _add(path: str, *, approved: bool) -> Workspace | None:
    """Register a folder, asking a person where that is needed; None is their no."""
    registry = Registry(terminal.dirs())
    if approved or registry.check(path) not in registry.list():
        terminal.only_a_person("registering a workspace")
    try:
        return registry.add(path, approved=approved)
    except NeedsApproval as error:
        alone = f"{error}; give it at a terminal or with `--yes`"
        if not terminal.agree(f"{error}. Add it?", alone=alone, no="not added"):
            return None
        return registry.add(path, approved=True)
