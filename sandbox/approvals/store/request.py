# SPDX-License-Identifier: Apache-2.0
"""A question to a person, what became of it, and how far a yes goes."""

from __future__ import annotations

import secrets
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
    opening_now,
)


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
    scripts: dict[str, str] = Field(default_factory=dict)
    """What a person is shown of the files that it runs, by path."""
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
