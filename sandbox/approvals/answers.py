# SPDX-License-Identifier: Apache-2.0
"""What a person is shown of a question, and their answers: each changes the file of questions and
grants, and is put on record.

Whether it is a person who answers, the door knows that calls this.
"""

from __future__ import annotations

import time
from dataclasses import replace

from policy.people.approval import Grant, Scope
from sandbox.agents.registry import Registry
from sandbox.agents.told_sessions import ToldSessions
from sandbox.approvals.store.grants import Grants
from sandbox.approvals.store.request import Request, Terms
from sandbox.audit.events.calls import RefusedRecord
from sandbox.audit.events.people import GrantedRecord, RevokedRecord
from sandbox.audit.events.record import AuditRecord
from sandbox.audit.store import Store
from sandbox.errors import BadInput
from sandbox.host.dirs import Dirs
from sandbox.present.card import CardRows, card_rows, card_text, host_rows
from sandbox.text.terminal import safe_block, safe_line


class NotOpen(BadInput):
    """The question was answered already, or its time is over."""


def card_of(request: Request) -> str:
    """Return the card of a question: all that it is about, as text that is safe to show."""
    return card_text(*_rows(request))


def rows_of(request: Request) -> tuple[str, CardRows]:
    """Return the same card as a title and named fields, each of which is safe to show."""
    title, rows = _rows(request)
    return title, [(name, safe_block(text)) for name, text in rows]


def _rows(request: Request) -> tuple[str, CardRows]:
    if (reach := request.reach) is not None:
        return host_rows(
            request.plan.model_dump(mode="json", by_alias=True),
            request.decision.model_dump(mode="json"),
            call=reach.call,
            env=request.env,
        )
    return card_rows(
        request.plan.model_dump(mode="json", by_alias=True),
        request.decision.model_dump(mode="json"),
        paths=request.wanted.paths,
        preview=request.preview,
        env=request.env,
        stdin=request.stdin,
        scripts=request.scripts,
        unbound=request.wanted.unbound,
    )


def approve(dirs: Dirs, request: Request, terms: Terms, *, by: str, reason: str = "") -> Grant:
    """Turn a person's yes into a grant, which is recorded. Raises NotOpen, BadInput."""
    if terms.scope is Scope.EXACT and terms.task not in (None, request.plan.derived_from):
        raise BadInput(
            f"the call is not derived from task `{safe_line(terms.task)}`, so exactly this call "
            "never is; leave `--task` out, or name another `--scope`"
        )
    answers = request.reach is None and terms.opens is None
    if (unbound := request.wanted.unbound) and answers and not _is_once(terms):
        raise BadInput(
            f"it runs what a yes cannot be bound to ({safe_line(unbound[0])}), so "
            "that a yes is for exactly this call, once: leave `--scope` and `--uses` out"
        )
    if request.reach is not None and terms.scope is Scope.CATEGORY:
        raise BadInput(
            "it asks about one host: `--scope exact` opens it for this call, `--scope program` for "
            "this command from now on"
        )
    if request.reach is not None and terms.scope is Scope.PROGRAM and not request.reach.lasting:
        raise BadInput(
            "no later call can be compared with this one (variables of its own, a task, or in the "
            "background), so that the yes is for this call alone: leave `--scope` out"
        )
    if terms.session is not None:
        watched = terms.session in ToldSessions(dirs).living(Registry(dirs))
        terms = replace(terms, watched=watched)
    try:
        made = Grants(dirs).approve(request, terms, by=by, reason=reason, now=time.time())
    except BadInput as error:
        raise NotOpen(str(error)) from None
    _record(
        dirs,
        GrantedRecord(
            grant=made.id,
            call=request.call,
            digest=made.wanted.digest,
            action_id=made.wanted.action_id,
            agent=made.wanted.agent,
            scope=made.scope.value,
            hosts=[host.words() for host in made.opens.hosts] if made.opens else None,
            uses=made.uses,
            until=made.until,
            task=made.task,
            session=made.session,
            by=by,
            answer_reason=reason,
        ),
    )
    return made


def _is_once(terms: Terms) -> bool:
    """Return whether a yes is for exactly one call, once."""
    return terms.scope is Scope.EXACT and terms.uses == 1


def refuse(dirs: Dirs, request: Request, *, by: str, reason: str = "") -> None:
    """Close a question with a person's no, which is recorded. Raises NotOpen."""
    grants, call = Grants(dirs), request.call
    if not grants.close(call, "denied", by=by, reason=reason):
        state = grants.asked(call).state
        raise NotOpen(f"the question about call `{safe_line(call)}` is {state}")
    _record(dirs, RefusedRecord(call=call, by=by, answer_reason=reason))


def revoke(dirs: Dirs, name: str, *, by: str) -> Grant:
    """Take a grant back (an id, a beginning of one, or `last`). Raises BadInput."""
    found = Grants(dirs).revoke(name, time.time())
    _record(dirs, RevokedRecord(grant=found.id, by=by))
    return found


def _record(dirs: Dirs, entry: AuditRecord) -> None:
    """Put what a person said on record, on disk when this returns."""
    Store(dirs).append(entry, durable=True)
