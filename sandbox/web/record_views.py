# SPDX-License-Identifier: Apache-2.0
"""Resources that look over the record: sessions, whether it is whole, changes around Lockgate."""

from __future__ import annotations

import asyncio
from typing import Any

from policy.model import Frozen
from sandbox.audit.open_changes import OpenChanges
from sandbox.audit.query import stamp_of
from sandbox.audit.reader import Audit
from sandbox.audit.store import Store
from sandbox.web.resources import Visit
from sandbox.web.taken import SessionsQuery


class SessionView(Frozen):
    """What is known of an agent's session."""

    session: str
    agents: tuple[str, ...]
    workspaces: tuple[str, ...]
    calls: int
    refused: int
    """How many of them gate 1 denied."""
    first: str
    last: str
    """When, as records say it."""


class RecordState(Frozen):
    """Whether the record is whole."""

    whole: bool
    wrong: str = ""
    """What is wrong; the first broken line is named."""


class SessionPage(Frozen):
    """Sessions, the one with the newest decision first."""

    sessions: tuple[SessionView, ...]
    next: int | None = None
    """What `before` is for the next page; None: this is the last."""


async def list_sessions(visit: Visit) -> SessionPage:
    """List the agents' sessions, the one with the newest decision first."""
    return await asyncio.to_thread(_sessions, visit)


def _sessions(visit: Visit) -> SessionPage:
    asked: SessionsQuery = visit.query
    summaries = Audit(visit.dirs).sessions(asked.before, asked.limit + 1)
    shown = summaries[: asked.limit]
    return SessionPage(
        sessions=tuple(
            SessionView(
                session=summary.session,
                agents=summary.agents,
                workspaces=summary.workspaces,
                calls=summary.calls,
                refused=summary.refused,
                first=stamp_of(summary.began),
                last=stamp_of(summary.at),
            )
            for summary in shown
        ),
        next=shown[-1].last if len(summaries) > asked.limit else None,
    )


async def check_record(visit: Visit) -> RecordState:
    """Check that the record is whole: every line in the chain, up to the head that is kept."""
    wrong = await asyncio.to_thread(Store(visit.dirs).verify)
    return RecordState(whole=wrong is None, wrong=wrong or "")


async def list_findings(visit: Visit) -> tuple[dict[str, Any], ...]:
    """List the changes of protected files that no landing made and nobody has acknowledged."""
    found = await asyncio.to_thread(OpenChanges(visit.dirs).read)
    return tuple({"n": one.n, **one.as_json()} for one in found)
