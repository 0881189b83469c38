# SPDX-License-Identifier: Apache-2.0
"""Resources that look over the record: sessions, whether it is whole, changes around Lockgate."""

from __future__ import annotations

import asyncio
from typing import Any

from policy.model import Frozen
from sandbox.audit.open_changes import OpenChanges
from sandbox.audit.query import Query
from sandbox.audit.reader import Audit
from sandbox.audit.store import Store
from sandbox.web.resources import Visit

MOST_DECISIONS = 2000
"""The newest decisions among which sessions are looked for."""


class SessionView(Frozen):
    """What is known of an agent's session from the newest decisions."""

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


async def list_sessions(visit: Visit) -> tuple[SessionView, ...]:
    """List the sessions of the newest decisions, the newest first."""
    return await asyncio.to_thread(_sessions, visit)


def _sessions(visit: Visit) -> tuple[SessionView, ...]:
    by_name: dict[str, list[Any]] = {}
    for decision in Audit(visit.dirs).decisions(Query(limit=MOST_DECISIONS)):
        if decision.session:
            by_name.setdefault(decision.session, []).append(decision)
    return tuple(
        SessionView(
            session=name,
            agents=tuple(dict.fromkeys(one.agent for one in decisions if one.agent)),
            workspaces=tuple(dict.fromkeys(one.workspace for one in decisions if one.workspace)),
            calls=len({one.call for one in decisions}),
            refused=sum(one.verdict == "deny" for one in decisions),
            first=decisions[-1].ts or "",
            last=decisions[0].ts or "",
        )
        for name, decisions in by_name.items()
    )


async def check_record(visit: Visit) -> RecordState:
    """Check that the record is whole: every line in the chain, up to the head that is kept."""
    wrong = await asyncio.to_thread(Store(visit.dirs).verify)
    return RecordState(whole=wrong is None, wrong=wrong or "")


async def list_findings(visit: Visit) -> tuple[dict[str, Any], ...]:
    """List the changes of protected files that no landing made and nobody has acknowledged."""
    found = await asyncio.to_thread(OpenChanges(visit.dirs).read)
    return tuple({"n": one.n, **one.as_json()} for one in found)
