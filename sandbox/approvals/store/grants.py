# SPDX-License-Identifier: Apache-2.0
"""The grants that answers become, and their uses.

Several processes share the file: a supervisor that waits, a person's command in another terminal.
A grant is used in one write transaction, so that two calls that race for one use cannot both get it
(P8).
"""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from policy.model import ActionPlan, Host
from policy.people.approval import (
    Grant,
    Wanted,
    covers,
    hosts_for,
)
from sandbox.approvals.store.questions import (
    LAST,
    Questions,
    answer_equals,
    forget_secrets,
    oldest_kept,
)
from sandbox.approvals.store.request import OpenedHost, Request, Terms, WantedHost
from sandbox.errors import BadInput
from sandbox.host.latch import below

_GRANT = "SELECT body, used, revoked FROM grants"
_OPENING = (
    f"{_GRANT} WHERE revoked IS NULL AND used < uses AND until > ?"
    " AND json_extract(body, '$.opens') IS NOT NULL"
)


class Grants(Questions):
    """The approvals of one state folder: its questions, and what they became."""

    def approve(self, request: Request, terms: Terms, *, by: str, reason: str, now: float) -> Grant:
        """Turn a question into a grant. Raises BadInput where it is not open any more, or was put
        anew under the same call since the person was shown it.

        Questions about exactly the same are answered with it: whoever waits there uses the grant if
        it can be used again, and asks anew otherwise.
        """
        grant = terms.grant(request, now, by=by, reason=reason)
        with self._db.writing() as db:
            done = db.execute(
                "UPDATE requests SET state = 'approved', answered_by = ?, reason = ?, grant_id = ?"
                " WHERE call = ? AND state = 'open' AND until > ? AND digest = ? AND asked = ?",
                (by, reason, grant.id, request.call, now, request.wanted.digest, request.asked),
            )
            if done.rowcount != 1:
                raise BadInput(f"the question about call `{request.call}` is not open any more")
            forget_secrets(db, request.call)
            answer_equals(db, request.call, "approved", by, reason)
            db.execute("DELETE FROM grants WHERE until < ?", (oldest_kept(),))
            db.execute(
                "INSERT INTO grants (id, until, uses, body) VALUES (?, ?, ?, ?)",
                (grant.id, grant.until, grant.uses, grant.model_dump_json(by_alias=True)),
            )
        return grant

    def use(self, call: str, what: Wanted, now: float) -> Grant | None:
        """Use a grant that covers a call, once; None if there is none."""
        if not self._db.exists:
            return None
        with self._db.writing() as db:
            rows = db.execute(
                f"{_GRANT} WHERE revoked IS NULL AND used < uses AND until > ? ORDER BY until",
                (now,),
            ).fetchall()
            for grant in map(_grant, rows):
                if covers(grant, what, now):
                    _use(db, grant, call, now)
                    return grant.model_copy(update={"used": grant.used + 1})
        return None

    def open_hosts(
        self, call: str, plan: ActionPlan, now: float, *, session: str = ""
    ) -> tuple[OpenedHost, ...]:
        """Use the grants that open hosts for a plan's command, each once; return the hosts."""
        if not self._db.exists or not self._opening(now):
            return ()
        with self._db.writing() as db:
            kept = map(_grant, db.execute(_OPENING, (now,)).fetchall())
            grants = [grant for grant in kept if hosts_for(grant, plan, now, session=session)]
            for grant in grants:
                _use(db, grant, call, now)
        return _opened(grants, plan, now, session)

    def use_reach(self, question: str, reach: WantedHost, now: float) -> tuple[Grant, Host] | None:
        """Use the grant that a question about a host became, where it opens that host; return both.
        None where there is none that can be used.

        INVARIANT (P4, held): the yes is found by its own question and names the very host and port.
        """
        with self._db.writing() as db:
            named = db.execute(
                "SELECT grant_id FROM requests WHERE call = ? AND state = 'approved'", (question,)
            ).fetchone()
            row = named and db.execute(f"{_GRANT} WHERE id = ?", named).fetchone()
            grant = _grant(row) if row else None
            if grant is None or grant.opens is None or not grant.open(now):
                return None
            if grant.opens.call not in ("", reach.call):
                return None
            for host in grant.opens.hosts:
                if (host.name, host.port) == (reach.host.name, reach.host.port):
                    _use(db, grant, reach.call, now)
                    return grant.model_copy(update={"used": grant.used + 1}), host
        return None

    def hosts_to_open(
        self, plan: ActionPlan, now: float, *, session: str = ""
    ) -> tuple[OpenedHost, ...]:
        """Return the hosts that `open_hosts` would open for a plan now. Uses nothing."""
        if not self._db.exists:
            return ()
        with self._db.reading() as db:
            grants = [_grant(row) for row in db.execute(_OPENING, (now,)).fetchall()]
        return _opened(grants, plan, now, session)

    def _opening(self, now: float) -> bool:
        with self._db.reading() as db:
            return db.execute(f"{_OPENING} LIMIT 1", (now,)).fetchone() is not None

    def shown_with(self, grant_id: str) -> dict[str, Any]:
        """Return what a person was shown of the effects when they gave a grant; empty: nothing."""
        with self._db.reading() as db:
            row = db.execute("SELECT body FROM requests WHERE grant_id = ?", (grant_id,)).fetchone()
        return {} if row is None else dict(json.loads(row[0]).get("preview") or {})

    def all(self) -> list[Grant]:
        """Return all grants that are kept, the newest first."""
        with self._db.reading() as db:
            rows = db.execute(f"{_GRANT} ORDER BY until DESC").fetchall()
        return [_grant(row) for row in rows]

    def revoke(self, grant_id: str, now: float) -> Grant:
        """Take a grant back, by its id, a unique beginning of it, or `last`: the newest that can
        be used. Raises BadInput for one that is not there or over already."""
        with self._db.writing() as db:
            grants = [_grant(row) for row in db.execute(_GRANT)]
            if grant_id == LAST:
                some = sorted(
                    (grant for grant in grants if _left(grant, now)), key=lambda grant: grant.issued
                )
                some = some[-1:]
            else:
                begun = [grant for grant in grants if grant_id and grant.id.startswith(grant_id)]
                exact = [grant for grant in begun if grant.id == grant_id]
                some = exact or [grant for grant in begun if _left(grant, now)] or begun
            if len(some) > 1:
                raise BadInput(f"`{grant_id}` begins {len(some)} grants; give more of it")
            if not some:
                raise BadInput(f"no grant `{grant_id}`; `lockgate grants` lists them")
            grant = some[0]
            if not _left(grant, now):
                raise BadInput(f"grant `{grant.id}` is used up, over or revoked already")
            db.execute("UPDATE grants SET revoked = ? WHERE id = ?", (now, grant.id))
        return grant.model_copy(update={"revoked": now})

    def revoke_all(self, now: float, *, agent: str | None = None) -> int:
        """Take every grant back (an emergency stop), or those of one agent and all below it;
        return how many were open."""
        if not self._db.exists:
            return 0
        with self._db.writing() as db:
            rows = db.execute(
                f"{_GRANT} WHERE revoked IS NULL AND used < uses AND until > ?", (now,)
            ).fetchall()
            ids = [
                (now, grant.id)
                for grant in map(_grant, rows)
                if agent is None or below(agent, grant.wanted.agent)
            ]
            db.executemany("UPDATE grants SET revoked = ? WHERE id = ?", ids)
            return len(ids)


def _opened(
    grants: list[Grant], plan: ActionPlan, now: float, session: str
) -> tuple[OpenedHost, ...]:
    """Return the hosts that grants open for a plan, each by the first that does."""
    found: dict[Host, OpenedHost] = {}
    for grant in grants:
        for host in hosts_for(grant, plan, now, session=session):
            found.setdefault(host, OpenedHost(host, grant.id, grant.by))
    return tuple(found.values())


def _use(db: sqlite3.Connection, grant: Grant, call: str, now: float) -> None:
    db.execute("UPDATE grants SET used = used + 1 WHERE id = ?", (grant.id,))
    db.execute("INSERT INTO uses VALUES (?, ?, ?)", (grant.id, call, now))


def _left(grant: Grant, now: float) -> bool:
    """Whether a grant can be used, or could be once the clock is right again."""
    return grant.revoked is None and grant.used < grant.uses and now < grant.until


def _grant(row: tuple[Any, ...]) -> Grant:
    body, used, revoked = row
    return Grant.model_validate_json(body).model_copy(update={"used": used, "revoked": revoked})
