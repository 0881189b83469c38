# SPDX-License-Identifier: Apache-2.0
"""How a person at a terminal answers a question: they see the card, and their word is recorded."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from sandbox.cli import terminal
from sandbox.errors import BadInput
from sandbox.text.durations import say_duration
from sandbox.text.terminal import safe_line

if TYPE_CHECKING:
    from policy.people.approval import Grant
    from sandbox.approvals.store import Grants, Request, Terms
    from sandbox.audit.events import AuditRecord

MOST_SHOWN = 400
"""Characters of what a grant covers that a table shows; `--json` shows all."""


def open_grants() -> Grants:
    """Return the questions and grants of this user."""
    from sandbox.approvals.store import Grants

    return Grants(terminal.dirs().create())


def living_sessions() -> frozenset[str]:
    """Return the sessions in which agents under watch are now."""
    from sandbox.agents.registry import Registry
    from sandbox.agents.told_sessions import ToldSessions

    dirs = terminal.dirs()
    return ToldSessions(dirs).living(Registry(dirs))


def show_card(request: Request) -> None:
    """Show all that a question is about."""
    from sandbox.present.card import card

    shown = card(
        request.plan.model_dump(mode="json", by_alias=True),
        request.decision.model_dump(mode="json"),
        paths=request.wanted.paths,
        preview=request.preview,
        env=request.env,
        stdin=request.stdin,
    )
    click.echo(shown, err=True)


def approve(request: Request, terms: Terms, reason: str) -> Grant:
    """Turn a person's yes into a grant, which is recorded. Raises BadInput where the question is
    not open any more."""
    from policy.people.approval import Scope
    from sandbox.audit.events import GrantedRecord

    if terms.scope is Scope.EXACT and terms.task not in (None, request.plan.derived_from):
        raise BadInput(
            f"the call is not derived from task `{safe_line(terms.task)}`, so exactly this call "
            "never is; leave `--task` out, or name another `--scope`"
        )
    by = terminal.user()
    if terms.session is not None:
        terms = replace(terms, watched=terms.session in living_sessions())
    made = open_grants().approve(request, terms, by=by, reason=reason, now=time.time())
    record(
        GrantedRecord(
            grant=made.id,
            call=request.call,
            digest=made.wanted.digest,
            action_id=made.wanted.action_id,
            agent=made.wanted.agent,
            scope=made.scope.value,
            hosts=[one.words() for one in made.opens.hosts] if made.opens else None,
            uses=made.uses,
            until=made.until,
            task=made.task,
            session=made.session,
            by=by,
            answer_reason=reason,
        )
    )
    return made


def granted(made: Grant) -> str:
    """Say in one line what was granted."""
    often = "once" if made.uses == 1 else f"{made.uses} times"
    return (
        f"granted {made.id}: {made.wanted.action_id} for `{safe_line(made.wanted.agent)}`, "
        f"{often} within {say_duration(made.until - made.issued)}; `lockgate revoke {made.id}` "
        "takes it back"
    )


def refuse(request: Request, reason: str) -> None:
    """Close a question with a person's no, which is recorded. Raises BadInput where it is not open
    any more."""
    from sandbox.audit.events import RefusedRecord

    call, by = request.call, terminal.user()
    if not open_grants().close(call, "denied", by=by, reason=reason):
        state = open_grants().asked(call).state
        raise BadInput(f"the question about call `{safe_line(call)}` is {state}")
    record(RefusedRecord(call=call, by=by, answer_reason=reason))


def record(entry: AuditRecord) -> None:
    """Put what a person said on record, on disk when this returns."""
    from sandbox.audit.store import Store

    Store(terminal.dirs()).append(entry, durable=True)
