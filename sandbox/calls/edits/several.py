# SPDX-License-Identifier: Apache-2.0
"""Undo several calls, a whole session for example, and show what they changed together.

Newest first, as each stands upon those before it. What cannot be undone stays, and is named; the
rest goes on, since nobody knows what of it rests upon that but the comparison with the files, which
each undo makes.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sandbox.audit.call_entry import CallEntry
from sandbox.audit.query import ALL, seconds_of
from sandbox.calls.edits.keeping import EditKeeping
from sandbox.calls.keepers import Keepers
from sandbox.calls.undo import Undoing
from sandbox.errors import BadInput, SandboxError, Stopped
from sandbox.gates.masked_diff import masked_diff
from sandbox.gates.shown_changes import shown_of
from sandbox.host.latch import below
from sandbox.results import ChangedReport, ChangeView, StayingCall, UndoReport, UndoResult

_HEAD = re.compile(r"(?m)^(?=diff --git )")


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which calls are meant: those that fit every field that is not None."""

    session: str | None = None
    """An id, a beginning of one, or `last`."""
    agent: str | None = None
    """That one and all below it."""
    since: float | None = None
    """Seconds since the epoch."""
    workspace: str | None = None

    def __post_init__(self) -> None:
        if (self.session, self.agent, self.since, self.workspace) == (None,) * 4:
            raise BadInput("say which calls: a session, an agent, a time or a workspace")

    def fits(self, entry: CallEntry) -> bool:
        """Whether a call is meant; the session must be a whole id."""
        if self.session is not None and entry.session != self.session:
            return False
        if self.agent is not None and not below(self.agent, entry.agent or ""):
            return False
        if self.since is not None and seconds_of(entry.ts or "") < self.since:
            return False
        places = entry.workspaces
        return self.workspace is None or self.workspace in places


class Several:
    """Acts on all that was chosen."""

    def __init__(self, keepers: Keepers, undoing: Undoing, edits: EditKeeping) -> None:
        self._keepers = keepers
        self._undoing = undoing
        self._edits = edits

    async def undo(self, chosen: Chosen, *, dry_run: bool) -> UndoReport:
        """Undo what stands of the chosen calls. Raises BadInput where nothing does."""
        chosen, entries = await asyncio.to_thread(self._standing, chosen)
        done: list[UndoResult] = []
        stay = [
            StayingCall(id=entry.id, because=why)
            for entry, why in await self._edits.open_calls()
            if chosen.fits(entry)
        ]
        gone: list[CallEntry] = []
        newer: set[str] = set()
        for entry in entries:
            try:
                undo_result = await self._undoing.of(entry, dry_run=dry_run, newer=newer)
            except Stopped:
                raise
            except SandboxError as error:
                stay.append(StayingCall(id=entry.id, because=str(error)))
                continue
            done.append(undo_result)
            gone.append(entry)
            newer |= {
                path for view in undo_result.changes for path in (view.path, view.source) if path
            }
        left = tuple(call.id for call in stay)
        report = UndoReport(done=tuple(done), left=left, stay=tuple(stay))
        if not dry_run:
            return report
        changes, diff = await self._net(gone, forward=False)
        return report.model_copy(update={"changes": changes, "diff": diff})

    async def changed(self, chosen: Chosen) -> ChangedReport:
        """Return what the chosen calls changed in all. Raises BadInput where nothing stands."""
        chosen, entries = await asyncio.to_thread(self._standing, chosen)
        changes, diff = await self._net(entries, forward=True)
        later = await self._changed_later(entries)
        if later:
            diff = await asyncio.to_thread(self._of_calls_alone, diff, entries, later)
        calls = tuple(entry.id for entry in entries)
        session = chosen.session or ""
        return ChangedReport(
            calls=calls, session=session, changes=changes, diff=diff, later=tuple(later)
        )

    async def _changed_later(self, entries: Sequence[CallEntry]) -> list[str]:
        """Return the paths that somebody else changed after the calls, which are newest first."""
        later: dict[str, None] = {}
        own: set[str] = set()
        for entry in entries:
            cell, workspaces = await self._keepers.of(entry)
            look = await cell.ask({"call": entry.last, "shown": False}, op="outlook")
            later |= dict.fromkeys(path for path in look["refused"] if path not in own)
            shown = await self._keepers.shown(look, workspaces)
            own |= {path for view in shown.views for path in (view.path, view.source) if path}
        return sorted(later)

    def _of_calls_alone(self, diff: str, entries: Sequence[CallEntry], later: Sequence[str]) -> str:
        """Put, for files that were changed later, what calls noted of their changes in the place of
        how the file differs now."""
        heads = {f"diff --git a/{path} b/{path}" for path in later}
        store = self._keepers.record.store
        noted: dict[str, str] = {}
        for entry in reversed(entries):
            for part in _parts(store.diff(entry.id)):
                if (head := part.partition("\n")[0]) in heads:
                    noted[head] = noted.get(head, "") + part
        done: list[str] = []
        for part in _parts(diff):
            done.append(noted.get(part.partition("\n")[0], part))
        return "".join(done)

    def _standing(self, chosen: Chosen) -> tuple[Chosen, list[CallEntry]]:
        """Return what is meant, with the whole id of a session, and what of it stands."""
        store = self._keepers.record.store
        if chosen.session is not None:
            session = store.session(chosen.session, chosen.workspace)
            chosen = replace(chosen, session=session)
        whole = chosen.session
        entries = store.landed(ALL) if whole is None else store.landed_of(whole)
        parts = {one.of for one in entries if one.of and not one.session}
        wholes = {call: store.call(call) for call in parts}
        found = [_with_session(entry, wholes) for entry in entries]
        fitting = [one for one in found if chosen.fits(one)]
        if not fitting:
            which = f" of session `{chosen.session}`" if chosen.session else " of that"
            raise BadInput(f"nothing{which} stands that could be undone")
        return chosen, fitting

    async def _net(
        self, entries: Sequence[CallEntry], *, forward: bool
    ) -> tuple[tuple[ChangeView, ...], str]:
        """Return what undoing these, newest first, would change in all, and its diff."""
        places: dict[str, list[CallEntry]] = {}
        for entry in entries:
            for place in entry.workspaces:
                places.setdefault(place, []).append(entry)
        views: list[ChangeView] = []
        texts: list[str] = []
        for place, own in places.items():
            here = own[0].model_copy(update={"workspace": place, "also": []})
            cell, workspaces = await self._keepers.of(here)
            request = {"calls": [one.last for one in own], "forward": forward}
            answer = await cell.ask(request, op="net")
            paths = self._keepers.paths(workspaces)
            shown = await asyncio.to_thread(shown_of, answer["changes"], workspaces, paths)
            prefix = "" if len(places) == 1 else place + "/"
            views += [view.model_copy(update={"path": prefix + view.path}) for view in shown.views]
            texts.append(await asyncio.to_thread(masked_diff, answer["diff"]))
        return tuple(views), "".join(texts)


def _parts(diff: str) -> list[str]:
    """Return the parts of a diff, one for each file."""
    return [part for part in _HEAD.split(diff) if part]


def _with_session(entry: CallEntry, wholes: Mapping[str, CallEntry]) -> CallEntry:
    """Return an entry with a session: of a part that landed by itself, that of the whole call."""
    whole = wholes.get(entry.of or "")
    return entry if whole is None else entry.model_copy(update={"session": whole.session})
