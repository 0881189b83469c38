# SPDX-License-Identifier: Apache-2.0
"""What stands in records of calls: changes, ends, plans, and what is masked. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from policy.model import ActionPlan, LayerAnswer
from sandbox.audit.events.calls import EndedRecord
from sandbox.audit.events.record import AuditRecord
from sandbox.host.off_loop import SMALL
from sandbox.results import CallResult, ChangeView, WatchEvent
from sandbox.text.redaction import mask_all

MOST_CHANGES = 200
"""Changed paths in one line of the log, unless more are protected."""
MOST_VALUES = 64
"""Parameters and variables of a usual call."""
MOST_TEXT = 20_000
"""Characters of one parameter in the log (contents of files); commands are kept whole."""


_TEXTS = (
    *("params", "env", "intent", "message", "outcome", "layers", "because", "answer_reason"),
    *("action", "details", "escalation", "rehearsal", "refused"),
)
"""Fields of a record that may hold text of an agent."""


def is_short(values: Sequence[Any]) -> bool:
    """Whether it takes no time to look through what a call is given."""
    texts = [value for value in values[:MOST_VALUES] if isinstance(value, str)]
    plain = all(
        value is None or isinstance(value, str | int | float) for value in values[:MOST_VALUES]
    )
    return plain and len(values) <= MOST_VALUES and sum(map(len, texts)) <= SMALL


def agents_texts(record: AuditRecord) -> dict[str, Any]:
    """Return the fields of a record that may hold text of an agent, and were given."""
    return {key: one for key, one in record.as_json().items() if key in _TEXTS}


def masked_record(record: AuditRecord) -> AuditRecord:
    """Return a record without the secrets that stand in its texts."""
    return record.model_copy(
        update={key: mask_all(one) for key, one in agents_texts(record).items()}
    )


def recorded(views: Sequence[ChangeView]) -> list[dict[str, Any]]:
    """Return changes as they stand in the log: every protected one, others up to a limit.

    INVARIANT (P3, recorded): what the guard and `verify` look at is never cut off.
    """
    first = [view for view in views if view.protected]
    others = [view for view in views if not view.protected]
    return [_plain(view) for view in first + others[: max(0, MOST_CHANGES - len(first))]]


def ended_record(
    result: CallResult, by: str | None, grant: str | None, made: Mapping[str, Any] | None
) -> EndedRecord:
    """Return the record of how a call ended; it grows with what was changed."""
    return EndedRecord(
        call=result.id,
        ending=result.ending.value,
        judgement=result.judgement,
        landed=result.landed,
        exit_status=result.exit_status,
        **_landed_by(result, by, grant),
        changes=recorded(result.changes),
        changes_total=max(result.changes_total, len(result.changes)),
        size=result.changes_size,
        **given_fields(events=[_plain(event) for event in result.events], made=made),
        outcome=result.message,
        ms=round(result.ms, 2),
    )


def layer_fields(layer: LayerAnswer) -> dict[str, Any]:
    """Return a layer's answer as it is recorded."""
    return layer.model_dump(mode="json", exclude=None if layer.program else {"program"})


def given_fields(**fields: Any) -> dict[str, Any]:
    """Return the fields that hold something; the others are left out of a record."""
    return {key: one for key, one in fields.items() if one}


def _landed_by(result: CallResult, by: str | None, grant: str | None) -> dict[str, Any]:
    """Say of a call that landed at once by whose word it did."""
    if not result.landed:
        return {}
    return {"landed_by": {"call": result.id, "person": by, "grant": grant}}


def _plain(view: ChangeView | WatchEvent) -> dict[str, Any]:
    return view.model_dump(mode="json", exclude_none=True)


def shortened(plan: ActionPlan) -> dict[str, Any]:
    """Return a plan's parameters as a record keeps them: what is long is cut."""
    params = plan.params.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return {
        key: value[:MOST_TEXT] + f"[cut, {len(value)} characters]"
        if key != "command" and isinstance(value, str) and len(value) > MOST_TEXT
        else value
        for key, value in params.items()
    }
