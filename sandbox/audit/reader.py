# SPDX-License-Identifier: Apache-2.0
"""Ask the audit log: by decision, tool, agent, rule and time, whatever its length.

    Audit(dirs).calls(Query(tool="Bash", limit=20)) -> list[CallEntry], the newest first

An entry is one call with all that is known of it (`CallEntry`): who decided by which rule, who
approved it with which grant, its exit status, its paths.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sandbox.audit import history
from sandbox.audit.call_entry import CallEntry
from sandbox.audit.events.calls import DecidedRecord
from sandbox.audit.events.record import AuditRecord
from sandbox.audit.index.conditions import DAY
from sandbox.audit.index.sessions import SessionSummary
from sandbox.audit.index.taking import AuditIndex, Said
from sandbox.audit.query import ALL, Query
from sandbox.audit.record_reader import Reader
from sandbox.audit.segments import Segments
from sandbox.host.dirs import Dirs


@dataclass(frozen=True, slots=True)
class Stats:
    """How many decisions there were, and of which kind; each count is by verdict."""

    decisions: int
    verdicts: dict[str, int]
    denial_rate: float
    """Denied decisions among all; 0 where there are none."""
    days: dict[str, dict[str, int]]
    """By the day in UTC; `allow` is what was GREEN."""
    tools: dict[str, dict[str, int]]
    agents: dict[str, dict[str, int]]
    rules: dict[str, dict[str, int]]

    def as_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return asdict(self)


class Audit:
    """The audit log of one state folder, for questions."""

    def __init__(self, dirs: Dirs, *, said: Said | None = None) -> None:
        """`said` is told how many lines were taken where the index takes its time."""
        self._segments = Segments(dirs.state / "audit.jsonl")
        self._index = AuditIndex(dirs.create(), self._segments)
        self._said = said

    def refresh(self) -> None:
        """Bring the index up to date. Raises Unavailable."""
        self._index.refresh(self._said)

    def reindex(self) -> None:
        """Make the index anew. Raises Unavailable."""
        self._index.remove()
        self.refresh()

    def calls(self, query: Query, *, own: bool = False) -> list[CallEntry]:
        """Return the calls that are looked for, the newest first; with `own` also undos."""
        return list(self.each(query, own=own))

    def each(
        self, query: Query, *, own: bool = False, oldest_first: bool = False
    ) -> Iterator[CallEntry]:
        """Yield the calls that are looked for, each once: a call may have been decided anew."""
        for name, records in self.families(query, own=own, oldest_first=oldest_first):
            yield history.call(records, name, name)

    def families(
        self, query: Query, *, own: bool = False, oldest_first: bool = False
    ) -> Iterator[tuple[str, list[AuditRecord]]]:
        """Yield each call that is looked for with its records, the newest record first."""
        limit = query.limit
        if oldest_first and limit is not None:
            yield from reversed(list(self.families(query, own=own)))
            return
        numbers = self.numbers(query, own=own)
        seen: set[str] = set()
        with self._reading() as reader:
            for number in reversed(numbers) if oldest_first else numbers:
                found = self._index.place(number)
                record = reader.record(*found) if found else None
                name = (record.call or "") if record else ""
                if name and name not in seen:
                    seen.add(name)
                    yield name, list(self._records(name, reader))
                if len(seen) == limit:
                    return

    def numbers(self, query: Query, *, own: bool = False) -> list[int]:
        """Return the numbers of the records that are looked for, the newest first."""
        self.refresh()
        some = None if query.limit is None else 2 * query.limit + 10  # some are of one call
        return self._index.decided(replace(query, limit=some), own=own)

    def decisions(self, query: Query) -> Iterator[DecidedRecord]:
        """Yield the records of decisions that are looked for, the newest first."""
        self.refresh()
        with self._reading() as reader:
            for number in self._index.decided(query):
                found = self._index.place(number)
                if found and isinstance(record := reader.record(*found), DecidedRecord):
                    yield record

    def call(self, asked: str) -> CallEntry:
        """Return one call by its id or a unique beginning of it. Raises BadInput."""
        self.refresh()
        with self._reading() as reader:
            return history.call(self._records(asked, reader), asked, asked)

    def page(self, query: Query) -> tuple[list[CallEntry], int | None]:
        """Return the calls and undos that are looked for, at most as many as its `limit`, and what
        `before` of the next page is; None: this is the last."""
        self.refresh()
        limit = ALL if query.limit is None else query.limit
        some = 2 * limit + 10  # some are of one call
        numbers = self._index.decided(replace(query, limit=some), own=True)
        shown: dict[str, CallEntry] = {}
        last: int | None = None
        with self._reading() as reader:
            for number in numbers:
                if len(shown) == limit:
                    return list(shown.values()), last
                last = number
                found = self._index.place(number)
                record = reader.record(*found) if found else None
                name = (record.call or "") if record else ""
                if not name or name in shown:
                    continue
                entry = self._entry(name, reader)
                if entry.is_held or not query.held:
                    shown[name] = entry
        return list(shown.values()), last if len(numbers) == some else None

    def record_page(
        self, event: str | None, call: str | None, before: int | None, limit: int
    ) -> tuple[list[AuditRecord], int | None]:
        """Return records, the newest first, and what `before` of the next page is."""
        self.refresh()
        numbers = self._index.records(event, call, before, limit + 1)
        shown = []
        with self._reading() as reader:
            for number in numbers[:limit]:
                found = self._index.place(number)
                if found and (record := reader.record(*found)) is not None:
                    shown.append(record)
        return shown, numbers[limit - 1] if len(numbers) > limit else None

    def sessions(self, before: int | None, limit: int) -> list[SessionSummary]:
        """Return agents' sessions, the one with the newest decision first."""
        self.refresh()
        return self._index.sessions(before, limit)

    def session(self, asked: str, workspace: str | None = None) -> list[str]:
        """Return the sessions that a word means: `last`, an id, or the beginning of ids."""
        self.refresh()
        if asked == "last":
            newest = self._index.newest_session(workspace)
            return [] if newest is None else [newest]
        named = self._index.sessions_named(asked) if asked else []
        return [asked] if asked in named else named

    def landed_of(self, session: str) -> list[CallEntry]:
        """Return what landed of the calls of a session and stands, newest first; where ids begin
        alike, also of others."""
        self.refresh()
        places = {
            number: (place, length)
            for name in self._index.calls_of(session)
            for number, place, length in self._index.places_of(name)
        }
        with self._reading() as reader:
            found = (reader.record(*places[number]) for number in sorted(places, reverse=True))
            return history.landed((record for record in found if record is not None), ALL)

    def newest(self, workspace: str | None = None) -> Iterator[CallEntry]:
        """Yield the calls and undos (in a workspace), newest first, each when it is wanted."""
        self.refresh()
        with self._reading() as reader:
            for name in self._index.placed(workspace):
                yield self._entry(name, reader)

    def held(self) -> list[CallEntry]:
        """Return the calls that wait for a person, the newest first."""
        self.refresh()
        with self._reading() as reader:
            entries = [self._entry(name, reader) for name in self._index.waiting()]
        return [entry for entry in entries if entry.is_held]

    def landed(self, count: int, workspace: str | None = None) -> list[CallEntry]:
        """Return the newest calls (in a workspace) whose changes stand, at most `count`."""
        self.refresh()
        call_entries: list[CallEntry] = []
        with self._reading() as reader:
            for name in self._index.standing(workspace):
                if len(call_entries) >= count:
                    break
                # the index says where to look; the records say whether it is so
                entries = history.landed(self._records(name, reader), ALL, workspace)
                call_entries += [entry for entry in entries if entry.id == name]
        return call_entries

    def stats(self, query: Query) -> Stats:
        """Return counts of the decisions that are looked for."""
        self.refresh()
        verdicts: Counter[str] = Counter()
        groups: tuple[dict[str, Counter[str]], ...] = ({}, {}, {}, {})
        for counted in self._index.counts(query):
            verdicts[counted.verdict] += counted.count
            named = ((_day(counted.day),), (counted.tool,), (counted.agent,), counted.rules)
            for group, names in zip(groups, named, strict=True):
                for name in names:
                    group.setdefault(name, Counter())[counted.verdict] += counted.count
        total = verdicts.total()
        days, *others = groups
        return Stats(
            total,
            dict(verdicts),
            verdicts["deny"] / total if total else 0.0,
            {name: dict(days[name]) for name in sorted(days)},
            *(_by_count(group) for group in others),
        )

    def _entry(self, name: str, reader: Reader) -> CallEntry:
        return history.call(self._records(name, reader), name, name)

    def _records(self, beginning: str, reader: Reader) -> Iterator[AuditRecord]:
        for _, place, length in self._index.places_of(beginning):
            record = reader.record(place, length)
            if record is not None:
                yield record

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Reader]:
        reader = Reader(self._segments)
        try:
            with self._index.asking():
                yield reader
        finally:
            reader.close()


def _day(number: int) -> str:
    return datetime.fromtimestamp(number * DAY, UTC).date().isoformat()


def _by_count(group: dict[str, Counter[str]]) -> dict[str, dict[str, int]]:
    return {
        name: dict(counts)
        for name, counts in sorted(group.items(), key=lambda one: (-one[1].total(), one[0]))
    }
