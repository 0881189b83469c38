# SPDX-License-Identifier: Apache-2.0
"""The observer beside the keeper: a process of its own that watches layers with watchdog.

A process, since its threads would disturb the keeper's single one, and since it may die alone. It
is told over a socket which layers to watch, and tells which protected path appeared in them. It is
evidence and speed, not the boundary: what lands is decided by the walk when the call has ended.

watchdog needs care: always an event filter (7.1 without one hears its own looking and drowns); its
reader can be killed by folders that are renamed, made anew and removed; where the kernel's queue
overflows, events are lost. So when the reader died, a new observer is made, and after that or an
overflow all names in the layers are looked at. It also goes through folders with `os.walk`, which
recurses in Python 3.9 to 3.11.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import logging
import os
import select
import socket
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from watchdog import events
from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import inotify
from watchdog.observers.api import BaseObserver, ObservedWatch
from watchdog.observers.inotify import InotifyEmitter
from watchdog.observers.inotify_c import InotifyConstants, InotifyFD, Mask, inotify_add_watch
from watchdog.observers.inotify_move_event_grouper import (
    InotifyMoveEventGrouper,
    PathedInotifyEvent,
)

from ..overlay.layer import MAX_DEPTH
from ..overlay.masks import Patterns
from ..run import call_host as host
from .layer import MOST_ENTRIES, Alarm, WatchedLayer
from .trail import CREATED, DELETED

FILTER: list[type[FileSystemEvent]] = [
    *(DirCreatedEvent, DirDeletedEvent, DirMovedEvent),
    *(FileCreatedEvent, FileDeletedEvent, FileMovedEvent),
]
PAIR_SECONDS = 0.02
"""How long watchdog waits for the second half of a move, and holds back all that came after the
first. The kernel gives both at once; a half may be missing where a folder is not watched yet."""
OVERLAYS_PAIR_SECONDS = 0.002
"""The same for what the overlay moves out of its own folder. Below a folder that is new in the
layer the other half is never heard, since nobody watches that one yet (it is looked at then), and
whoever waits for the observer at the end of a call waits for this."""
PAUSE_SECONDS = 0.05
LOOK_SHARE = 5
"""Looking at all names takes at most one part in this many of the time."""
STOP_SECONDS = 2.0
DEEPEST = MAX_DEPTH + 20
"""Names in the path of a folder that is watched. What a layer has deeper never lands; to follow it
takes time by the cube of the depth, in which nothing else would be heard."""
LIMITS = {errno.EMFILE: "max_user_instances", errno.ENOSPC: "max_user_watches"}
"""Limits of a user by what the kernel answers where they are reached."""
_USED_UP = (errno.ENOSPC, errno.ENOMEM)
"""What the kernel answers where a user watches as many folders as it may (`max_user_watches`)."""


class _Watched(FileSystemEventHandler):
    """One layer: takes its events on watchdog's thread, and looks on the main one."""

    def __init__(self, watcher: Watcher, layer: WatchedLayer) -> None:
        self.layer = layer
        self.watch: ObservedWatch | None = None
        self.lossy = False
        """Whether events of it were lost."""
        self.deaf = False
        """Whether folders of it cannot be watched, so that only looking finds what appears."""
        self._watcher = watcher
        self._alarmed = False
        self._lock = threading.Lock()

    def on_any_event(self, event: FileSystemEvent) -> None:
        source, target = os.fsdecode(event.src_path), os.fsdecode(event.dest_path)
        path = target or source
        number = self.layer.mark_of(path)
        if number is not None:
            self.settled(number)
            return
        kind = DELETED if event.event_type == "deleted" else CREATED
        with self._lock:
            alarm = self.layer.heard(
                source if target else "", path, kind, is_folder=event.is_directory
            )
        self._tell(alarm)

    def look(self) -> None:
        """Look at all names; say that everything until now has been seen."""
        with contextlib.suppress(OSError):
            number = self.layer.mark()
            with self._lock:
                alarm = self.layer.look()
            self._tell(alarm)
            self.settled(number)

    def look_below(self, path: str) -> None:
        """Look at the names in a folder whose events were not heard until now."""
        with self._lock:
            alarm = self.layer.look(path)
        self._tell(alarm)

    def cannot_watch(self, code: int) -> None:
        """Take note of a folder that cannot be watched; one that is gone needs no watching."""
        if code == errno.ENAMETOOLONG:
            self.lossy = True  # the walk refuses a layer of such a depth as a whole
        if code in _USED_UP and not self.deaf:
            self.deaf = True
            self._watcher.lose()

    def settled(self, number: int) -> None:
        """Say that all until the mark of this number was handled."""
        self._watcher.say(
            {"op": "settled", "layer": self.layer.folder, "mark": number, "lossy": self.lossy}
        )

    def _tell(self, alarm: Alarm | None) -> None:
        if alarm is None or self._alarmed:
            return
        self._alarmed = True
        events = [event.told() for event in alarm.events]
        self._watcher.say(
            {"op": "alarm", "layer": self.layer.folder, "path": alarm.path, "events": events}
        )


class _Emitter(InotifyEmitter):
    """Handles events on its own thread: watchdog would pass each on to one more."""

    def __init__(self, *args: Any, layers: Mapping[str, _Watched], **more: Any) -> None:
        super().__init__(*args, **more)
        self._layers = layers
        self._created: set[Any] = set()
        """What was heard to be created, since anything last moved or went away."""

    def queue_event(self, event: FileSystemEvent) -> None:
        watched = self._layers.get(str(self.watch.path))
        if watched is None or type(event) not in FILTER or self._again(event):
            return
        if _too_deep(event.dest_path or event.src_path):
            watched.cannot_watch(errno.ENAMETOOLONG)
            return
        watched.on_any_event(event)
        if event.is_directory and event.event_type != "deleted":
            path = os.fsencode(event.dest_path or event.src_path)
            if self._secure(path):
                watched.look_below(os.fsdecode(path))

    def _again(self, event: FileSystemEvent) -> bool:
        """Whether nothing but watchdog says an event once more.

        It tells all of a folder's names again for each folder above it that is new.
        """
        if event.event_type != "created" or len(self._created) > MOST_ENTRIES:
            self._created.clear()
            return False
        known = event.src_path in self._created
        self._created.add(event.src_path)
        return known

    def _secure(self, path: bytes) -> bool:
        """Watch a folder that watchdog believes it watches but does not; return whether it was so.

        watchdog looks a folder up by name when it hears of it: one that was moved on meanwhile is
        taken for what stands at its place now (often the whiteout that the move left).
        """
        group = self._inotify
        if group is None or _too_deep(path):
            return False
        mask = Mask(group.event_mask | InotifyConstants.IN_ONLYDIR)
        watch = inotify_add_watch(self._inotify_fd._inotify_fd, path, mask)
        if watch < 0:
            watched = self._layers.get(str(self.watch.path))
            if watched is not None:
                watched.cannot_watch(ctypes.get_errno())
            return False
        with group._lock:
            if group._active_callbacks_by_watch.get(watch) == path:
                return False
            known = watch in group._active_callbacks_by_watch
            if known:
                group._active_callbacks_by_watch[watch] = path
                group._active_callbacks_by_path[path] = watch
            else:
                group._add_all_callbacks(path)
        return not known


class _Reader(InotifyFD):
    """Says which folders cannot be watched: watchdog goes on without a word."""

    def __init__(self, layers: Mapping[str, _Watched]) -> None:
        super().__init__()
        self._layers = layers

    def add_callback(self, *arguments: Any) -> Any:
        try:
            if _too_deep(arguments[0]):
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
            return super().add_callback(*arguments)
        except OSError as error:
            path = os.fsdecode(arguments[0])
            for watched in list(self._layers.values()):
                if path.startswith(f"{watched.layer.folder}/"):
                    watched.cannot_watch(error.errno or 0)
            raise


_put_as_watchdog = InotifyMoveEventGrouper.put_event


def _put_event(grouper: InotifyMoveEventGrouper, event: PathedInotifyEvent) -> None:
    """Queue an event; half a move of the overlay's own holds those after it back for less long."""
    folder, _, name = event.path.rpartition(b"/")
    own = folder.endswith(b"/work/work") and name.startswith(b"#")
    if not (own and event.ev.is_moved_from):
        _put_as_watchdog(grouper, event)
        return
    queue = grouper._queue
    since = time.monotonic() - queue.delay + OVERLAYS_PAIR_SECONDS
    with queue._not_empty:
        queue._queue.append((event, since, True))
        queue._not_empty.notify()


class _Os:
    """The module `os` for watchdog, with a `walk` that no deep tree ends."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    @staticmethod
    def walk(top: Any, *, followlinks: bool = False) -> Iterator[tuple[Any, list[Any], list[Any]]]:
        """Give folders, each with the names in it: parents first. Links are never followed."""
        assert not followlinks
        waiting = [top]
        while waiting:
            folder = waiting.pop()
            names: tuple[list[Any], list[Any]] = ([], [])
            with contextlib.suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    names[not entry.is_dir(follow_symlinks=False)].append(entry.name)
            yield folder, *names
            if not _too_deep(folder):
                waiting += [os.path.join(folder, name) for name in reversed(names[0])]


def _too_deep(path: str | bytes) -> bool:
    return os.fsencode(path).count(b"/") > DEEPEST


class _Observer(BaseObserver):
    """watchdog's observer for Linux, with emitters of ours."""

    def __init__(self, layers: Mapping[str, _Watched]) -> None:
        self.reader = _Reader(layers)
        self.reader.start()
        super().__init__(_Emitter, inotify_fd=self.reader, layers=layers)

    def on_thread_stop(self) -> None:
        super().on_thread_stop()
        self.reader.stop()
        self.reader.join()


class _Overflows(logging.Handler):
    """Takes watchdog's word that events were lost; it tells nobody else."""

    def __init__(self, watcher: Watcher) -> None:
        super().__init__(logging.WARNING)
        self._watcher = watcher

    def emit(self, record: logging.LogRecord) -> None:
        if "overflow" in record.getMessage():
            self._watcher.lose()


class Watcher:
    """The observer process: requests of the keeper in, alarms out."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._sending = threading.Lock()
        self._patterns: Patterns | None = None
        self._watched: dict[str, _Watched] = {}
        self._wake, self._waker = os.pipe()
        self._lost = threading.Event()
        self._dead = threading.Event()
        self._next_look = 0.0
        logger = logging.getLogger("watchdog")
        self._overflows = _Overflows(self)
        logger.addHandler(self._overflows)
        logger.propagate = False
        InotifyMoveEventGrouper.delay = PAIR_SECONDS
        InotifyMoveEventGrouper.put_event = _put_event  # type: ignore[method-assign, assignment]
        inotify.os = events.os = _Os()  # type: ignore[attr-defined, assignment]
        warnings.simplefilter("ignore")  # watchdog prints all that it watches
        threading.excepthook = self._on_death
        self._observer = self._start()

    def run(self) -> None:
        """Serve until the keeper is gone. Raises OSError where nothing can be watched any more."""
        self.say({"op": "ready"})
        while True:
            waits = None
            if self._lost.is_set() or self._dead.is_set():
                waits = max(0.0, self._next_look - time.monotonic())
            for fd in select.select([self._sock.fileno(), self._wake], [], [], waits)[0]:
                if fd == self._wake:
                    os.read(fd, 4096)
                    continue
                message, _ = host.receive(self._sock)
                if message is None:
                    return
                self._do(message)
            if time.monotonic() >= self._next_look:
                self._mend()

    def close(self) -> None:
        """End the watching."""
        logging.getLogger("watchdog").removeHandler(self._overflows)
        _stop(self._observer)
        os.close(self._wake)
        os.close(self._waker)

    def say(self, message: dict[str, Any]) -> None:
        """Tell the keeper something; on any thread."""
        with self._sending, contextlib.suppress(OSError):  # a keeper that is gone needs no word
            host.send(self._sock, message)

    def lose(self) -> None:
        """Take note that events were lost."""
        for one in list(self._watched.values()):
            one.lossy = True
        self._lost.set()
        os.write(self._waker, b"!")

    # -- parts

    def _do(self, message: dict[str, Any]) -> None:
        folder = message.get("layer", "")
        if message["op"] == "rules":
            self._patterns = Patterns(**message["patterns"])
        elif message["op"] == "watch":
            self._begin(folder, message["lower"])
        elif message["op"] == "forget":
            watched = self._watched.pop(folder, None)
            if watched is not None:
                self._unschedule(watched)
            self.say({"op": "forgotten", "layer": folder})
        elif message["op"] == "alive":
            self.say({"op": "alive", "layer": folder})

    def _begin(self, folder: str, lower: str) -> None:
        assert self._patterns is not None
        watched = _Watched(self, WatchedLayer(folder, lower, self._patterns))
        self._watched[folder] = watched
        try:
            self._schedule(watched)
        except (OSError, RuntimeError) as error:
            del self._watched[folder]
            self.say({"op": "failed", "layer": folder, "why": str(error), "lacks": _limit(error)})
            return
        self.say({"op": "watching", "layer": folder})

    def _start(self) -> _Observer:
        observer = _Observer(self._watched)
        observer.start()
        return observer

    def _replace_observer(self) -> None:
        old = self._observer
        try:
            self._observer = self._start()
        except OSError:  # there may be room for one alone
            _stop(old)
            self._observer = self._start()
            return
        threading.Thread(target=_stop, args=(old,), daemon=True).start()

    def _schedule(self, one: _Watched) -> None:
        one.watch = self._observer.schedule(
            one, one.layer.folder, recursive=True, event_filter=FILTER
        )

    def _unschedule(self, one: _Watched) -> None:
        if one.watch is not None:
            with contextlib.suppress(KeyError, OSError, RuntimeError):
                self._observer.unschedule(one.watch)

    def _on_death(self, arguments: threading.ExceptHookArgs) -> None:
        """A thread of watchdog's ended by an exception."""
        self._dead.set()
        os.write(self._waker, b"!")

    def _mend(self) -> None:
        """Make up for a reader that died or events that were lost."""
        if not self._dead.is_set() and not self._lost.is_set():
            return
        started = time.monotonic()
        if self._dead.is_set():
            self._dead.clear()
            self._lost.set()
            self._replace_observer()
            for one in list(self._watched.values()):
                one.lossy = True
                self._schedule(one)
        self._lost.clear()
        for one in list(self._watched.values()):
            if one.lossy:
                one.look()
            if one.deaf:
                self._lost.set()
        took = time.monotonic() - started
        self._next_look = time.monotonic() + max(PAUSE_SECONDS, LOOK_SHARE * took)


def _limit(error: Exception) -> str:
    """Return the limit of a user that was reached, or nothing where another thing failed."""
    return LIMITS.get(error.errno or 0, "") if isinstance(error, OSError) else ""


def _stop(observer: BaseObserver) -> None:
    with contextlib.suppress(Exception):  # half of it is dead
        observer.stop()
        observer.join(STOP_SECONDS)


def serve(sock: socket.socket) -> None:
    """Watch until the keeper is gone, or say why that is impossible."""
    try:
        Watcher(sock).run()
    except Exception as error:  # the outermost edge of this process: say why, then end
        with contextlib.suppress(OSError):
            why = f"{type(error).__name__}: {error}"
            host.send(sock, {"op": "lost", "why": why, "lacks": _limit(error)})
