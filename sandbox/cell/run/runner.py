# SPDX-License-Identifier: Apache-2.0
"""PID 1 of a cell: starts commands, streams their output, ends every process of a call.

Speaks frames (see protocol) on its standard input and output. When its input ends, the supervisor
is gone: the runner ends, and with it the container and everything in it.

One call at a time is a child of the runner itself; calls beside it run below hosts (see call_host),
which adopt their orphans. So what descends from the runner, but from no host, is of that one call.

INVARIANT (P2, P5): commands run with no way to this process: it is non-dumpable, its descriptors
are not inherited, and a second seccomp filter covers everything it starts.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from .. import protocol
from . import call_host as host
from . import homes, process, seccomp
from .calls import Call, oom_kills
from .start import FAILED, ended, not_started, start

CHUNK = 65536
MOST_IDLE = 4
"""Hosts that wait for the next call."""
SWEEP_SECONDS = 3.0
"""After this, everything in the cell is killed to be rid of what one call left."""


class Runner:
    """The loop: frames in, calls, frames out."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._decoder = protocol.Decoder()
        self._calls: dict[int, Call] = {}
        self._direct: Call | None = None
        self._idle: list[host.Host] = []
        self._home = homes.Home(os.environ["HOME"])
        self._out = 1
        self._own, self._spare = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)

    def run(self) -> None:
        """Serve until standard input ends."""
        self._watch(0, selectors.EVENT_READ, lambda: self._on_input(0, self._decoder))
        wake, notify = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(notify, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # the kernel drops what PID 1 does not handle
        self._watch(wake, selectors.EVENT_READ, lambda: self._on_child(wake))
        self._say({"op": "hello", "uid": os.getuid(), "spare": self._spare.fileno()})
        while True:
            sweeping = self._direct is not None and self._direct.swept_until is not None
            for key, _ in self._selector.select(0.02 if sweeping else None):
                if key.fd in self._selector.get_map():
                    key.data()
            if sweeping:
                self._sweep()

    # -- plumbing

    def _watch(self, fd: int, events: int, handler: Callable[[], None]) -> None:
        self._selector.register(fd, events, handler)

    def _say(self, message: dict[str, Any]) -> None:
        protocol.write_all(self._out, protocol.pack(message))

    def _go_direct(self) -> None:
        """Speak over the socket whose other end the keeper has handed to the supervisor."""
        self._spare.close()
        self._out = self._own.fileno()
        decoder = protocol.Decoder()
        self._watch(self._out, selectors.EVENT_READ, lambda: self._on_input(self._out, decoder))

    def _on_input(self, fd: int, decoder: protocol.Decoder) -> None:
        data = os.read(fd, CHUNK)
        if not data:
            sys.exit(0)
        for kind, frame in decoder.feed(data):
            if kind == protocol.DATA:
                self._feed_stdin(*frame)
            elif frame["op"] == "run":
                self._start(frame)
            elif frame["op"] == "kill":
                self._kill(frame["call"])
            elif frame["op"] == "direct":
                self._go_direct()
            elif frame["op"] == "home":
                self._home.furnish(frame["files"], frame["folders"])

    # -- starting

    def _start(self, request: dict[str, Any]) -> None:
        call = Call(request["call"], exclusive=request["exclusive"])
        self._calls[call.number] = call
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(2)]
        if request.get("stdin"):
            stdin_read, call.stdin = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(call.stdin, False)
        else:
            stdin_read = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        passed = (stdin_read, pipes[0][1], pipes[1][1])
        try:
            if self._direct is None:
                self._start_here(call, request, passed)
            else:
                self._start_in_host(call, request, passed)
        finally:
            for fd in passed:
                os.close(fd)
        for channel, (read_end, _) in zip((protocol.STDOUT, protocol.STDERR), pipes):
            with contextlib.suppress(OSError):  # what all pipes of a user may hold is bounded
                fcntl.fcntl(read_end, fcntl.F_SETPIPE_SZ, 1 << 18)
            call.open.add(read_end)
            self._watch(read_end, selectors.EVENT_READ, self._reader(call, channel, read_end))

    def _start_here(self, call: Call, request: dict[str, Any], passed: tuple[int, ...]) -> None:
        try:
            if call.exclusive:
                self._home.give(approved=bool(request.get("fresh")))
            call.vouched = homes.vouches(self._home, request.get("vouch"))
            call.main, call.child = start(request, passed)
        except OSError as error:
            self._home.restore()
            call.answer = not_started(request, error)
            return
        self._direct = call

    def _start_in_host(self, call: Call, request: dict[str, Any], passed: tuple[int, ...]) -> None:
        call.host = self._idle.pop() if self._idle else host.Host()
        try:
            host.send(call.host.sock, request, passed)
        except OSError as error:
            call.answer = {"status": FAILED, "error": f"call cannot start: {error.strerror}"}
            call.host.sock.close()
            return
        self._watch(call.host.sock.fileno(), selectors.EVENT_READ, lambda: self._on_host(call))

    # -- output and end

    def _reader(self, call: Call, channel: int, fd: int) -> Callable[[], None]:
        def read() -> None:
            data = os.read(fd, CHUNK)
            if data:
                protocol.write_all(self._out, protocol.pack_data(call.number, channel, data))
                return
            self._selector.unregister(fd)
            os.close(fd)
            call.open.discard(fd)
            self._finish(call)

        return read

    def _finish(self, call: Call) -> None:
        if call.answer is None or call.open or call is self._direct:
            return
        if self._calls.pop(call.number, None) is None:
            return
        self._close_stdin(call)
        answer = {k: v for k, v in call.answer.items() if k != "event"}
        told = {"oom": oom_kills() > call.oom, "read": call.stdin_read, "vouched": call.vouched}
        self._say({"op": "exit", "call": call.number, **told, **answer})

    def _on_child(self, wake: int) -> None:
        os.read(wake, 4096)
        gone: dict[int, int] = {}
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                gone[pid] = status
        for one in [one for one in self._idle if one.pid in gone]:
            self._idle.remove(one)
            one.sock.close()
        call = self._direct
        if call is None:
            return
        if call.answer is None and call.main in gone:
            call.answer = ended(gone[call.main])
            call.swept_until = time.monotonic() + SWEEP_SECONDS
        if call.answer is not None:
            self._sweep()

    def _sweep(self) -> None:
        """End what the direct call left behind; when nothing is left, it can be reported."""
        call = self._direct
        if call is None or call.swept_until is None:
            return
        hosts = {one.pid for one in self._idle}
        hosts |= {other.host.pid for other in self._calls.values() if other.host is not None}
        left = process.children() - hosts
        if not left:
            self._direct = None
            call.swept_until = None
            self._home.restore()
            self._finish(call)
        elif call.exclusive or time.monotonic() > call.swept_until:
            self._kill_all()
        else:
            below = process.descendants(os.getpid(), but=hosts)
            for pid in below:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    # -- calls in hosts

    def _on_host(self, call: Call) -> None:
        assert call.host is not None
        try:
            message, _ = host.receive(call.host.sock)
        except OSError:
            message = None
        if message is not None and message["event"] == "started":
            call.main = message["pid"]
            return
        self._selector.unregister(call.host.sock.fileno())
        left = message is None or message["left"]
        if left or len(self._idle) >= MOST_IDLE:
            call.host.sock.close()
        else:
            self._idle.append(call.host)
        call.host = None
        call.answer = message or {"status": 128 + signal.SIGKILL, "signal": signal.SIGKILL}
        if left:  # nobody can tell any more what belongs to which call
            self._kill_all()
        self._finish(call)

    # -- stdin

    def _feed_stdin(self, number: int, _channel: int, data: bytes) -> None:
        call = self._calls.get(number)
        if call is None or call.stdin is None:
            return
        call.pending += data
        call.stdin_ended = call.stdin_ended or not data
        call.stdin_whole = call.stdin_whole or not data
        self._drain_stdin(call)

    def _drain_stdin(self, call: Call) -> None:
        fd = call.stdin
        if fd is None:
            return
        watched = fd in self._selector.get_map()
        blocked, taken = call.drain(fd)
        if taken:
            self._say({"op": "taken", "call": call.number, "bytes": taken})
        if blocked:
            if not watched:
                self._watch(fd, selectors.EVENT_WRITE, lambda: self._drain_stdin(call))
            return
        if watched:
            self._selector.unregister(fd)
        if call.stdin_ended:
            self._close_stdin(call)

    def _close_stdin(self, call: Call) -> None:
        if call.stdin is not None:
            if call.stdin in self._selector.get_map():
                self._selector.unregister(call.stdin)
            if not call.stdin_whole:
                call.count_read(call.stdin)
            os.close(call.stdin)
            call.stdin = None

    # -- ending

    def _kill(self, number: int) -> None:
        call = self._calls.get(number)
        if call is None:
            return
        if call.exclusive:
            self._kill_all()
        elif call.host is not None:
            os.kill(call.host.pid, signal.SIGUSR1)
        elif call.main is not None and call.answer is None:
            os.kill(call.main, signal.SIGKILL)

    def _kill_all(self) -> None:
        """Kill every process of this user in the cell but the runner, in one step of the kernel."""
        if os.getpid() != 1:  # outside a container of its own this would reach foreign processes
            sys.exit(FAILED)
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        for one in self._idle:
            one.sock.close()
        self._idle.clear()


def main() -> None:
    """Run as PID 1 of a cell."""
    if os.getpid() != 1:
        sys.exit("the runner must be the first process of its container")
    process.hide()
    seccomp.install()
    Runner().run()
