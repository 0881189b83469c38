# SPDX-License-Identifier: Apache-2.0
"""What people are told of held calls: in a list, and once they are landed or thrown away."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from policy.model import Tier, Verdict
from sandbox.audit.call_entry import CallEntry
from sandbox.calls.keepers import named
from sandbox.gates.shown_changes import Shown
from sandbox.results import CallResult, Ending, HeldCall

HELD, HELD_END = "held, nothing landed yet: ", "; a person can land or discard it"
"""What gate 2 puts around its reasons; a list of held calls says so by itself."""


def result_of(entry: CallEntry) -> CallResult:
    """Return the result of a recorded call that did not land, as far as the record has it."""
    return settled_call(entry, entry.outcome or "", None, landed=False)


def listed_call(entry: CallEntry, there: Mapping[str, Any] | None, now: float) -> HeldCall:
    """Return a recorded call that waits, as a list has it; `there`: the layers that are there."""
    row = None if there is None else there.get(entry.id)
    since = datetime.fromisoformat(entry.ts or "").timestamp() + (entry.ms or 0.0) / 1000
    note = ""
    if there is not None and row is None:
        note = "its layer is gone"
    elif there is None:
        note = "no engine could be asked"
    return HeldCall(
        id=entry.id,
        agent=entry.agent or "",
        tool=entry.tool or "",
        workspace=entry.workspace or "",
        because=_because(entry),
        proposal=entry.landing == "proposal",
        changes=entry.changes_total or len(entry.changes or ()),
        bytes=entry.size if entry.size is not None else row["bytes"] if row else 0,
        age=max(0.0, now - since),  # the layer's own time is that of the last part that landed
        there=None if there is None else row is not None,
        note=note,
    )


def _because(entry: CallEntry) -> str:
    """Say why a call is held; of one of which parts have landed, why the rest is."""
    reasons: dict[str, list[str]] = {}
    for change in entry.changes or ():
        if change.get("reason"):
            reasons.setdefault(change["reason"], []).append(change["path"])
    if entry.parts and reasons:
        return "; ".join(f"{named(paths)}: {why}" for why, paths in reasons.items())
    if entry.parts:
        return "the rest of what was held"
    said = str(entry.outcome or "").removesuffix(f"; see `lockgate show {entry.id}`")
    return said.removeprefix(HELD).removesuffix(HELD_END)


def unrecorded_call(name: str, row: Mapping[str, Any], now: float) -> HeldCall:
    """Return a layer of which the record knows nothing, as a list has it."""
    return HeldCall(
        id=name,
        bytes=row["bytes"],
        age=max(0.0, now - row["time"]),
        there=True,
        note=f"no record of it; `lockgate discard {name}` removes it",
    )


def settled_call(
    entry: CallEntry,
    message: str,
    shown: Shown | None,
    *,
    landed: bool,
    undoable: bool = True,
) -> CallResult:
    """Return the result of a held call that a person landed or threw away."""
    return CallResult(
        id=entry.id,
        tool=entry.tool or "unknown",
        verdict=Verdict(entry.verdict),
        tier=Tier(entry.tier),
        rules=tuple(entry.rules or ()),
        message=message,
        ending=Ending(entry.ending),
        judgement="land" if landed else "discard",
        landed=landed,
        undoable=undoable,
        changes=shown.views if shown else (),
        changes_total=shown.total if shown else 0,
        changes_size=shown.size if shown else 0,
        exit_status=entry.exit_status,
        ms=entry.ms or 0.0,
    )


def unknown_call(call: str) -> CallResult:
    """Return the result for a layer of which the record knows nothing."""
    return CallResult(
        id=call,
        tool="unknown",
        verdict=Verdict.ASK,
        tier=Tier.DANGER,
        rules=(),
        message="discarded by a person; nothing was recorded of it",
        ending=Ending.CANCELLED,
        judgement="discard",
    )
