# SPDX-License-Identifier: Apache-2.0
"""How a person at a terminal answers a question: they see the card, and their word is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sandbox.cli import terminal
from sandbox.text.durations import say_duration
from sandbox.text.terminal import safe_line

if TYPE_CHECKING:
    from policy.people.approval import Grant
    from sandbox.approvals.store.grants import Grants
    from sandbox.approvals.store.request import Request, Terms

MOST_SHOWN = 400
"""Characters of what a grant covers that a table shows; `--json` shows all."""


def open_grants() -> Grants:
    """Return the questions and grants of this user."""
    from sandbox.approvals.store.grants import Grants

    return Grants(terminal.dirs().create())


def living_sessions() -> frozenset[str]:
    """Return the sessions in which agents under watch are now."""
    from sandbox.agents.registry import Registry
    from sandbox.agents.told_sessions import ToldSessions

    dirs = terminal.dirs()
    return ToldSessions(dirs).living(Registry(dirs))


def show_card(request: Request) -> None:
    """Show all that a question is about."""
    from sandbox.approvals.answers import card_of

    click.echo(card_of(request), err=True)


def approve(request: Request, terms: Terms, reason: str) -> Grant:
    """Turn the yes of the person at the terminal into a grant. Raises BadInput."""
    from sandbox.approvals import answers

    return answers.approve(terminal.dirs(), request, terms, by=terminal.user(), reason=reason)


def granted(made: Grant) -> str:
    """Say in one line what was granted."""
    often = "once" if made.uses == 1 else f"{made.uses} times"
    return (
        f"granted {made.id}: {made.wanted.action_id} for `{safe_line(made.wanted.agent)}`, "
        f"{often} within {say_duration(made.until - made.issued)}; `lockgate revoke {made.id}` "
        "takes it back"
    )


def refuse(request: Request, reason: str) -> None:
    """Close a question with the no of the person at the terminal. Raises BadInput."""
    from sandbox.approvals import answers

    answers.refuse(terminal.dirs(), request, by=terminal.user(), reason=reason)
