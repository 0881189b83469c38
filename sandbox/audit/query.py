# SPDX-License-Identifier: Apache-2.0
"""Which decisions of the record are looked for. Pure: who knows the time supplies it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from policy.model import Verdict
from policy.people.reports import GATES, GateWord
from sandbox.audit.events.calls import DecidedRecord
from sandbox.audit.events.follow_ups import FollowUpRecord
from sandbox.audit.events.record import AuditRecord
from sandbox.errors import BadInput

_AGO = re.compile(r"(?P<count>\d{1,9})(?P<unit>[smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


ALL = 1_000_000
"""More calls than a log holds."""
MOST_SEARCHED = 500
"""Characters of a parameter of a call, and of its intent, that a search looks in."""


@dataclass(frozen=True, slots=True)
class Query:
    """What must hold of a decision; None: anything."""

    verdicts: frozenset[str] | None = None
    """`allow`, `report`, `ask`, `deny`."""
    tool: str | None = None
    agent: str | None = None
    rule: str | None = None
    since: float | None = None
    """Seconds since 1970, inclusive."""
    until: float | None = None
    """Seconds since 1970, exclusive."""
    limit: int | None = None
    """At most so many, the newest ones."""
    session: str | None = None
    text: str | None = None
    """What stands somewhere in `searched` of it, whether in small or in capital letters."""
    before: int | None = None
    """Only records with a lower number."""
    held: bool = False
    """Only calls that wait for a person; the index knows them."""

    @property
    def needs_entries(self) -> bool:
        """Whether counts by day cannot answer it."""
        return (self.session, self.text, self.before, self.held) != (None, None, None, False)

    def matches(self, record: AuditRecord) -> bool:
        """Whether a record is a decision that is looked for."""
        if not isinstance(record, DecidedRecord):
            return False
        at = seconds_of(record.ts or "")
        return (
            (self.verdicts is None or record.verdict in self.verdicts)
            and self.tool in (None, record.tool)
            and self.agent in (None, record.agent)
            and (self.rule is None or self.rule in (record.rules or ()))
            and (self.since is None or at >= self.since)
            and (self.until is None or at < self.until)
            and self.session in (None, record.session)
            and (self.text is None or self.text.casefold() in searched(record))
            and (self.before is None or (record.n or 0) < self.before)
        )


def searched(record: DecidedRecord | FollowUpRecord) -> str:
    """Return what of a record a search looks in: ids, the intent and the parameters of a call, of
    each text its beginning."""
    if isinstance(record, FollowUpRecord):
        texts: tuple[object, ...] = (record.undone, record.of)
    else:
        texts = (record.intent, *(record.params or {}).values())
    parts = (str(text)[:MOST_SEARCHED] for text in (record.call, *texts) if text)
    return "\n".join(parts).casefold()


def verdicts(word: str | None) -> frozenset[str] | None:
    """Return the verdicts that a word names: `ALLOW`, `DENY` or `NEED_APPROVAL` of
    orchestration.md ("Query Options"), or a verdict itself. Raises BadInput."""
    if word is None:
        return None
    if word in {gate_word.value for gate_word in GateWord}:
        return frozenset(one.value for one, gate in GATES.items() if gate.value == word)
    if word in {verdict.value for verdict in Verdict}:
        return frozenset((word,))
    known = ", ".join(
        [*(gate_word.value for gate_word in GateWord), *(verdict.value for verdict in Verdict)]
    )
    raise BadInput(f"`{word}` is no decision; use one of {known}")


def instant(text: str | None, now: float) -> float | None:
    """Return the instant that `2h`, `3d` (so long ago) or an ISO 8601 text names.

    Without a time zone it is meant in this host's. Raises BadInput.
    """
    if text is None:
        return None
    if ago := _AGO.fullmatch(text):
        return now - int(ago["count"]) * _SECONDS[ago["unit"]]
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise BadInput(
            f"`{text}` is no instant; write 2h or 3d (so long ago), or ISO 8601 as in "
            "2026-02-11T09:50:00Z"
        ) from None


def stamp_of(at: float) -> str:
    """Return an instant as records have it."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def seconds_of(stamp: str) -> float:
    """Return the instant of a record's time stamp; 0 where it has none."""
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except ValueError:
        return 0.0
