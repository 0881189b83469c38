# SPDX-License-Identifier: Apache-2.0
"""Questions that wait for a person, and the grants that answers become: one SQLite file.

Several processes share it: a supervisor that waits, a person's command in another terminal. A grant
is used in one write transaction, so that two calls that race for one use cannot both get it (P8).
"""

from __future__ import annotations

import json
import secrets
import sqlite3
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import Field

from policy.model import ActionPlan, Decision, Frozen, Host
from policy.people.approval import (
    GRANT_SECONDS,
    Grant,
    Opening,
    Scope,
    Wanted,
    covers,
    hosts_for,
    opening_now,
)
from sandbox.approvals.waiting import database
from sandbox.errors import BadInput
from sandbox.host.dirs import Dirs
from sandbox.host.latch import BETWEEN, below
from sandbox.text.redaction import mask_all

LAST = "last"
"""Names the newest question, or grant, that is open."""
_KEPT_SECONDS = 30 * 86_400.0
"""Answered questions and closed grants are kept this long; the record keeps them for ever."""


class WantedHost(Frozen):
    """A host to which a running call has a connection that waits."""

    call: str
    """The call that runs; its question has an id of its own."""
    host: Host
    lasting: bool = True
    """Whether later calls of the same command could be compared with it."""

    def words(self) -> str:
        """Say what is wanted."""
        return f"to reach {self.host.words()}"


class Request(Frozen):
    """A question to a person, as it was asked."""

    call: str
    """The id by which it is answered: the call's, or one of its own where a call runs already."""
    wanted: Wanted
    plan: ActionPlan
    decision: Decision
    asked: float
    until: float
    env: dict[str, str] = Field(default_factory=dict)
    """Variables that are set for the call beside the usual ones."""
    stdin: str = ""
    """What a person is shown of its standard input; empty where it is given nothing."""
    preview: dict[str, Any] = Field(default_factory=dict)
    """What a rehearsal showed; empty where there was none."""
    reach: WantedHost | None = None
    """Set where it is not whether the call may run, but whether it may reach a host."""


class OpenedHost(NamedTuple):
    """A host that a grant opened for a call."""

    host: Host
    grant: str
    by: str
    """Who gave it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and what became of it."""

    request: Request
    state: str
    """open, approved, denied, expired, cancelled, withdrawn."""
    grant: str | None = None
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Terms:
    """How far a person's yes goes."""

    scope: Scope = Scope.EXACT
    uses: int = 1
    seconds: float = GRANT_SECONDS
    task: str | None = None
    opens: Opening | None = None
    session: str | None = None
    watched: bool = False
    """Whether the session is that of an agent under watch."""

    def grant(self, request: Request, now: float, *, by: str, reason: str = "") -> Grant:
        """Return the grant that a yes to a question becomes, not noted yet."""
        return Grant(
            id="g" + secrets.token_hex(5),
            scope=self.scope,
            wanted=request.wanted,
            task=self.task,
            session=self.session,
            watched=self.watched,
            opens=self._opens(request),
            uses=self.uses,
            issued=now,
            until=now + self.seconds,
            by=by,
            reason=reason,
        )

    def _opens(self, request: Request) -> Opening | None:
        """Return what it opens: of a question about a host that very one, for the call that waits,
        or for its command where the scope is wider."""
        if (reach := request.reach) is None:
            return self.opens
        call = reach.call if self.scope is Scope.EXACT else ""
        return opening_now(request.plan, reach.host, call)


class Refusal(NamedTuple):
    """A person's no."""

    by: str
    reason: str


class Grants:
    """The approvals of one state folder."""

    def __init__(self, dirs: Dirs) -> None:
        """Reach for nothing yet."""
        self._db = database(dirs)

    # -- questions

    def ask(self, request: Request) -> None:
        """Note an open question; one of the same call is replaced."""
        with self._db.writing() as db:
            db.execute("DELETE FROM requests WHERE state <> 'open' AND until < ?", (_old(),))
            _expire(db, request.asked)
            db.execute(
                "INSERT OR REPLACE INTO requests"
                " (call, digest, action, asked, until, state, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    request.call,
                    request.wanted.digest,
                    request.wanted.action_id,
                    request.asked,
                    request.until,
                    "open",
                    request.model_dump_json(by_alias=True),
                ),
            )

    def waiting(self, agent: str, now: float) -> int:
        """Return how many open questions an agent has, with all above and below it together."""
        first = agent.split(BETWEEN)[0]
        with self._db.reading() as db:
            rows = db.execute(
                "SELECT json_extract(body, '$.plan.agent') FROM requests"
                " WHERE state = 'open' AND until > ?",
                (now,),
            ).fetchall()
        return sum(str(name).split(BETWEEN)[0] == first for (name,) in rows)

    def asked(self, call: str) -> Asked:
        """Return a question. Raises BadInput if there is none of that call."""
        with self._db.reading() as db:
            row = db.execute(f"{_REQUEST} WHERE call = ?", (call,)).fetchone()
        if row is None:
            raise BadInput(f"no question about a call `{call}`; `lockgate approvals` lists them")
        return _asked(row, time.time())

    def named(self, name: str) -> Asked:
        """Return the question that a person means by a call's id, a unique beginning of one, or
        `last`: the newest that waits. Raises BadInput if there is none, or several begin so."""
        now = time.time()
        if name == LAST:
            if found := self.open_questions(now):
                return found[-1]
            raise BadInput("no call waits for a person")
        with self._db.reading() as db:
            rows = db.execute(
                f"{_REQUEST} WHERE substr(call, 1, ?) = ? ORDER BY asked", (len(name), name)
            ).fetchall()
        begun = [_asked(row, now) for row in rows] if name else []
        exact = [one for one in begun if one.request.call == name]
        some = exact or [one for one in begun if one.state == "open"] or begun
        if len(some) > 1:
            raise BadInput(f"`{name}` begins the ids of {len(some)} calls; give more of it")
        return some[0] if some else self.asked(name)

    def state(self, call: str) -> tuple[str, str, str]:
        """Return state, who answered and why, of a question that is waited for."""
        with self._db.reading() as db:
            row = db.execute(
                "SELECT state, coalesce(answered_by, ''), coalesce(reason, '') FROM requests"
                " WHERE call = ?",
                (call,),
            ).fetchone()
        return ("cancelled", "", "the question is gone") if row is None else tuple(row)

    def open_questions(self, now: float) -> list[Asked]:
        """Return the questions that wait, the oldest first."""
        if not self._db.exists:
            return []
        with self._db.reading() as db:
            rows = db.execute(
                f"{_REQUEST} WHERE state = 'open' AND until > ? ORDER BY asked", (now,)
            ).fetchall()
        return [_asked(row, now) for row in rows]

    def by_action(self, action: str, now: float) -> list[Asked]:
        """Return the questions about an action of the seed's short name, the newest first."""
        with self._db.reading() as db:
            rows = db.execute(
                f"{_REQUEST} WHERE action = ? AND state = 'open' AND until > ? ORDER BY asked DESC",
                (action, now),
            ).fetchall()
        return [_asked(row, now) for row in rows]

    def refused(self, what: Wanted, now: float) -> Refusal | None:
        """Return the no of a person to exactly this, as long as the question would have waited."""
        if not self._db.exists:
            return None
        with self._db.reading() as db:
            row = db.execute(
                "SELECT coalesce(answered_by, ''), coalesce(reason, '') FROM requests WHERE"
                " digest = ? AND state = 'denied' AND until > ? ORDER BY until DESC LIMIT 1",
                (what.digest, now),
            ).fetchone()
        return None if row is None else Refusal(*row)

    def close(
        self, call: str, state: str, *, by: str = "", reason: str = "", lasts: bool = True
    ) -> bool:
        """Close an open question; return whether it was open.

        A person's no closes all that ask for exactly the same; unless it `lasts`, it is no answer
        to what asks the same later.
        """
        with self._db.writing() as db:
            done = db.execute(
                "UPDATE requests SET state = ?, answered_by = ?, reason = ?,"
                " until = CASE WHEN ? THEN until ELSE asked END"
                " WHERE call = ? AND state = 'open'",
                (state, by, reason, lasts, call),
            )
            _forget_secrets(db, call)
            if done.rowcount == 1 and state == "denied":
                _answer_equals(db, call, state, by, reason)
            return done.rowcount == 1

    # -- grants

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
            _forget_secrets(db, request.call)
            _answer_equals(db, request.call, "approved", by, reason)
            db.execute("DELETE FROM grants WHERE until < ?", (_old(),))
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
            grants = [one for one in kept if hosts_for(one, plan, now, session=session)]
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

    def refused_alike(self, action: str, now: float) -> Refusal | None:
        """Return the no of a person to what has this short name, as long as the question would have
        waited."""
        with self._db.reading() as db:
            row = db.execute(
                "SELECT coalesce(answered_by, ''), coalesce(reason, '') FROM requests WHERE"
                " action = ? AND state = 'denied' AND until > ? ORDER BY until DESC LIMIT 1",
                (action, now),
            ).fetchone()
        return None if row is None else Refusal(*row)

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
                    (one for one in grants if _left(one, now)), key=lambda one: one.issued
                )
                some = some[-1:]
            else:
                begun = [one for one in grants if grant_id and one.id.startswith(grant_id)]
                exact = [one for one in begun if one.id == grant_id]
                some = exact or [one for one in begun if _left(one, now)] or begun
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


_REQUEST = "SELECT body, state, grant_id, answered_by, reason, until FROM requests"
_GRANT = "SELECT body, used, revoked FROM grants"
_OPENING = (
    f"{_GRANT} WHERE revoked IS NULL AND used < uses AND until > ?"
    " AND json_extract(body, '$.opens') IS NOT NULL"
)
_TEXTS = ("plan", "env", "stdin", "preview")
"""The parts of a question that may hold secrets."""


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


def _answer_equals(db: sqlite3.Connection, call: str, state: str, by: str, reason: str) -> None:
    """Answer the open questions about exactly what a question was about, in the same way."""
    rows = db.execute(
        "SELECT call FROM requests WHERE state = 'open' AND call <> ?"
        " AND digest = (SELECT digest FROM requests WHERE call = ?)",
        (call, call),
    ).fetchall()
    for (other,) in rows:
        db.execute(
            "UPDATE requests SET state = ?, answered_by = ?, reason = ? WHERE call = ?",
            (state, by, reason, other),
        )
        _forget_secrets(db, other)


def _expire(db: sqlite3.Connection, now: float) -> None:
    """Close the questions that nobody answered in time, and nobody waits for."""
    rows = db.execute(
        "SELECT call FROM requests WHERE state = 'open' AND until <= ?", (now,)
    ).fetchall()
    for (call,) in rows:
        db.execute("UPDATE requests SET state = 'expired' WHERE call = ?", (call,))
        _forget_secrets(db, call)


def _forget_secrets(db: sqlite3.Connection, call: str) -> None:
    """Mask the secrets of a question that is answered: a person saw it whole while it was open."""
    row = db.execute("SELECT body FROM requests WHERE call = ?", (call,)).fetchone()
    if row is not None:
        body = json.loads(row[0])
        masked = {**body, **{key: mask_all(body.get(key, {})) for key in _TEXTS}}
        db.execute("UPDATE requests SET body = ? WHERE call = ?", (json.dumps(masked), call))


def _old() -> float:
    return time.time() - _KEPT_SECONDS


def _asked(row: tuple[Any, ...], now: float) -> Asked:
    body, state, grant, by, reason, until = row
    if state == "open" and until <= now:
        state = "expired"
    return Asked(Request.model_validate_json(body), state, grant, by or "", reason or "")


def _grant(row: tuple[Any, ...]) -> Grant:
    body, used, revoked = row
    return Grant.model_validate_json(body).model_copy(update={"used": used, "revoked": revoked})
