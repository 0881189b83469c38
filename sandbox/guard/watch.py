# SPDX-License-Identifier: Apache-2.0
"""Watch few folders for changes, and know when the watching itself cannot be trusted.

Watches are never recursive and always have an event filter: without one, watchdog 7.1 hears its own
looking and drowns in it. Three things show that events were lost: the observer or its reader is
dead, watchdog warns of an overflow, or a touch of our own file was not heard.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from watchdog.events import (
    DirAttribEvent,
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileAttribEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, ObservedWatch
from watchdog.utils import BaseThread

FILTER: list[type[FileSystemEvent]] = [
    *(DirAttribEvent, DirCreatedEvent, DirDeletedEvent, DirMovedEvent),
    *(FileAttribEvent, FileClosedEvent, FileCreatedEvent, FileDeletedEvent),
    *(FileModifiedEvent, FileMovedEvent),
]
MOST_WATCHES = 1_000
"""Folders that are watched; each costs a watch and a thread."""
DEAF_SECONDS = 5.0
"""How long the touch of our own file may take to be heard."""
PULSE_SECONDS = 10.0
_PULSE = "pulse"

Heard = Callable[[str], None]
"""Takes the absolute path of something that changed; that of a folder ends in `/`.

Called on other threads; must be quick."""


class _Ears(FileSystemEventHandler):
    def __init__(self, heard: Heard) -> None:
        self._heard = heard

    def on_any_event(self, event: FileSystemEvent) -> None:
        for path in (event.src_path, event.dest_path):
            if path:
                self._heard(os.fsdecode(path) + ("/" if event.is_directory else ""))


class _Warnings(logging.Handler):
    """Takes watchdog's own warnings, which it gives to nobody else."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = ""

    def emit(self, record: logging.LogRecord) -> None:
        # errors that are no warnings are those of an emitter that is being ended
        if record.levelno == logging.WARNING or record.exc_info:
            self.last = record.getMessage()


class Watcher:
    """One observer and the folders that it watches. Used by one thread."""

    def __init__(self, heard: Heard, pulse_folder: Path) -> None:
        self._heard = heard
        self._ears = _Ears(self._take)
        self._pulse = pulse_folder / _PULSE
        self._pulsed = self._answered = 0.0
        self._pulse_path = str(self._pulse)
        self._warnings = _Warnings()
        self._log = logging.getLogger("watchdog.observers")
        self._log.addHandler(logging.NullHandler())  # or what nobody takes goes to stderr
        self._watches: dict[str, tuple[ObservedWatch, tuple[int, int]]] = {}
        self._observer: BaseObserver | None = None
        self._failed = ""

    @property
    def count(self) -> int:
        """How many folders are watched now."""
        return len(self._watches)

    def start(self) -> None:
        """Begin, or begin anew. Raises nothing: `trouble` says what is wrong."""
        self.close()
        self._failed = self._warnings.last = ""
        self._pulsed = self._answered = time.monotonic()
        self._log.addHandler(self._warnings)
        try:
            for folder in (self._pulse.parent.parent, self._pulse.parent):
                folder.mkdir(mode=0o700, exist_ok=True)
            self._pulse.touch(mode=0o600)
            observer = Observer()
            observer.start()
            self._observer = observer
            self._add(str(self._pulse.parent))
        except (OSError, RuntimeError) as error:
            self._failed = f"the watching cannot start: {error}"

    def watch(self, folders: Iterable[str]) -> bool:
        """Watch exactly these folders (absolute paths) from now on.

        Returns whether some are watched now that were not, so that they are to be looked at again.
        """
        wanted = set(folders) | {str(self._pulse.parent)}
        if self._observer is None or self._dead():
            return False  # `trouble` says so, and `start` makes another
        alive = {emitter.watch for emitter in self._observer.emitters if emitter.is_alive()}
        for path in list(self._watches):
            watch, identity = self._watches[path]
            if path not in wanted or _identity(path) != identity or watch not in alive:
                self._drop(path)
        self._failed = ""
        before = len(self._watches)
        for path in sorted(wanted - self._watches.keys(), key=lambda path: path.count("/")):
            if len(self._watches) >= MOST_WATCHES:
                self._failed = f"more than {MOST_WATCHES} folders would have to be watched"
                break
            self._add(path)
        return len(self._watches) > before

    def trouble(self) -> str | None:
        """Return why events may have been lost, or None; a warning is returned once."""
        if self._observer is not None and self._dead():
            return "the observer is dead"
        if self._observer is None or self._failed:
            return self._failed or "nothing is watched"
        if warning := self._warnings.last:
            self._warnings.last = ""
            return f"events were lost: {warning}"
        now = time.monotonic()
        if self._deaf(now):
            return f"the observer has heard nothing for {DEAF_SECONDS:.0f} s"
        if self._answered >= self._pulsed and now - self._pulsed >= PULSE_SECONDS:
            self._pulsed = now
            with contextlib.suppress(OSError):
                os.utime(self._pulse)
        return None

    @property
    def usable(self) -> bool:
        """Whether the observer still works, so that `start` need not be called."""
        return self._observer is not None and not self._dead() and not self._deaf(time.monotonic())

    def _dead(self) -> bool:
        """Whether the observer or its reader has ended, or is about to.

        One that was told to end has closed its descriptors already, while its thread still runs:
        whatever is asked of it then fails with an error that says nothing.
        """
        threads = (self._observer, getattr(self._observer, "_inotify_fd", None))
        return any(
            not thread.is_alive() or not thread.should_keep_running()
            for thread in threads
            if isinstance(thread, BaseThread)
        )

    def _deaf(self, now: float) -> bool:
        return self._answered < self._pulsed and now - self._pulsed > DEAF_SECONDS

    def close(self) -> None:
        """End the watching."""
        self._log.removeHandler(self._warnings)
        self._watches.clear()
        if self._observer is not None:
            with contextlib.suppress(RuntimeError, OSError):
                self._observer.stop()
                self._observer.join(DEAF_SECONDS)
            self._observer = None

    def _take(self, path: str) -> None:
        if path == self._pulse_path:
            self._answered = time.monotonic()
        else:
            self._heard(path)

    def _add(self, path: str) -> None:
        assert self._observer is not None
        identity = _identity(path)
        if identity is None:
            return
        if not os.access(path, os.R_OK):
            self._failed = f"`{path}` may not be read, so it cannot be watched"
            return
        try:
            watch = self._observer.schedule(self._ears, path, event_filter=FILTER)
        except FileNotFoundError:
            return
        except (OSError, RuntimeError) as error:
            if not self._dead():
                self._failed = f"`{path}` cannot be watched: {error}"
            return
        self._watches[path] = (watch, identity)

    def _drop(self, path: str) -> None:
        assert self._observer is not None
        watch, _ = self._watches.pop(path)
        with contextlib.suppress(KeyError, OSError, RuntimeError):
            self._observer.unschedule(watch)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
