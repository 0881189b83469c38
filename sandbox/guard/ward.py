# SPDX-License-Identifier: Apache-2.0
"""One guarded workspace: what changed since the last look, what explains it, what is done about it.

A change is explained by the newest landing or undo of that path in the record, if what stands there
is what landed (`explain`). One that none explains yet waits as long as a landing may still be on
its way into the record.

INVARIANT (P3, guard): what is put back is what was last known; what it replaces is kept.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from sandbox.audit.events.protected import TamperedRecord
from sandbox.guard.explain import awaited, explains
from sandbox.guard.fingerprint import DIRECTORY, FILE, Entry, difference
from sandbox.guard.landings import Landed, Landings
from sandbox.guard.restore import NotRestored, restore
from sandbox.guard.scan import Scanner
from sandbox.guard.snapshots import Full, Place
from sandbox.workspaces.protected_paths import GIT_SETTINGS, Protected, printable

MOST_RESTORES = 5
"""How often one path is put back within `FIGHT_SECONDS`; then somebody keeps changing it."""
FIGHT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Tampering:
    """A change of a protected path that no landing made."""

    workspace: str
    path: str
    """Relative to the workspace; bytes that are not UTF-8 are escaped."""
    kind: str
    """created, modified, deleted, replaced, mode or linked."""
    rule: str
    before: str | None
    after: str | None
    restored: bool
    kept: str | None = None
    """Where what was found is kept."""
    note: str = ""
    """Why it was not restored, though it should have been."""

    def record(self) -> TamperedRecord:
        """Return its record for the audit log."""
        return TamperedRecord(
            workspace=self.workspace,
            path=self.path,
            kind=self.kind,
            rule=self.rule,
            before=self.before,
            after=self.after,
            restored=self.restored,
            kept=self.kept,
            note=self.note or None,
        )


class Ward:
    """The protected paths of one workspace as they were known, and as they are."""

    def __init__(
        self,
        place: Place,
        protected: Protected,
        landings: Landings,
        *,
        say: Callable[[str], None],
        record: Callable[[Tampering], None],
        restoring: bool,
    ) -> None:
        """`record` is called, and must be done, before anything is put down as known."""
        self.root = place.workspace
        self.place = place
        self.scanner = Scanner(self.root, protected, say)
        self._protected = protected
        self._landings = landings
        self._record = record
        self._restoring = restoring
        self._known: dict[str, Entry] = {}
        self._at = 0.0
        self._waiting: dict[str, float] = {}
        self._restores: dict[str, deque[float]] = {}

    @property
    def guarded(self) -> int:
        """How many protected paths there are."""
        return sum(entry.type != DIRECTORY for entry in self._known.values())

    @property
    def waiting(self) -> bool:
        """Whether a change waits for its record, so that a look is due soon."""
        return bool(self._waiting)

    def begin(self) -> list[Tampering]:
        """Compare with what was known when a guard last ran; at the first start, only look.

        Raises Unavailable for a damaged snapshot, OSError when the workspace cannot be opened.
        """
        before = self.place.load()
        self.scanner.survey(before[0] if before else ())
        if before is not None:
            self._known, self._at, rules = before
            if rules != self._protected.digest:
                self._accept_new()
            return self.look(full=True)
        self._known = self.scanner.look({}, keep=self.place.keep, full=True)
        self._at = self.place.save(self._known, self._protected.digest)
        return []

    def _accept_new(self) -> None:
        """Take for known what other rules than these did not protect: it may be old.

        A path that these rules alone protect has not appeared, and is not to be taken away.
        """
        entries = self.scanner.look(self._known, keep=self.place.keep, full=True)
        for path, entry in entries.items():
            self._known.setdefault(path, entry)

    def look(self, *, full: bool = False, walk: bool = False) -> list[Tampering]:
        """Look at every protected path; return what no landing explains, recorded already.

        Raises OSError when the workspace cannot be opened, Unavailable when the record cannot be
        written.
        """
        if walk:
            self.scanner.survey(self._known)
        entries = self.scanner.look(self._known, keep=self.place.keep, full=full)
        told: list[Tampering] = []
        dirty = False
        for path in sorted(self._known.keys() | entries.keys()):
            before, after = self._known.get(path), entries.get(path)
            if before == after:
                self._waiting.pop(path, None)
                continue
            kind = difference(before, after)
            if kind is not None and not (
                self._harmless(path, kind, before, after) or self._explained(path, before, after)
            ):
                if self._awaited(path, after):
                    continue
                told.append(self._tell(path, kind, before, after))
                if told[-1].restored:
                    # what it is put back to is no tampering; what it has become since is
                    again = self.scanner.single(path, keep=self.place.keep)
                    after = again if difference(before, again) is None else before
            dirty = True
            self._waiting.pop(path, None)
            if after is None:
                self._known.pop(path, None)
            else:
                self._known[path] = after
        if dirty:
            self._at = self.place.save(self._known, self._protected.digest)
        return told

    # What explains a change

    def _harmless(self, path: str, kind: str, before: Entry | None, after: Entry | None) -> bool:
        rule = self._protected.rule_of(path)
        if rule is None:  # a folder above protected paths, or a link in place of one
            return kind == "mode"
        if not self._protected.by_content(path):
            return False
        if after is None or after.type != FILE:
            return rule == GIT_SETTINGS and after is None
        if kind in ("mode", "linked"):
            return False
        texts = [self._text(entry) for entry in (before, after)]
        return None not in texts and not self._protected.obeys(path, *texts)

    def _text(self, entry: Entry | None) -> str | None:
        if entry is None or entry.type != FILE:
            return ""
        data = self.place.content(entry.sha256) if entry.sha256 is not None else None
        return None if data is None else data.decode("utf-8", "replace")

    def _explained(self, path: str, before: Entry | None, after: Entry | None) -> bool:
        self._landings.refresh()
        landed = [
            one
            for one in self._landings.of(self.root, printable(path))
            if isinstance(one, Landed) and one.end >= self._at - 1
        ]
        return bool(landed) and explains(landed[-1], before, after, self._known)

    def _awaited(self, path: str, after: Entry | None) -> bool:
        now = time.monotonic()
        return awaited(self.root, after, now - self._waiting.setdefault(path, now))

    # What is done about one that nothing explains

    def _tell(self, path: str, kind: str, before: Entry | None, after: Entry | None) -> Tampering:
        kept, restored, note = None, False, ""
        try:
            for entry in (before, after):
                if entry is not None and entry.kept and entry.sha256 is not None:
                    kept = str(self.place.keep_tampered(entry.sha256))
            kept = kept if after is not None and after.kept else None
        except (OSError, Full) as error:
            kept, note = None, f"what was found could not be kept: {error}"
        if self._restoring and not note:
            try:
                self._restore(path, before)
                restored = True
            except NotRestored as error:
                note = str(error)
        tampering = Tampering(
            workspace=self.root,
            path=printable(path),
            kind=kind,
            rule=self._protected.rule_of(path) or "folder",
            before=before.sha256 if before is not None else None,
            after=after.sha256 if after is not None else None,
            restored=restored,
            kept=kept,
            note=note if self._restoring else "",
        )
        self._record(tampering)
        return tampering

    def _restore(self, path: str, before: Entry | None) -> None:
        times = self._restores.setdefault(path, deque(maxlen=MOST_RESTORES))
        now = time.monotonic()
        if len(times) == MOST_RESTORES and now - times[0] < FIGHT_SECONDS:
            raise NotRestored(
                f"it was put back {MOST_RESTORES} times within {FIGHT_SECONDS:.0f} s and changed "
                "again; end what changes it"
            )
        times.append(now)
        restore(self.root, path, before, self.place)
