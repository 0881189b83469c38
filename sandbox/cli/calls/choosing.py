# SPDX-License-Identifier: Apache-2.0
"""Options that choose calls of the record: by session, agent, time and workspace."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sandbox.cli import terminal
from sandbox.errors import BadInput
from sandbox.text.terminal import safe_line

if TYPE_CHECKING:
    from sandbox.audit.call_entry import CallEntry

Made = TypeVar("Made", bound=Callable[..., Any])


def choosing(command: Made) -> Made:
    """Give a command the options that `chosen_of` reads."""
    options = (
        click.option(
            "--session",
            is_flag=False,
            flag_value="last",
            metavar="[ID]",
            help="All of an agent's session; without an ID the newest one of this workspace.",
        ),
        click.option("--agent", metavar="ID", help="Of this agent, and of those below it."),
        click.option("--since", metavar="TIME", help="From then on: 2h, 3d, or ISO 8601."),
        click.option("-w", "--workspace", metavar="PATH", help="All in this workspace."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def everywhere(command: Made) -> Made:
    """Give a command that takes `last` the option to mean the last one of any workspace."""
    return click.option(
        "--all-workspaces",
        is_flag=True,
        help="`last` of every workspace, not of the one you are in alone.",
    )(command)


HELD = "held"


def last_here(*, everywhere: bool, what: str, fits: Callable[[CallEntry], bool]) -> str:
    """Return the id of the last call that fits, in the workspace that one is in, if in any.

    `what` says what such a call is (`HELD`). Raises BadInput where there is none, and where one is
    in no workspace: it names the last one of all then.
    """
    from sandbox.audit.store import Store

    here, store = None if everywhere else workspace_here(), Store(terminal.dirs())
    # those that wait are few, and known: where none does, all calls would be looked through
    for entry in store.held() if what == HELD else store.newest(here):
        if fits(entry) and here in (None, *entry.workspaces):
            if here is None and not everywhere:
                raise BadInput(in_no_workspace(entry.model_dump(), what))
            return entry.id
    if here is None:
        raise BadInput(f"no call is {what}")
    raise BadInput(f"no call is {what} in `{here}`; `--all-workspaces` looks everywhere")


def in_no_workspace(last: Mapping[str, Any], what: str) -> str:
    """Say that `last` names no call outside of every workspace, and which one might be meant."""
    whose = safe_line(f"`{last['agent'] or 'a person'}` in {last['workspace']}")
    return (
        f"you are in no workspace, so `last` names no call; the last of all that is {what} is "
        f"`{last['id']}` of {whose}: give its id, or `--all-workspaces`"
    )


def chosen_of(
    options: Mapping[str, Any], here: str | None, *, everywhere: bool = False
) -> dict[str, Any]:
    """Return what was chosen, as a request says it; nothing where no option was given.

    `here` is where the newest session is looked for, and what an agent or a time is about where
    no workspace is named. None: one is in no workspace, or (`everywhere`) all are meant. Raises
    BadInput, also where one is in none and the newest session of any would be taken.
    """
    from sandbox.audit.query import instant
    from sandbox.workspaces.registry import Registry

    wanted = {name: options[name] for name in ("session", "agent") if options[name] is not None}
    if options["since"] is not None:
        wanted["since"] = instant(options["since"], time.time())
    if options["workspace"] is not None:
        wanted["workspace"] = Registry(terminal.dirs()).find(options["workspace"]).path
    elif options["session"] == "last":
        from sandbox.audit.store import Store

        wanted["session"] = Store(terminal.dirs()).session("last", here)
        if here is None and not everywhere:
            raise BadInput(
                "you are in no workspace, so there is no newest session of it; the newest of all "
                f"is `{wanted['session']}`: give `--session {wanted['session']}`, or a workspace "
                "(`-w PATH`)"
            )
    elif here is not None and wanted and "session" not in wanted:
        wanted["workspace"] = here  # not what lies elsewhere, of which one may not think
    return wanted


def workspace_here() -> str | None:
    """Return the workspace that one is in; None where one is in none."""
    from sandbox.workspaces.registry import Registry

    try:
        here = os.getcwd()  # noqa: PTH109
    except OSError:
        return None
    workspace = Registry(terminal.dirs()).holding(here)
    return None if workspace is None else workspace.path
