# SPDX-License-Identifier: Apache-2.0
"""The record: an append-only, hash-chained audit log, and a folder of output per call.

Appending is the matter of `audit/log.py`, the chain that of `audit/chain.py`, and what the records
say of calls that of `history.py`.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox.audit import chain, history
from sandbox.audit.call_entry import CallEntry
from sandbox.audit.events.calls import DecidedRecord
from sandbox.audit.events.follow_ups import UndoneRecord
from sandbox.audit.events.protected import TamperedRecord
from sandbox.audit.events.reading import read, unknown_part
from sandbox.audit.events.record import AuditRecord
from sandbox.audit.log import MIB, AuditLog, LogBounds
from sandbox.audit.made_files import MadeFiles
from sandbox.audit.query import ALL, seconds_of
from sandbox.audit.retention import until
from sandbox.audit.segments import Segments
from sandbox.config.settings import Dirs, load_settings
from sandbox.errors import BadInput, Unavailable

if TYPE_CHECKING:
    from sandbox.audit.query import Query
    from sandbox.audit.reader import Audit


INDEXED = MIB
"""A longer log is asked through its index."""


class Store:
    """The audit log and the call folders of one state folder."""

    def __init__(self, dirs: Dirs, *, bounds: LogBounds | None = None) -> None:
        """`bounds` are those of the settings if none are given."""
        self.log = dirs.state / "audit.jsonl"
        self.head = dirs.state / "audit.head"
        self.segments = Segments(self.log)
        self._dirs = dirs
        self._bounds = bounds
        self._audit: AuditLog | None = None
        self.folders = dirs.state / "calls"
        self.written = 0
        """Bytes that this process wrote into folders of calls."""

    # -- writing

    @property
    def audit(self) -> AuditLog:
        """The log, to append to."""
        if self._audit is None:
            self._audit = AuditLog(self.log, self.head, self._bounds or _bounds(self._dirs))
        return self._audit

    def append(self, record: AuditRecord, *, durable: bool) -> None:
        """Append one record; with `durable`, return when it is on disk. Raises Unavailable."""
        self.audit.append(record, durable=durable)

    def sync(self) -> None:
        """Return when all that was appended here is on disk. Raises Unavailable."""
        self.audit.sync()

    def keep_output(self, call: str, name: str, data: bytes) -> Path:
        """Write a file of a call's folder and return its path."""
        folder = self.folders / call
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / name
        with path.open("ab") as file:
            file.write(data)
        self.written += len(data)
        return path

    def keep_rest(self, call: str, data: bytes) -> None:
        """Keep the diff of what of a call is still held, in place of an earlier one."""
        folder = self.folders / call
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = folder / ".rest.patch"
        beside.write_bytes(data)
        beside.replace(folder / "rest.patch")

    # -- reading

    def records(self) -> Iterator[AuditRecord]:
        """Yield the records, newest first. A line that is damaged ends the reading."""
        for text in self.segments.backwards():
            try:
                record = read(text)
            except ValueError:
                return
            yield record

    def made(self) -> Iterator[Mapping[str, Any]]:
        """Give what calls noted of the files that their agents made, the newest first."""
        return MadeFiles(self.segments).read()

    def calls(self, *, limit: int = 50) -> list[CallEntry]:
        """Return the newest calls and undos, newest first, each with all that is known of it."""
        return history.calls(self.records(), limit=limit)

    def newest(self, workspace: str | None = None) -> Iterator[CallEntry]:
        """Yield the calls and undos (in a workspace), newest first, each when it is wanted."""
        if index := self._index():
            yield from index.newest(workspace)
            return
        calls = self.calls(limit=ALL)
        yield from (call for call in calls if workspace in (None, *call.workspaces))

    def call(self, call: str) -> CallEntry:
        """Return one call by its id, a unique beginning of it, or `last`. Raises BadInput."""
        wanted = history.newest(self.records()) if call == "last" else call
        if wanted and (index := self._index()):
            return index.call(wanted)
        return history.call(self.records(), call, wanted)

    def some(self, calls: Collection[str]) -> dict[str, CallEntry]:
        """Return calls by their ids, those of which something is recorded."""
        if not (index := self._index()):
            return (
                {entry.id: entry for entry in self.calls(limit=ALL) if entry.id in calls}
                if calls
                else {}
            )
        found = {}
        for name in calls:
            with contextlib.suppress(BadInput):
                found[name] = index.call(name)
        return found

    def search(self, query: Query, *, held: bool = False) -> list[CallEntry]:
        """Return the calls and undos that are looked for, or of them what waits, newest first."""
        if index := self._index():
            entries = index.held() if held else index.calls(query, own=True)
        else:
            entries = self.held() if held else self.calls(limit=ALL)
        wanted = (
            entry
            for entry in entries
            if (query.verdicts is None or entry.verdict in query.verdicts)
            and query.agent in (None, entry.agent)
            and query.tool in (None, entry.tool)
            and query.session in (None, entry.session)
            and (query.since is None or seconds_of(entry.ts or "") >= query.since)
            and (query.until is None or seconds_of(entry.ts or "") < query.until)
        )
        return list(islice(wanted, query.limit))

    def landed(self, count: int, workspace: str | None = None) -> list[CallEntry]:
        """Return the newest calls (in a workspace), at most `count`, whose changes stand, newest
        first."""
        if count < ALL and (index := self._index()):
            return index.landed(count, workspace)
        return history.landed(self.records(), count, workspace)

    def undone_last(self, workspace: str | None = None) -> CallEntry | None:
        """Return the call that was undone last (in a workspace), where nothing has landed since and
        its changes do not stand again."""
        for record in self.records():
            undo = isinstance(record, UndoneRecord)
            if not undo and not history.says_landed(record):
                continue
            try:
                call = self.call(record.call or "")
                while call.undone:  # an undo of an undo is about the first call
                    call = self.call(call.of or call.undone)
            except BadInput:  # what was decided of it went away with an old file of the log
                continue
            if workspace in (None, *call.workspaces):
                return call if undo and call.undone_by else None
        return None

    def last_landed(self) -> CallEntry:
        """Return the newest call whose changes stand. Raises BadInput."""
        if found := self.landed(1):
            return found[0]
        raise BadInput("no call has landed anything that could be undone")

    def session(self, asked: str, workspace: str | None = None) -> str:
        """Return a session by its id or a unique beginning of it; `last` is that of the newest call
        (in a workspace) that belongs to one. Raises BadInput."""
        if index := self._index():
            found = set(index.session(asked, workspace))
        else:
            found = set(self._sessions_meant(asked, workspace))
        if len(found) == 1:
            return found.pop()
        if found:
            raise BadInput(f"`{asked}` begins {len(found)} sessions; give more of it")
        what = "no session" if asked == "last" else f"no session `{asked}`"
        raise BadInput(f"{what} is recorded; `lockgate log --json` shows those of calls")

    def _sessions_meant(self, asked: str, workspace: str | None) -> Iterator[str]:
        """Yield the sessions that a word means, the very one alone where it is there."""
        found: set[str] = set()
        for record in self.records():
            if not isinstance(record, DecidedRecord) or not record.session:
                continue
            last = asked == "last" and workspace in (None, record.workspace, *(record.also or ()))
            if last or record.session == asked:
                yield record.session
                return
            if asked and record.session.startswith(asked):
                found.add(record.session)
        yield from found

    def landed_of(self, session: str) -> list[CallEntry]:
        """Return what stands of calls of a session, newest first, and maybe of others."""
        if index := self._index():
            return index.landed_of(session)
        return self.landed(ALL)

    def sessions_of(self, calls: Collection[str]) -> dict[str, str]:
        """Return the sessions of calls, of those that belong to one."""
        wanted, found = set(calls), {}
        for record in self.records() if wanted else ():
            if isinstance(record, DecidedRecord) and record.call in wanted:
                wanted.discard(record.call)
                if record.session:
                    found[record.call] = record.session
            if not wanted:
                break
        return found

    def tampered(self, since: str = "") -> list[TamperedRecord]:
        """Return what was changed around Lockgate since a time as records have it (all: empty),
        newest first."""
        start, found = seconds_of(since), []
        for record in self.records():
            if since and record.ts and seconds_of(record.ts) < start:
                break
            if isinstance(record, TamperedRecord):
                found.append(record)
        return found

    def held(self) -> list[CallEntry]:
        """Return the calls that wait for a person, newest first."""
        if index := self._index():
            return index.held()
        return history.held(self.records())

    def index_ahead(self) -> None:
        """Bring the index of a long log up to date, so that nobody waits for it later."""
        self._index()

    def _index(self) -> Audit | None:
        """Return the index of a log that is too long to be read each time."""
        if self.segments.size() < INDEXED:
            return None
        from sandbox.audit.reader import Audit

        index = Audit(self._dirs)
        try:
            index.refresh()
        except Unavailable:
            return None
        return index

    def output(self, call: str) -> tuple[bytes, bytes]:
        """Return all that a call wrote: (standard output, standard error)."""
        return self._file(call, "stdout"), self._file(call, "stderr")

    def diff(self, call: str) -> str:
        """Return the diff of a call's changes, of a held one that of the rest; empty for none."""
        rest = self.folders / call / "rest.patch"
        name = "rest.patch" if rest.exists() else "diff.patch"
        return self._file(call, name).decode("utf-8", "replace")

    def dropped(self, call: str, when: float) -> bool:
        """Whether what a call wrote at `when` (seconds since 1970) went to make room."""
        return not (self.folders / call).exists() and when <= until(self.folders)

    def unknown(self) -> dict[str, int]:
        """Return what lines hold that this version does not know -> how many lines."""
        parts = (unknown_part(record) for record in self.records())
        return dict(sorted(Counter(part for part in parts if part).items()))

    def _file(self, call: str, name: str) -> bytes:
        try:
            return (self.folders / call / name).read_bytes()
        except OSError:
            return b""

    def verify(self, head: Path | None = None) -> str | None:
        """Return what is wrong with the log, naming the first broken line, or None.

        `head` is a copy of the head that was kept elsewhere, now or long ago. Raises BadInput for a
        file that is none.
        """
        kept = self.audit.kept()
        if head is not None:
            try:
                kept = chain.read_head(head.read_text("ascii"))
            except (OSError, ValueError):
                raise BadInput(f"`{head}` is no head of a log") from None
        size = self.segments.size()
        if not size:
            gone = kept is not None and kept != chain.EMPTY
            return "the log is gone, but its head was kept" if gone else None
        if kept is None:
            return "the kept head of the log is gone"
        return self.segments.verify(kept)


def _bounds(dirs: Dirs) -> LogBounds:
    """Return the bounds that the settings set, or the usual ones where those cannot be read."""
    try:
        audit = load_settings(dirs).audit
    except BadInput:
        return LogBounds()
    return LogBounds(audit.rotate_mib * MIB, audit.keep)
