# SPDX-License-Identifier: Apache-2.0
"""Resources about what people say: questions and their cards, grants, reports."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from typing import Any

from policy.model import Frozen
from policy.people.approval import Grant
from policy.people.reports import YellowReport
from sandbox.approvals import answers, offers
from sandbox.approvals.answers import NotOpen
from sandbox.approvals.desk import said_of
from sandbox.approvals.pregrant import of_command
from sandbox.approvals.store import database
from sandbox.approvals.store.grants import Grants
from sandbox.approvals.store.request import Request, Terms
from sandbox.client.blocking import running_now
from sandbox.errors import BadInput, SandboxError
from sandbox.host.login import login
from sandbox.reporting.yellow_reports import Reports
from sandbox.web.problems import missing
from sandbox.web.resources import Visit
from sandbox.web.taken import ApproveBody, EverythingQuery, GrantBody, ReasonBody, TermsBody


class Question(Frozen):
    """A call that waits for a person, in a few words."""

    call: str
    agent: str
    tool: str
    action: str
    workspace: str
    risk: str
    message: str
    action_id: str
    digest: str
    asked: float
    until: float
    stdin: str = ""
    of: str | None = None
    """The running call that wants to reach a host; then `call` is the question's own id."""
    host: str | None = None
    port: int | None = None
    waits: bool = False
    """Whether whoever asked waits for the answer still; else it counts for the same call made
    again."""


class QuestionCount(Frozen):
    """How much waits for a person."""

    waiting: int
    """Different questions; what was asked twice is one."""


class OfferView(Frozen):
    """A way to say yes, and how far it goes."""

    offer: str
    means: str
    covers: str


class CardField(Frozen):
    """A field of a card."""

    name: str
    text: str


class QuestionCard(Frozen):
    """All that a question is about, as a person is shown it."""

    question: Question
    card: str
    """The approval card as text; what an agent wrote is made safe in it."""
    title: str
    fields: tuple[CardField, ...]
    """The same card, field by field."""
    rehearsed: dict[str, Any]
    """What a rehearsal showed; empty where there was none."""
    offers: tuple[OfferView, ...]


class GrantView(Frozen):
    """An approval that a person gave."""

    id: str
    agent: str
    scope: str
    action_id: str
    covers: str
    uses: int
    used: int
    issued: float
    until: float
    by: str
    reason: str
    open: bool
    task: str | None
    session: str | None


class ReportView(Frozen):
    """What an agent did, of which the user is told afterwards."""

    call: str
    told: str | None
    """How it was told; None: it waits."""
    report: YellowReport


async def list_questions(visit: Visit) -> tuple[Question, ...]:
    """List the calls that wait for a person, the oldest first."""

    def work() -> tuple[Question, ...]:
        found = Grants(visit.dirs).open_questions(time.time())
        asking = _asking(visit) if found else frozenset()
        return tuple(_question(entry.request, asking) for entry in found)

    return await asyncio.to_thread(work)


async def count_questions(visit: Visit) -> QuestionCount:
    """Count the questions that wait for a person."""
    count = await asyncio.to_thread(database.count_questions, visit.dirs, time.time())
    return QuestionCount(waiting=count)


async def show_card(visit: Visit) -> QuestionCard:
    """Show all that a question is about."""
    request = await asyncio.to_thread(_open, visit)
    asking = await asyncio.to_thread(_asking, visit)
    title, rows = answers.rows_of(request)
    ways = ((name, made(request)) for name, made in _OFFERS.items())
    return QuestionCard(
        question=_question(request, asking),
        card=answers.card_of(request),
        title=title,
        fields=tuple(CardField(name=name, text=text) for name, text in rows),
        rehearsed=request.preview,
        offers=tuple(
            OfferView(
                offer=name,
                means=offer.scope,
                covers=offer.terms.grant(request, request.asked, by="").words(),
            )
            for name, offer in ways
            if offer is not None
        ),
    )


async def approve(visit: Visit) -> GrantView:
    """Say yes to a question, as it was shown."""
    body: ApproveBody = visit.body

    def work() -> Grant:
        request = _open(visit)
        if request.wanted.digest != body.digest:  # P8
            raise NotOpen("the question is another than the one that was shown")
        terms = _terms(body.terms)
        if body.offer is not None:
            offer = _OFFERS[body.offer](request)
            if offer is None:
                raise BadInput(f"`{body.offer}` is not offered for this call")
            terms = offer.terms
        return answers.approve(visit.dirs, request, terms, by=login(), reason=body.reason)

    return _grant(await asyncio.to_thread(work), time.time())


async def deny(visit: Visit) -> Question:
    """Say no to a question; its agent is told, with the reason."""
    body: ReasonBody = visit.body

    def work() -> Request:
        request = _open(visit)
        answers.refuse(visit.dirs, request, by=login(), reason=body.reason)
        return request

    return _question(await asyncio.to_thread(work))


async def list_grants(visit: Visit) -> tuple[GrantView, ...]:
    """List the grants that can be used."""
    asked: EverythingQuery = visit.query
    now = time.time()
    found = await asyncio.to_thread(Grants(visit.dirs).all)
    return tuple(_grant(entry, now) for entry in found if asked.all or entry.open(now))


async def grant(visit: Visit) -> GrantView:
    """Approve a command before it is run."""
    body: GrantBody = visit.body

    def work() -> Grant:
        request = of_command(
            visit.dirs, [body.command], workspace=body.workspace, agent=body.agent, role=body.role,
            cwd=body.cwd, here=None, task=body.task,
        )  # fmt: skip
        return answers.approve(visit.dirs, request, _terms(body), by=login(), reason=body.reason)

    return _grant(await asyncio.to_thread(work), time.time())


async def revoke(visit: Visit) -> GrantView:
    """Take a grant back."""
    name = visit.named["grant"]

    def work() -> Grant:
        if name not in {entry.id for entry in Grants(visit.dirs).all()}:
            raise missing(f"grant `{name}`")
        return answers.revoke(visit.dirs, name, by=login())

    return _grant(await asyncio.to_thread(work), time.time())


async def list_reports(visit: Visit) -> tuple[ReportView, ...]:
    """List the reports that wait for the user; they wait until they are said to be told."""
    asked: EverythingQuery = visit.query
    reports = Reports(visit.dirs)
    found = await asyncio.to_thread(reports.all if asked.all else reports.waiting)
    return tuple(
        ReportView(call=entry.call, told=entry.delivered, report=entry.report) for entry in found
    )


async def note_told(visit: Visit) -> None:
    """Note that the user was told the reports of calls."""
    await asyncio.to_thread(Reports(visit.dirs).delivered, list(visit.body.calls), "batch")


_OFFERS = {"once": offers.once, "session": offers.this_session, "always": offers.always_here}


def _open(visit: Visit) -> Request:
    """Return the question that an address names. Raises HttpRefusal, NotOpen."""
    call = visit.named["call"]
    try:
        asked = Grants(visit.dirs).asked(call)
    except BadInput:
        raise missing(f"question about a call `{call}`") from None
    if asked.state != "open":
        raise NotOpen(f"the question about call `{call}` is {asked.state}")
    return asked.request


def _asking(visit: Visit) -> frozenset[str]:
    """Return the questions of which the answer is waited for; none where no supervisor says so."""
    try:
        waiting_for = running_now(visit.dirs).get("asking", ())
    except SandboxError:
        return frozenset()
    return frozenset(str(question["id"]) for question in waiting_for)


def _question(request: Request, asking: Collection[str] = ()) -> Question:
    said = {key: value for key, value in said_of(request).items() if key != "answer"}
    return Question(
        **said,
        action_id=request.wanted.action_id,
        digest=request.wanted.digest,
        asked=request.asked,
        until=request.until,
        waits=request.call in asking,
    )


def _terms(body: TermsBody) -> Terms:
    return Terms(body.scope, body.uses, body.seconds, body.task)


def _grant(entry: Grant, now: float) -> GrantView:
    return GrantView(
        agent=entry.wanted.agent,
        scope=entry.scope.value,
        action_id=entry.wanted.action_id,
        covers=entry.words(),
        open=entry.open(now),
        **entry.model_dump(
            include={
                "id", "uses", "used", "issued", "until", "by", "reason", "task", "session",
            }
        ),
    )  # fmt: skip
