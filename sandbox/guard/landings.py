# SPDX-License-Identifier: Apache-2.0
"""Which landings of the record changed which protected paths, and who approved them.

Reads the audit log forwards, only what was added since the last reading. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from sandbox.audit.events.calls import AnsweredRecord, DecidedRecord, EndedRecord
from sandbox.audit.events.follow_ups import FollowUpRecord, LandedRecord, UndoneRecord
from sandbox.audit.events.people import ConnectionRecord
from sandbox.audit.events.protected import TamperedRecord, VouchRecord
from sandbox.audit.events.reading import read
from sandbox.audit.segments import BEGIN, Segments
from sandbox.audit.segments import LogPlace as Written

LONGEST_LANDING = 600.0
"""Seconds that a landing or an undo may take until it is recorded."""

Place = tuple[str, str]
"""Workspace, and path in it as the record writes it."""


@dataclass(frozen=True, slots=True)
class Landed:
    """What one landing or undo did to one path."""

    call: str
    kind: str
    """created, modified, deleted, renamed or meta."""
    type: str
    source: str | None
    start: float
    """Seconds since 1970 between which the path was changed."""
    end: float
    when: str
    exact: bool
    """Whether the record says what the content is since then."""
    sha256: str | None
    mode: int | None = None
    """Permission bits since then, where the record says so."""
    approved_by: str | None = None
    """The person who approved it; None where no person did."""
    undo: bool = False
    """Whether it took another back: it left the path as it was before that one."""

    @property
    def gone(self) -> bool:
        """Whether nothing is at the path since then."""
        return self.kind == "deleted"


@dataclass(frozen=True, slots=True)
class Tampered:
    """A change that the guard recorded: no landing made it."""

    when: str
    end: float
    sha256: str | None
    restored: bool


@dataclass(frozen=True, slots=True)
class Vouched:
    """What a person vouched for: a path with exactly this content. It explains no change."""

    by: str
    when: str
    workspace: str
    path: str
    kind: str
    mode: str | None
    """As git writes it; None where nothing is at the path."""
    sha256: str | None


@dataclass(slots=True)
class _Call:
    """A call that has not ended, or whose changes are held."""

    workspaces: list[str] = field(default_factory=lambda: [""])
    approved_by: str | None = None
    changes: list[dict[str, Any]] = field(default_factory=list)


class Landings:
    """The landings that an audit log tells of."""

    def __init__(self, log: Path, wanted: Callable[[str], bool]) -> None:
        """`wanted` says which paths matter; the others are not remembered."""
        self._segments = Segments(log)
        self._wanted = wanted
        self._start_over()

    def read_again(self) -> None:
        """Read the whole log at the next look, since other paths matter now."""
        self._start_over()

    def _start_over(self) -> None:
        self._place = BEGIN
        self._history: dict[Place, list[Landed | Tampered]] = {}
        self._calls: dict[str, _Call] = {}
        self._undone: set[str] = set()
        self._undo_of: dict[str, str] = {}
        self._vouched: dict[Place, list[Vouched]] = {}
        self.workspaces: set[str] = set()
        """Every workspace that the log tells of."""
        self.vouched_in: set[str] = set()
        """Repositories in which people vouched for changes; they may be no workspaces."""

    def refresh(self) -> None:
        """Read what was added to the log. Raises OSError; a log that is not there is empty."""
        if self._place.segment and not self._segments.reaches(self._place):
            self._start_over()
        for place, line in self._segments.from_place(self._place):
            self._place = Written(place.segment, place.offset + len(line))
            self._take(line)

    def of(self, workspace: str, path: str) -> list[Landed | Tampered]:
        """Return what happened to a path in the order of the record; undone landings are left out.

        An undo is a landing of its own here; where it was undone, what it took back counts again.
        """
        found = self._history.get((workspace, path), ())
        return [one for one in found if isinstance(one, Tampered) or one.call not in self._undone]

    def vouched(self, workspace: str, path: str) -> list[Vouched]:
        """Return what people vouched for at a path and did not take back, the oldest first."""
        return list(self._vouched.get((workspace, path), ()))

    def all_vouched(self) -> list[Vouched]:
        """Return all that people vouched for and did not take back, by workspace and path."""
        return [one for _, found in sorted(self._vouched.items()) for one in found]

    def _take(self, line: bytes) -> None:
        try:
            record = read(line)
            now = datetime.fromisoformat(record.ts or "").timestamp()
        except ValueError:
            return  # the chain's check names it
        if isinstance(workspace := getattr(record, "workspace", None), str):
            known = self.vouched_in if isinstance(record, VouchRecord) else self.workspaces
            known.add(workspace)
        match record:
            case DecidedRecord():
                self._calls[record.call] = _Call(_places(record))
            case AnsweredRecord(approved=True):
                call = self._calls.setdefault(record.call, _Call())
                call.approved_by = record.approved_by or "a person"
            case EndedRecord():
                self._ended(record, now)
            case LandedRecord():
                self._landed_later(record, now)
            case ConnectionRecord(workspace=str(workspace)):  # a person's word too
                by = record.by or "a person"
                self._landing(record, record.event, [workspace], now, LONGEST_LANDING, by)
            case UndoneRecord():
                self._undo_of[record.call] = record.undone
                self._set_undone(record.undone, undone=True)
                self._landing(record, record.call, _places(record), now, LONGEST_LANDING, None)
            case VouchRecord():
                self._take_vouch(record)
            case TamperedRecord():
                entry = Tampered(record.ts or "", now, record.after, record.restored is True)
                self._history.setdefault((record.workspace, record.path), []).append(entry)
            case _:
                pass

    def _ended(self, record: EndedRecord, now: float) -> None:
        call = self._calls.get(record.call)
        if call is None:
            return
        if record.landed:
            took = (record.ms or 0) / 1000 + 1
            by = _person(record) or call.approved_by
            self._landing(record, record.call, call.workspaces, now, took, by)
        elif record.judgement == "hold":
            call.changes = record.changes or []
            return
        del self._calls[record.call]

    def _landed_later(self, record: LandedRecord, now: float) -> None:
        """Take what a person landed from hold, whole or in part: that is an approval."""
        own = _Call(_places(record)) if record.workspace is not None else None
        call = self._calls.get(record.of or record.call) or own
        if call is None:
            return
        if not record.changes and record.of is None:
            record = record.model_copy(update={"changes": call.changes})
        by = _person(record) or "a person"
        self._landing(record, record.call, call.workspaces, now, LONGEST_LANDING, by)

    def _landing(
        self,
        record: EndedRecord | FollowUpRecord | ConnectionRecord,
        call: str,
        workspaces: list[str],
        now: float,
        took: float,
        approved_by: str | None,
    ) -> None:
        for change in record.changes or ():
            entry = Landed(
                call=call,
                kind=str(change.get("kind")),
                type=str(change.get("type")),
                source=change.get("source"),
                start=now - took,
                end=now,
                when=record.ts or "",
                exact="sha256" in change,
                sha256=change.get("sha256"),
                mode=change.get("mode"),
                approved_by=approved_by,
                undo=isinstance(record, UndoneRecord),
            )
            for end, one in _ends(change, entry):
                workspace, path = _place(end, workspaces)
                if self._wanted(path):
                    self._history.setdefault((workspace, path), []).append(one)

    def _take_vouch(self, record: VouchRecord) -> None:
        for change in record.changes:
            path = str(change.get("path"))
            if record.event == "vouch-withdrawn":
                self._vouched.pop((record.workspace, path), None)
                continue
            vouched = Vouched(
                by=record.by or "a person",
                when=record.ts or "",
                workspace=record.workspace,
                path=path,
                kind=str(change.get("kind")),
                mode=change.get("mode"),
                sha256=change.get("sha256"),
            )
            self._vouched.setdefault((record.workspace, path), []).append(vouched)

    def _set_undone(self, call: str, *, undone: bool) -> None:
        while True:
            (self._undone.add if undone else self._undone.discard)(call)
            inner = self._undo_of.get(call)
            if inner is None:
                return
            call, undone = inner, not undone


def _person(record: EndedRecord | LandedRecord) -> str | None:
    """Return the person by whose word something landed."""
    earlier = record.model_extra or {}  # earlier versions wrote it elsewhere
    by = record.landed_by or earlier.get("approved_by") or earlier.get("by")
    return by.get("person") if isinstance(by, Mapping) else by


def _places(record: DecidedRecord | FollowUpRecord) -> list[str]:
    return [record.workspace or "", *(record.also or ())]


def _ends(change: Mapping[str, Any], entry: Landed) -> Iterator[tuple[str, Landed]]:
    yield str(change.get("path")), entry
    if entry.source is not None:
        gone = replace(entry, kind="deleted", source=None, exact=True, sha256=None)
        yield entry.source, gone


def _place(path: str, workspaces: list[str]) -> Place:
    """Return workspace and path of one change: of further workspaces the whole path is recorded."""
    for workspace in workspaces[1:]:
        if path.startswith(workspace + "/"):
            return workspace, path[len(workspace) + 1 :]
    return workspaces[0], path
