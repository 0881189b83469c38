# SPDX-License-Identifier: Apache-2.0
"""The three ways to say yes to a question: once, for its session, always here. Pure.

Each says in words how far it goes, before a person says it; one that would cover nothing is not
offered.
"""

from __future__ import annotations

from dataclasses import dataclass

from policy.people.approval import GRANT_SECONDS, Scope, covers
from sandbox.approvals.store.request import Request, Terms
from sandbox.text.durations import say_duration

SESSION_SECONDS = 8 * 3600.0
"""A session's grant ends after that, however long the session lasts."""
ALWAYS_SECONDS = 90 * 86_400.0
MOST_USES = 10_000
_SAME_TEXT = "exactly this command's text, whatever the files that it runs then hold"
_ALIKE = (
    "the same commands on the same paths from the same folder with the same rights, whatever the "
    "files then hold"
)


@dataclass(frozen=True, slots=True)
class Offer:
    """A way to say yes."""

    name: str
    terms: Terms
    scope: str
    """How far it goes, in words, without what it covers."""


def once(request: Request) -> Offer:
    """Return the yes to exactly this call."""
    if (reach := request.reach) is not None:
        return Offer("once", Terms(), f"call {reach.call} alone, until it ends")
    return Offer("once", Terms(), f"exactly this call, once, within {say_duration(GRANT_SECONDS)}")


def this_session(request: Request) -> Offer | None:
    """Return the yes for the session of the agent; None where it has none, or a part of the call
    cannot be known, so that no other call can be compared with it."""
    if not (session := request.wanted.session):
        return None
    agent = request.plan.agent
    alike = _ALIKE if request.reach is None else _SAME_TEXT
    offer = Offer(
        "this session",
        Terms(Scope.PROGRAM, MOST_USES, SESSION_SECONDS, session=session),
        f"calls of `{agent}` in its session {session[:8]}, for at most "
        f"{say_duration(SESSION_SECONDS)}: {alike}",
    )
    return offer if _covers(offer, request) else None


def always_here(request: Request) -> Offer | None:
    """Return the yes for the workspace; None where a part of the call cannot be known."""
    agent, place = request.plan.agent, request.plan.workspace
    alike = _ALIKE if request.reach is None else _SAME_TEXT
    ends = "or until the policy changes" if request.reach is None else "or until it is revoked"
    offer = Offer(
        "always here",
        Terms(Scope.PROGRAM, MOST_USES, ALWAYS_SECONDS),
        f"calls of `{agent}`, of no other name, in {place}, for "
        f"{say_duration(ALWAYS_SECONDS)} {ends}: {alike}",
    )
    return offer if _covers(offer, request) else None


def _covers(offer: Offer, request: Request) -> bool:
    if request.reach is not None:
        return request.reach.lasting
    if request.wanted.unbound:  # another text could stand there the next time
        return False
    now = request.asked
    return covers(offer.terms.grant(request, now, by=""), request.wanted, now)
