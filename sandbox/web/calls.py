# SPDX-License-Identifier: Apache-2.0
"""Resources about calls: making, asking about, listing and showing them, and the record."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from policy.model import Frozen
from sandbox.audit.call_entry import CallEntry
from sandbox.audit.query import Query, instant, seconds_of
from sandbox.audit.reader import Audit
from sandbox.audit.store import Store
from sandbox.client.async_client import Client
from sandbox.errors import BadInput
from sandbox.gates.gate1 import Gate1Answer
from sandbox.operations.requests import PeekRequest
from sandbox.policy_tools.ask import plan_of
from sandbox.policy_tools.explain import explanation
from sandbox.questions.offline import decide_offline
from sandbox.questions.plans import Whereabouts, read_plan
from sandbox.results import CallResult
from sandbox.text.terminal import is_unicode, safe
from sandbox.web.resources import Visit, known_call
from sandbox.web.taken import Action, CallBody, CallsQuery, RecordQuery
from sandbox.workspaces.registry import Registry


class CallPage(Frozen):
    """Calls and undos, the newest first."""

    calls: tuple[CallEntry, ...]
    next: int | None = None
    """What `before` is for the next page; None: this is the last."""


class RecordPage(Frozen):
    """Records, the newest first."""

    records: tuple[dict[str, Any], ...]
    next: int | None = None


class WrittenOutput(Frozen):
    """What a call wrote so far, made safe for a terminal."""

    running: bool
    stdout: str
    stderr: str
    dropped: bool = False
    """Whether what it wrote is no longer kept."""


class CallDiff(Frozen):
    """The diff of a call's changes; of a held one that of what is held."""

    diff: str


async def make_call(visit: Visit) -> CallResult:
    """Make a call, in the name of whoever asks; its client's end cancels it."""
    body: CallBody = visit.body
    params, tool = _tool(body)
    if body.background:
        params = {**params, "run_in_background": True}
    if body.timeout is not None:
        params = {**params, "timeout": body.timeout * 1000}
    place = await asyncio.to_thread(lambda: Registry(visit.dirs).find(body.workspace).path)
    said: dict[str, Any] = {
        "tool": tool,
        "params": params,
        "workspace": place,
        "also": body.also,
        **body.model_dump(
            include={"cwd", "agent", "role", "user", "intent", "derived_from"}, exclude_none=True
        ),
    }
    if not is_unicode([said, body.env, body.stdin]):
        raise BadInput("the call holds half a character, which no text can")
    async with Client(visit.dirs) as client:
        return await client.call(
            read_plan(said),
            stdin=None if body.stdin is None else body.stdin.encode(),
            env=body.env or None,
            wait=body.wait,
            speaks_for=visit.visitor.speaks_for,
        )


def _tool(body: Action) -> tuple[dict[str, Any], str]:
    """Return parameters and tool of a call. Raises BadInput."""
    if body.command is None:
        if body.tool is None:
            raise BadInput("the call has neither `command` nor `tool`")
        return body.params, body.tool
    if body.tool is not None or body.params:
        raise BadInput("a call has either `command` or `tool` with `params`")
    return {"command": body.command}, "Bash"


async def check(visit: Visit) -> dict[str, Any]:
    """Say what gate 1 answers to a call; nothing runs."""
    decision = (await asyncio.to_thread(_answer, visit))[1].decision
    answer = decision.model_dump(mode="json")
    return {**answer, "allowed": decision.allowed, "rules": list(decision.rules)}


async def explain(visit: Visit) -> dict[str, Any]:
    """Say how gate 1 comes to its answer; nothing runs."""
    return explanation(*await asyncio.to_thread(_answer, visit))


def _answer(visit: Visit) -> tuple[Any, Gate1Answer]:
    body: Action = visit.body
    _tool(body)  # so that both doors take the same
    registry = Registry(visit.dirs)
    asked = body.model_dump(exclude_none=True, exclude={"params"} if body.command else set())
    from sandbox.agents.registry import Registry as Agents

    caller = visit.visitor.caller(Agents(visit.dirs))
    plan = plan_of(asked, caller, Whereabouts.anywhere(registry, body.workspace))
    return plan, decide_offline(visit.dirs, plan)[0]


async def list_calls(visit: Visit) -> CallPage:
    """List the calls and undos of the record, newest first."""
    return await asyncio.to_thread(_page, visit)


def _page(visit: Visit) -> CallPage:
    asked: CallsQuery = visit.query
    audit = Audit(visit.dirs)
    query = Query(
        frozenset((asked.verdict,)) if asked.verdict else None,
        asked.tool,
        asked.agent,
        asked.rule,
        instant(asked.since, time.time()),
        None,
        asked.limit,
        asked.session,
        asked.text or None,
        asked.before,
        asked.held,
    )
    shown, following = audit.page(query)
    return CallPage(calls=tuple(shown), next=following)


async def show_call(visit: Visit) -> CallEntry:
    """Show one call with all that is recorded of it."""

    def show() -> CallEntry:
        known_call(visit.dirs, visit.named["call"])
        return Store(visit.dirs).call(visit.named["call"])

    return await asyncio.to_thread(show)


async def show_output(visit: Visit) -> WrittenOutput:
    """Show what a call wrote, of one in the background what it has written so far."""
    call = visit.named["call"]
    entry = await show_call(visit)
    if entry.ending in (None, "running"):
        try:
            async with Client(visit.dirs) as client:
                said = await client.request(PeekRequest(call), speaks_for=visit.visitor.speaks_for)
        except BadInput:  # it has ended meanwhile, or does not run in the background
            pass
        else:
            return WrittenOutput(
                running=bool(said.get("running")),
                stdout=str(said.get("stdout", "")),
                stderr=str(said.get("stderr", "")),
            )

    def read() -> WrittenOutput:
        store = Store(visit.dirs)
        stdout, stderr = store.output(call)
        gone = store.dropped(call, seconds_of(entry.ts or ""))
        return WrittenOutput(
            running=entry.ending is None, stdout=safe(stdout), stderr=safe(stderr), dropped=gone
        )

    return await asyncio.to_thread(read)


async def show_diff(visit: Visit) -> CallDiff:
    """Show the diff of a call's changes."""
    await show_call(visit)
    diff = await asyncio.to_thread(Store(visit.dirs).diff, visit.named["call"])
    return CallDiff(diff=diff)


async def list_record(visit: Visit) -> RecordPage:
    """List the record line by line, newest first."""
    return await asyncio.to_thread(_records, visit)


def _records(visit: Visit) -> RecordPage:
    asked: RecordQuery = visit.query
    shown, following = Audit(visit.dirs).record_page(
        asked.event, asked.call, asked.before, asked.limit
    )
    return RecordPage(
        records=tuple({"n": entry.n, **entry.as_json()} for entry in shown),
        next=following,
    )
