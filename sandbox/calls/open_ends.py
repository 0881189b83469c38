# SPDX-License-Identifier: Apache-2.0
"""What began and has no end in the record, and the record that says how it ended."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from policy.model import Outcome, Verdict
from sandbox.audit.events.calls import DecidedRecord, EndedRecord
from sandbox.audit.events.follow_ups import (
    DiscardedRecord,
    DiscardingRecord,
    GivenUpRecord,
    LandedRecord,
    LandingRecord,
    PartedRecord,
    UndoingRecord,
    UndoneRecord,
)
from sandbox.audit.events.record import AuditRecord
from sandbox.calls.record_fields import recorded
from sandbox.host.process_owner import lives
from sandbox.results import ChangeView, Ending

Begun = DecidedRecord | UndoingRecord | LandingRecord | DiscardingRecord
"""What begins something."""

_ENDS: dict[type[AuditRecord], tuple[type[AuditRecord], ...]] = {
    DecidedRecord: (EndedRecord,),
    UndoingRecord: (UndoneRecord, GivenUpRecord),
    LandingRecord: (LandedRecord, GivenUpRecord),
    DiscardingRecord: (DiscardedRecord, GivenUpRecord),
}
"""What begins something -> what says how it ended."""


@dataclass(frozen=True, slots=True)
class OpenEnd:
    """Something that began, and of which the record does not say how it ended."""

    begun: Begun
    parting: bool = False
    """Whether the landing of a part is recorded, while what is left of the call is not."""


def open_ends(records: Iterable[AuditRecord], unsure: Collection[str] = ()) -> list[OpenEnd]:
    """Return what began and of which no end is recorded, newest first.

    What belongs to a process that lives is left out, unless its name is in `unsure`.
    """
    ended: set[tuple[type[AuditRecord], str | None]] = set()
    found = []
    for record in records:
        if not isinstance(record, Begun):
            ended.add((type(record), record.call))
            if isinstance(record, PartedRecord):
                ended.update((PartedRecord, part) for part in record.parts or ())
            continue
        name = record.call
        over = any((end, name) in ended for end in _ENDS[type(record)])
        told = {(PartedRecord, name), (GivenUpRecord, name)} & ended
        if over and (not whole_call_of(record) or told):
            continue
        mine = name in unsure or not lives(record.supervisor or "")
        if mine and record.workspace is not None:
            found.append(OpenEnd(record, parting=over))
    return found


def whole_call_of(begun: Begun) -> str | None:
    """Return the call a part of which is landed; an undo names the call it is `of` as well."""
    return begun.of if isinstance(begun, LandingRecord) else None


def workspaces_of(begun: Begun) -> tuple[str, ...]:
    """Return the workspaces in which something began, the plan's own first."""
    return (begun.workspace or "", *(begun.also or ()))


def make_end_record(
    begun: Begun, state: str, views: Sequence[ChangeView], stands: Mapping[str, str]
) -> AuditRecord:
    """Return the record that says how something ended; `stands` is where alone it did, and why."""
    if isinstance(begun, DecidedRecord):
        return _end_of_call(begun, state, views, stands)
    if isinstance(begun, DiscardingRecord) and state == "nothing":
        return DiscardedRecord(call=begun.call, landed=False, judgement=Outcome.DISCARD.value)
    if state != "landed" or isinstance(begun, DiscardingRecord):
        why = "the supervisor or its keeper died; it was not done"
        return GivenUpRecord(call=begun.call, because=why)
    told = {key: one for key, one in begun.as_json().items() if key not in _NOT_TOLD}
    told |= {"landed": True, "changes": recorded(views)}
    if stands:
        told["outcome"] = only_there(stands)
    if isinstance(begun, LandingRecord):
        return LandedRecord(**told, judgement=Outcome.LAND.value)
    return UndoneRecord(**told)


def only_there(stands: Mapping[str, str]) -> str:
    """Say in which of several workspaces something stands."""
    named = "; ".join(f"`{path}`: {why}" for path, why in stands.items())
    return f"only where it could not be taken back after a crash: {named}"


_NOT_TOLD = ("ts", "event", "supervisor")
"""Fields of a record that are its own."""


def _end_of_call(
    begun: DecidedRecord, state: str, views: Sequence[ChangeView], stands: Mapping[str, str]
) -> EndedRecord:
    ms = _ms_since(begun)
    if state == "nothing":
        denied = begun.verdict == Verdict.DENY.value
        ending = Ending.DENIED.value if denied else "failed"
        outcome = "the supervisor died in the middle; nothing landed"
        return EndedRecord(call=begun.call, ending=ending, landed=False, outcome=outcome, ms=ms)
    landed = state == "landed"
    after = "its changes had landed" if landed else "its changes are held"
    if stands:
        after += f" {only_there(stands)}"
    return EndedRecord(
        call=begun.call,
        ending=Ending.RAN.value,
        judgement=(Outcome.LAND if landed else Outcome.HOLD).value,
        landed=landed,
        changes=recorded(views),
        changes_total=len(views),
        outcome=f"the supervisor died before it could record the end; {after}",
        ms=ms,
    )


def _ms_since(record: AuditRecord) -> float:
    begun = datetime.fromisoformat(str(record.ts))
    return round((datetime.now(UTC) - begun).total_seconds() * 1000, 2)
