# SPDX-License-Identifier: Apache-2.0
"""The keeper's end of the observer: start it, have layers watched, take alarms, notice its death.

The layer that the next call will get is put under watch while the keeper is idle, so that no call
waits for it. At the end of a call the layer's mark is renamed: when the observer has seen that, it
has seen everything before. Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import time
from typing import Any

from ..run import call_host as host
from ..run import process
from .layer import MARK

START_SECONDS = 30.0
"""How long a layer may take to be under watch."""
SETTLE_SECONDS = 1.0
"""How long the observer is waited for at the end of a call before it is asked whether it lives."""
ALIVE_SECONDS = 10.0
"""An observer that does not answer for this long is taken for dead."""
NICE = 5
"""The observer shares the keeper's processor time; a landing goes first."""


class OutOfWatchers(OSError):
    """The kernel watches as much as it may for this user; `limit` names which limit that is."""

    def __init__(self, limit: str) -> None:
        super().__init__(errno.EMFILE, os.strerror(errno.EMFILE))
        self.limit = limit

    def __str__(self) -> str:
        """Say it in one line, with what to do."""
        try:
            with open(f"/proc/sys/fs/inotify/{self.limit}", encoding="ascii") as file:
                most = int(file.read())
        except (OSError, ValueError):
            return f"all that a user may have are taken (fs.inotify.{self.limit}); raise that limit"
        return (
            f"all {most} that a user may have are taken (fs.inotify.{self.limit}); end programs "
            f"that watch files, or type `sudo sysctl fs.inotify.{self.limit}={2 * most}`"
        )


class Watched:
    """What is known of one layer."""

    def __init__(self) -> None:
        self.marks = 0
        self.settled = -1
        self.begun = False
        self.failed = ""
        self.lacks = ""
        """The limit of the kernel by which it cannot be watched."""
        self.alarm: dict[str, Any] | None = None
        self.behind = False
        """Whether the observer had not handled everything when the call ended."""
        self.lossy = False
        """Whether events were lost, and all names were looked at instead."""


class Watch:
    """One observer process and the layers that it watches."""

    def __init__(self, patterns: dict[str, list[str]] | None = None) -> None:
        self.lost = ""
        """Why the observer watches nothing any more; empty while it lives."""
        self.lacks = ""
        """The limit of the kernel by which that is so, if it is one."""
        self._layers: dict[str, Watched] = {}
        self._alarmed: list[str] = []
        self._alive = 0
        self._started = time.monotonic()
        self._sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            _become_observer(theirs)
        theirs.close()
        if patterns is not None:
            self.rules(patterns)

    @property
    def age(self) -> float:
        """How long ago it was started, in seconds."""
        return time.monotonic() - self._started

    def fileno(self) -> int:
        """Return the descriptor to wait for; then call `take`."""
        return self._sock.fileno()

    def rules(self, patterns: dict[str, list[str]]) -> None:
        """Say what is protected. Comes first."""
        self._send({"op": "rules", "patterns": patterns})

    def begin(self, layer: str, lower: str) -> None:
        """Have a layer watched; `lower` is the workspace below it. Does not wait."""
        os.close(os.open(f"{layer}/{MARK}0", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._layers[layer] = Watched()
        self._send({"op": "watch", "layer": layer, "lower": lower})

    def ensure(self, layer: str) -> None:
        """Wait until a layer is watched. Raises OSError where it cannot be."""
        watched = self._layers[layer]
        self._wait(lambda: watched.begun or watched.failed, START_SECONDS)
        if self.lost or not watched.begun:
            if limit := self.lacks or watched.lacks:
                raise OutOfWatchers(limit)
            why = self.lost or watched.failed or "the observer does not answer"
            raise OSError(5, f"the layer cannot be watched: {why}", "observer")

    def mark(self, layer: str) -> None:
        """Make a sign in the layer that the observer will see after everything before it."""
        watched = self._layers[layer]
        name = f"{layer}/{MARK}"
        os.rename(f"{name}{watched.marks}", f"{name}{watched.marks + 1}")
        watched.marks += 1

    def settle(self, layer: str) -> Watched:
        """Wait until the observer has handled everything before the last mark.

        One that is merely behind (a flood of changes) is not waited for long: the walk has seen
        what is there. `lost` is set where it does not answer at all.
        """
        watched = self._layers[layer]
        if not self._wait(lambda: watched.settled >= watched.marks, SETTLE_SECONDS):
            before = self._alive
            self._send({"op": "alive"})
            if not self._wait(lambda: self._alive > before, ALIVE_SECONDS):
                self._lose("it does not answer")
            watched.behind = not self.lost and watched.settled < watched.marks
        return watched

    def forget(self, layer: str) -> None:
        """Have a layer watched no more; `knows` says when that is done."""
        self._send({"op": "forget", "layer": layer})

    def knows(self, layer: str) -> bool:
        """Whether a layer is, or may be, under watch."""
        return not self.lost and layer in self._layers

    def poll(self) -> None:
        """Handle what the observer has said until now, its end among it."""
        while not self.lost and select.select([self._sock], [], [], 0)[0]:
            self._receive()

    def take(self) -> list[tuple[str, Watched]]:
        """Handle what the observer says; return the layers with a new alarm."""
        self.poll()
        alarmed, self._alarmed = self._alarmed, []
        return [(layer, self._layers[layer]) for layer in alarmed if layer in self._layers]

    def close(self) -> None:
        """End the observer, whatever it is at: one that stands still would not end by itself."""
        self._sock.close()
        self._lose("it was ended")
        os.waitpid(self.pid, 0)

    # -- parts

    def _wait(self, condition: Any, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not condition():
            left = deadline - time.monotonic()
            if self.lost or left <= 0:
                return False
            if select.select([self._sock], [], [], left)[0]:
                self._receive()
        return True

    def _send(self, message: dict[str, Any]) -> None:
        if self.lost:
            return
        try:
            host.send(self._sock, message)
        except ConnectionError:
            while not self.lost:  # it has ended, and may have said why
                self._receive()
        except OSError as error:
            self._lose(f"it cannot be reached: {error.strerror}")

    def _receive(self) -> None:
        message = None
        with contextlib.suppress(OSError):
            try:
                message, _ = host.receive(self._sock)
            except ConnectionResetError:  # told once, and before what it said last
                message, _ = host.receive(self._sock)
        if message is None:
            self._lose("its process ended")
            return
        watched = self._layers.get(message.get("layer", ""))
        if message["op"] == "lost":
            self.lacks = message["lacks"]
            self._lose(message["why"])
        elif message["op"] == "alive":
            self._alive += 1
        elif watched is None:
            return
        elif message["op"] == "watching":
            watched.begun = True
        elif message["op"] == "failed":
            watched.failed, watched.lacks = message["why"], message["lacks"]
        elif message["op"] == "settled":
            watched.settled = max(watched.settled, message["mark"])
            watched.lossy = message["lossy"]
        elif message["op"] == "forgotten":
            del self._layers[message["layer"]]
        elif message["op"] == "alarm" and watched.alarm is None:
            watched.alarm = {"path": message["path"], "events": message["events"]}
            self._alarmed.append(message["layer"])

    def _lose(self, why: str) -> None:
        self.lost = self.lost or why
        try:
            os.kill(self.pid, 9)
        except ProcessLookupError:
            return


def _become_observer(sock: socket.socket) -> None:
    """Turn this fork into the observer. Never returns."""
    try:
        process.die_with_parent()
        os.closerange(3, sock.fileno())
        highest = max(int(name) for name in os.listdir("/proc/self/fd"))
        os.closerange(sock.fileno() + 1, highest + 1)
        for number in (0, 1):
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
        os.nice(NICE)
        from . import (
            process as watcher,  # watchdog takes a while to load, and the keeper has no use for it
        )

        watcher.serve(sock)
    finally:
        os._exit(1)
