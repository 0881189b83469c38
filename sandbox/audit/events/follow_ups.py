# SPDX-License-Identifier: Apache-2.0
"""What is written after a call: a person lands, discards or undoes changes, or room is made."""

from __future__ import annotations

from typing import Literal

from sandbox.audit.events.record import AuditRecord, Changes, Fields


class FollowUpRecord(AuditRecord):
    """An undo, or a person's landing or discarding of what was held: announced, or done."""

    call: str
    supervisor: str | None = None
    undone: str | None = None
    """The call, landing or undo that an undo takes back."""
    of: str | None = None
    """The call whose part this lands, or that is undone."""
    agent: str | None = None
    asked_by: Fields | None = None
    tool: str | None = None
    workspace: str | None = None
    also: list[str] | None = None
    landed_by: Fields | str | None = None
    landed: bool | None = None
    judgement: str | None = None
    outcome: str | None = None
    changes: Changes | None = None
    changes_total: int | None = None


class UndoingRecord(FollowUpRecord):
    """An undo begins."""

    event: Literal["undoing"] = "undoing"
    undone: str


class UndoneRecord(FollowUpRecord):
    """An undo is done."""

    event: Literal["undone"] = "undone"
    undone: str


class LandingRecord(FollowUpRecord):
    """A person's landing of what was held begins.

    A call that lands by itself has `landed: true` in its `ended`.
    """

    event: Literal["landing"] = "landing"


class LandedRecord(FollowUpRecord):
    """What was held, or a part of it, landed by a person's word."""

    event: Literal["landed"] = "landed"


class DiscardingRecord(FollowUpRecord):
    """Throwing away what is held begins."""

    event: Literal["discarding"] = "discarding"


class DiscardedRecord(FollowUpRecord):
    """What was held is thrown away."""

    event: Literal["discarded"] = "discarded"
    discarded_by: str | None = None


class GivenUpRecord(AuditRecord):
    """What was announced was not done."""

    event: Literal["given-up"] = "given-up"
    call: str
    because: str | None = None


class PartedRecord(AuditRecord):
    """What of a call is still held after a part of it landed."""

    event: Literal["parted"] = "parted"
    call: str
    parts: list[str] | None = None
    judgement: str | None = None
    landed: bool | None = None
    changes: Changes | None = None
    changes_total: int | None = None
    size: int | None = None
    outcome: str | None = None


class LookedRecord(AuditRecord):
    """A person looked at held changes that are not what was shown before; from then on they are."""

    event: Literal["looked"] = "looked"
    call: str
    looked_by: str | None = None
    changes: Changes | None = None
    changes_total: int | None = None
    size: int | None = None


class ForgottenRecord(AuditRecord):
    """Calls that can no longer be undone: the quota of before-images is reached."""

    event: Literal["forgotten"] = "forgotten"
    calls: list[str]


class OutputsDroppedRecord(AuditRecord):
    """What the oldest calls wrote was removed to make room."""

    event: Literal["outputs_dropped"] = "outputs_dropped"
    calls: int
    first: str | None = None
    last: str | None = None


def is_entry(record: AuditRecord) -> bool:
    """Whether a record is an entry of the log by itself: an undo, or a landing of a part."""
    return isinstance(record, UndoneRecord) or (
        isinstance(record, LandedRecord) and record.of is not None
    )
