# SPDX-License-Identifier: Apache-2.0
"""The guard on the host: notices changes of protected files that no landing made.

    Guard(dirs: Dirs, *, workspaces: Sequence[str] | None = None, settings: GuardSettings = ...,
          paths: Callable[[str], PathPolicy] = ..., say=..., tell=...)
        .look() -> list[Tampering]            one look at everything, against what was known
        .run(stopping: threading.Event)       watch until it is set; fit for a thread of its own

Watching makes it quick; looking again, at once when events may have been lost and periodically in
any case, makes it sure. What it finds is on disk in the record before anybody is told.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from policy.model import Workspace
from policy.protected.paths import PathPolicy
from sandbox.audit.store import Store
from sandbox.config.guard import GuardSettings
from sandbox.errors import SandboxError
from sandbox.guard.handover import Handover
from sandbox.guard.landings import Landings
from sandbox.guard.notify import Notifier
from sandbox.guard.snapshots import Occupied, Place
from sandbox.guard.ward import Tampering, Ward
from sandbox.guard.watch import Watcher
from sandbox.host.dirs import Dirs
from sandbox.workspaces.cached import KnownWorkspaces
from sandbox.workspaces.protected_paths import Protected, own_records

__all__ = ["Guard", "GuardSettings", "Tampering"]

TICK_SECONDS = 0.25
"""How often it is checked whether the watching is alive and whether something waits."""
GATHER_SECONDS = 0.03
"""How long further events are waited for after the first."""
FOLDERS_SECONDS = 2.0
"""How often it is checked that each watched folder is still the one at its path."""
POLL_SECONDS = 5.0
"""How often everything is looked at while the watching does not work."""
HANDOVER_SECONDS = 5.0
"""How long a guard that a person starts waits for the supervisor's to make room."""
WALK_SHARE = 20
"""A walk of a workspace takes at most one part in this many of the time."""


def _nothing(_: object) -> None:
    return None


class Guard:
    """Guards the protected files of workspaces. One thread uses it."""

    def __init__(
        self,
        dirs: Dirs,
        *,
        workspaces: Sequence[str] | None = None,
        settings: GuardSettings | None = None,
        paths: Callable[[str], PathPolicy] = lambda _: PathPolicy.default(),
        say: Callable[[str], None] = _nothing,
        tell: Callable[[Tampering], None] = _nothing,
        yields: bool = False,
    ) -> None:
        """Guard `workspaces` (absolute paths), or the registered ones as the list changes.

        `paths` gives what a workspace's own policy protects; it may raise SandboxError.
        `say` gets one line about the guard itself, `tell` each change that no landing made.
        One that `yields` (the supervisor's) makes room while a person's own is there.
        """
        self._dirs = dirs
        self._handover = Handover(dirs, yields=yields)
        self._settings = settings or GuardSettings()
        fixed = None if workspaces is None else [Workspace(path) for path in workspaces]
        self._list = KnownWorkspaces(dirs, fixed)
        self._paths = paths
        self._protected: dict[str, Protected] = {}
        """By workspace: what one workspace protects is no business of another's."""
        self._store = Store(dirs)
        self._landings = Landings(self._store.log, self._matters)
        self._say = say
        self._tell = tell
        self._notifier = Notifier(self._settings.command, say)
        self._watcher = Watcher(self._hear, dirs.state / "guard" / "watch")
        self._wards: dict[str, Ward] = {}
        self._failed: dict[str, str] = {}
        self._occupied: set[str] = set()
        """Workspaces that another guard has."""
        self._patient = False
        """Whether it is waited for another guard to make room, of which nothing is said yet."""
        self._walks: dict[str, float] = {}
        self._wake = threading.Event()
        self._heard: set[str] = set()
        self._hearing = threading.Lock()
        self.ready = threading.Event()
        """Set while everything is watched, or looked at again and again where that fails."""

    @property
    def guarded(self) -> int:
        """How many protected paths are guarded now."""
        return sum(ward.guarded for ward in self._wards.values())

    @property
    def away(self) -> bool:
        """Whether it makes room for the guard that a person started."""
        return self._handover.wanted

    @property
    def failed(self) -> tuple[str, ...]:
        """Why workspaces are not guarded, one line each."""
        return tuple(self._failed.values())

    def look(self) -> list[Tampering]:
        """Look once at every protected path, against what was known when a guard last looked.

        Waits, for a bounded time, for landings that are on their way into the record.
        """
        try:
            pause = threading.Event()
            told = self._take_over(pause)
            while any(ward.waiting for ward in self._wards.values()):
                pause.wait(TICK_SECONDS)
                told += self._look([root for root, ward in self._wards.items() if ward.waiting])
            return told
        finally:
            self._end()

    def run(self, stopping: threading.Event) -> None:
        """Guard until `stopping` is set."""
        watcher = self._watcher
        try:
            self._dirs.create()
            watcher.start()
            self._take_over(stopping)
            self._watch(watcher)
            self._loop(watcher, stopping)
        finally:
            self.ready.clear()
            watcher.close()
            self._end()

    def _take_over(self, stopping: threading.Event) -> list[Tampering]:
        """Begin with every workspace; wait, for a bounded time, until the supervisor's guard left.

        Only what another guard keeps beyond that time is said.
        """
        self._handover.take()
        self._patient = True
        told = self._follow_list()
        until = time.monotonic() + HANDOVER_SECONDS
        while self._occupied and time.monotonic() < until and not stopping.wait(TICK_SECONDS):
            for root in self._occupied:
                self._walks.pop(root, None)
            told += self._follow_list()
        self._patient = False
        for root in sorted(self._occupied & self._failed.keys()):
            self._say(self._failed[root])
        return told

    def _loop(self, watcher: Watcher, stopping: threading.Event) -> None:
        next_full = time.monotonic() + self._settings.every_seconds
        trouble, watched = "", 0.0
        while not stopping.is_set():
            self.ready.set()
            if self._wake.wait(TICK_SECONDS):
                stopping.wait(GATHER_SECONDS)
            self._wake.clear()
            said = watcher.trouble() or ""
            if said and said != trouble:
                self._say(f"{said}; every protected file is looked at now and again")
            if trouble and not said:
                self._say("the watching works again")
            if said and not trouble:
                next_full = 0.0  # at once: events may have been lost
            trouble = said
            began = time.monotonic()
            self._follow_list()
            if began >= next_full:
                if not watcher.usable:
                    watcher.start()
                due = list(self._wards)
                self._look(due, full=True)
                period = self._settings.every_seconds
                next_full = began + (min(period, POLL_SECONDS) if trouble else period)
            else:
                due = self._due()
                self._look(due)
            if due or trouble or began - watched > FOLDERS_SECONDS:
                self._watch(watcher)
                watched = began
            stopping.wait(min(2 * (time.monotonic() - began), 1.0))  # however many events there are

    def _due(self) -> list[str]:
        with self._hearing:
            heard, self._heard = self._heard, set()
        return [root for root, ward in self._wards.items() if root in heard or ward.waiting]

    def _watch(self, watcher: Watcher) -> None:
        """Watch the folders that matter now; look again at what became so only now."""
        folders = {
            f"{root}/{folder}" if folder else root
            for root, ward in self._wards.items()
            for folder in ward.scanner.folders
        }
        if watcher.watch(folders):
            with self._hearing:
                self._heard.update(self._wards)
            self._wake.set()

    def _hear(self, path: str) -> None:
        """Take an event on a thread of the observer."""
        for root in list(self._wards):
            if not path.startswith(root + "/"):
                continue
            place = path[len(root) + 1 :].rstrip("/")
            if own_records(place) or not (path.endswith("/") or self._matters(place, root)):
                return
            with self._hearing:
                self._heard.add(root)
            self._wake.set()

    def _matters(self, path: str, root: str | None = None) -> bool:
        """Whether a path is protected in a workspace, or in any."""
        known = dict(self._protected)
        found = known.values() if root is None else [known[root]] if root in known else ()
        return any(one.rule_of(path) is not None or one.lies_above(path) for one in found)

    # Workspaces

    def _follow_list(self) -> list[Tampering]:
        """Begin with workspaces that are new on the list, leave those that are gone from it."""
        try:
            wanted = (
                set()
                if self._handover.wanted
                else {workspace.path for workspace in self._list.all()}
            )
        except SandboxError as error:
            self._fail("", str(error))
            return []
        self._failed.pop("", None)
        for root in self._wards.keys() - wanted:
            self._wards.pop(root).place.close()
            self._protected.pop(root, None)
        for root in self._failed.keys() - wanted:
            del self._failed[root]
        told: list[Tampering] = []
        now = time.monotonic()
        for root in sorted(wanted - self._wards.keys()):
            if root in self._failed and now < self._walks.get(root, 0.0):
                continue
            told += self._begin(root)
            if root in self._failed:  # when to try again
                later = TICK_SECONDS if root in self._occupied else self._settings.every_seconds
                self._walks[root] = now + later
        return told

    def _begin(self, root: str) -> list[Tampering]:
        place: Place | None = None
        try:
            self._list.check(root)
            protected = Protected(self._paths(root), self._settings.ignore)
            if root not in self._protected:
                self._protected[root] = protected
                self._landings.read_again()  # what matters here may not have mattered elsewhere
            place = Place(self._dirs, root)
            ward = Ward(
                place,
                protected,
                self._landings,
                say=self._say,
                record=self._record,
                restoring=self._settings.restore,
            )
            began = time.monotonic()
            told = ward.begin()
        except Occupied as error:
            self._occupied.add(root)
            self._fail(root, str(error))
            return []
        except (SandboxError, OSError) as error:
            if place is not None:
                place.close()
            self._fail(root, _reason(root, error))
            return []
        self._occupied.discard(root)
        self._failed.pop(root, None)
        self._wards[root] = ward
        self._plan_walk(root, time.monotonic() - began)
        return told

    def _look(self, roots: Sequence[str], *, full: bool = False) -> list[Tampering]:
        told: list[Tampering] = []
        for root in roots:
            began = time.monotonic()
            walk = full and 0 < self._walks.get(root, 0.0) <= began
            try:
                told += self._wards[root].look(full=full, walk=walk)
                self._failed.pop(root, None)
            except (SandboxError, OSError) as error:
                self._fail(root, _reason(root, error))
            if walk:
                self._plan_walk(root, time.monotonic() - began)
        return told

    def _plan_walk(self, root: str, took: float) -> None:
        seconds = self._settings.walk_seconds
        later = time.monotonic() + max(seconds, took * WALK_SHARE)
        self._walks[root] = later if seconds else 0.0

    def _record(self, one: Tampering) -> None:
        self._store.append(one.record(), durable=True)
        self._tell(one)
        self._notifier.tell(one.record().as_json())

    def _fail(self, root: str, reason: str) -> None:
        if self._failed.get(root) != reason:
            self._failed[root] = reason
            if not (self._patient and root in self._occupied):
                self._say(reason)

    def _end(self) -> None:
        for ward in self._wards.values():
            ward.place.close()
        self._wards.clear()
        self._handover.close()
        self._notifier.finish()


def _reason(root: str, error: Exception) -> str:
    if isinstance(error, SandboxError):
        return str(error)
    reason = error.strerror if isinstance(error, OSError) else None
    return f"workspace `{root}` cannot be guarded: {(reason or str(error)).lower()}"
