# SPDX-License-Identifier: Apache-2.0
"""What people said of calls, and did with changes: what speaks for a proposal, or against it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from policy.model import (
    ActionPlan,
    Kind,
    Outcome,
    Verdict,
)
from sandbox.audit.events.calls import AnsweredRecord, DecidedRecord, EndedRecord, RefusedRecord
from sandbox.audit.events.follow_ups import DiscardedRecord, LandedRecord, UndoneRecord
from sandbox.audit.events.record import AuditRecord
from sandbox.policy_tools.simulate import plan_of

_DELETION = "deletion"
"""The rule by which gate 2 holds what goes away without being named."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One call that a person was asked about, and what they said."""

    call: str
    plan: ActionPlan
    record: DecidedRecord
    approved: bool
    deleted: tuple[str, ...] = ()


def asked_calls(name: str, records: Sequence[AuditRecord]) -> Iterator[Evidence]:
    """Yield what a person said of a call that gate 1 asked about; nobody's silence counts."""
    own = [record for record in records if record.call == name]
    decided = next((record for record in reversed(own) if isinstance(record, DecidedRecord)), None)
    answer = next((record for record in own if isinstance(record, AnsweredRecord)), None)
    if decided is None or decided.verdict != Verdict.ASK.value:
        return
    refused = any(isinstance(record, RefusedRecord) for record in own)
    by_person = answer is not None and bool(answer.approved_by)
    if not by_person and not refused:
        return
    try:
        plan = plan_of(decided)
    except ValueError:
        return
    undone = any(isinstance(record, UndoneRecord) for record in records)
    approved = bool(answer and answer.approved) and not refused and not undone
    yield Evidence(name, plan, decided, approved)


def held_deletions(name: str, records: Sequence[AuditRecord]) -> Iterator[Evidence]:
    """Yield what a person did with a call whose changes waited for nothing but its deletions."""
    own = [record for record in records if record.call == name]
    decided = next((record for record in own if isinstance(record, DecidedRecord)), None)
    ended = next((record for record in own if isinstance(record, EndedRecord)), None)
    if decided is None or ended is None or ended.judgement != Outcome.HOLD.value:
        return
    held = [change for change in ended.changes or () if change.get("outcome") == "hold"]
    only = all(
        (one.get("rule"), one.get("kind")) == (_DELETION, Kind.DELETED.value) for one in held
    )
    whole = ended.changes_total == len(ended.changes or ())
    landed = any(isinstance(record, LandedRecord) and record.of is None for record in own)
    discarded = any(isinstance(record, DiscardedRecord) for record in own)
    if not held or not (landed or discarded):
        return
    try:
        plan = plan_of(decided)
    except ValueError:
        return
    undone = any(isinstance(record, UndoneRecord) for record in records)
    paths = tuple(str(one["path"]) for one in held)
    yield Evidence(name, plan, decided, landed and only and whole and not undone, paths)
