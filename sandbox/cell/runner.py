# SPDX-License-Identifier: Apache-2.0
"""PID 1 of a cell: starts commands, streams their output, ends every process of a call.

Speaks frames (see protocol) on its standard input and output. When its input ends, the supervisor
is gone: the runner ends, and with it the container and everything in it.

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
from collections.abc import Callable
from typing import Any

from . import host, process, protocol, seccomp

CHUNK = 65536
MOST_IDLE = 4
"""Hosts that wait for the next call."""
OOM_COUNTERS = (
    ("/sys/fs/cgroup/memory.events", "oom_kill"),
    ("/sys/fs/cgroup/memory/memory.oom_control", "oom_kill"),
)


def oom_kills() -> int:
    """Return how many processes of this container the kernel has killed for want of memory."""
    for path, key in OOM_COUNTERS:
        try:
            with open(path, encoding="ascii") as file:
                for line in file:
                    words = line.split()
                    if len(words) == 2 and words[0] == key:
                        return int(words[1])
        except OSError:
            continue
    return 0


def _keep_only(fd: int) -> None:
    """Close what a fork inherited, but standard error and one descriptor: a host that held other
    calls' pipes would keep them from ending."""
    for number in (0, 1):
        os.close(number)
        os.open(os.devnull, os.O_RDWR)
    os.closerange(3, fd)
    os.closerange(fd + 1, max(int(name) for name in os.listdir("/proc/self/fd")) + 1)


class _Host:
    """The runner's end of a forked host."""

    def __init__(self) -> None:
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            _keep_only(theirs.fileno())
            host.serve(theirs)
        theirs.close()


class _Call:
    """One running call."""

    def __init__(self, number: int, at: _Host, *, exclusive: bool, oom: int) -> None:
        self.number = number
        self.host = at
        self.exclusive = exclusive
        self.oom = oom
        self.main: int | None = None
        self.answer: dict[str, Any] | None = None
        self.open: set[int] = set()
        self.stdin: int | None = None
        self.pending = bytearray()
        self.stdin_ended = False


class Runner:
    """The loop: frames in, calls, frames out."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._decoder = protocol.Decoder()
        self._calls: dict[int, _Call] = {}
        self._idle: list[_Host] = []

    def run(self) -> None:
        """Serve until standard input ends."""
        self._watch(0, selectors.EVENT_READ, self._on_input)
        wake, notify = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(notify, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: sys.exit(0))
        self._watch(wake, selectors.EVENT_READ, lambda: self._on_child(wake))
        self._idle.append(_Host())
        self._say({"op": "hello", "uid": os.getuid(), "gid": os.getgid()})
        while True:
            for key, _ in self._selector.select():
                if key.fd in self._selector.get_map():
                    key.data()

    # -- plumbing

    def _watch(self, fd: int, events: int, handler: Callable[[], None]) -> None:
        self._selector.register(fd, events, handler)

    def _say(self, message: dict[str, Any]) -> None:
        protocol.write_all(1, protocol.pack(message))

    def _on_input(self) -> None:
        data = os.read(0, CHUNK)
        if not data:
            sys.exit(0)
        for kind, frame in self._decoder.feed(data):
            if kind == protocol.DATA:
                self._feed_stdin(*frame)
            elif frame["op"] == "run":
                self._start(frame)
            elif frame["op"] == "kill":
                self._kill(frame["call"])
            elif frame["op"] == "signal":
                self._signal(frame["call"], frame["signal"])
            elif frame["op"] == "home":
                self._furnish(frame["files"])

    def _furnish(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            with open(os.path.join(os.environ["HOME"], name), "w", encoding="utf-8") as file:
                file.write(text)

    # -- one call

    def _start(self, request: dict[str, Any]) -> None:
        at = self._idle.pop() if self._idle else _Host()
        call = _Call(request["call"], at, exclusive=request["exclusive"], oom=oom_kills())
        self._calls[call.number] = call
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(2)]
        if request.get("stdin"):
            stdin_read, call.stdin = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(call.stdin, False)
        else:
            stdin_read = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        passed = (stdin_read, pipes[0][1], pipes[1][1])
        try:
            host.send(at.sock, request, passed)
        except OSError as error:
            call.answer = {"status": host.FAILED, "error": f"call cannot start: {error.strerror}"}
        for fd in passed:
            os.close(fd)
        for channel, (read_end, _) in zip((protocol.STDOUT, protocol.STDERR), pipes):
            fcntl.fcntl(read_end, fcntl.F_SETPIPE_SZ, 1 << 18)
            call.open.add(read_end)
            self._watch(read_end, selectors.EVENT_READ, self._reader(call, channel, read_end))
        self._watch(at.sock.fileno(), selectors.EVENT_READ, lambda: self._on_host(call))

    def _reader(self, call: _Call, channel: int, fd: int) -> Callable[[], None]:
        def read() -> None:
            data = os.read(fd, CHUNK)
            if data:
                protocol.write_all(1, protocol.pack_data(call.number, channel, data))
                return
            self._selector.unregister(fd)
            os.close(fd)
            call.open.discard(fd)
            self._finish(call)

        return read

    def _on_host(self, call: _Call) -> None:
        try:
            message, _ = host.receive(call.host.sock)
        except OSError:
            message = None
        if message is None:
            self._host_gone(call)
        elif message["event"] == "started":
            call.main = message["pid"]
        else:
            call.answer = message
            self._selector.unregister(call.host.sock.fileno())
            if message["left"] or len(self._idle) >= MOST_IDLE:
                call.host.sock.close()
            else:
                self._idle.append(call.host)
            if message["left"]:
                self._kill_all()
            self._finish(call)

    def _host_gone(self, call: _Call) -> None:
        """Handle a host that ended without an answer: nobody knows what it started."""
        self._selector.unregister(call.host.sock.fileno())
        call.host.sock.close()
        if call.answer is None:
            call.answer = {"status": 128 + signal.SIGKILL, "signal": signal.SIGKILL}
            self._kill_all()
        self._finish(call)

    def _finish(self, call: _Call) -> None:
        if call.answer is None or call.open or call.number not in self._calls:
            return
        del self._calls[call.number]
        self._close_stdin(call)
        answer = {k: v for k, v in call.answer.items() if k != "event"}
        self._say({"op": "exit", "call": call.number, "oom": oom_kills() > call.oom, **answer})

    # -- stdin

    def _feed_stdin(self, number: int, _channel: int, data: bytes) -> None:
        call = self._calls.get(number)
        if call is None or call.stdin is None:
            return
        call.pending += data
        call.stdin_ended = call.stdin_ended or not data
        self._drain_stdin(call)

    def _drain_stdin(self, call: _Call) -> None:
        fd = call.stdin
        if fd is None:
            return
        watched = fd in self._selector.get_map()
        before = len(call.pending)
        blocked = False
        try:
            while call.pending:
                del call.pending[: os.write(fd, call.pending)]
        except BlockingIOError:
            blocked = True
        except BrokenPipeError:
            call.pending.clear()
            call.stdin_ended = True
        if before > len(call.pending):
            taken = before - len(call.pending)
            self._say({"op": "taken", "call": call.number, "bytes": taken})
        if blocked:
            if not watched:
                self._watch(fd, selectors.EVENT_WRITE, lambda: self._drain_stdin(call))
            return
        if watched:
            self._selector.unregister(fd)
        if call.stdin_ended:
            self._close_stdin(call)

    def _close_stdin(self, call: _Call) -> None:
        if call.stdin is not None:
            if call.stdin in self._selector.get_map():
                self._selector.unregister(call.stdin)
            os.close(call.stdin)
            call.stdin = None

    # -- ending

    def _kill(self, number: int) -> None:
        call = self._calls.get(number)
        if call is None:
            return
        if call.exclusive:
            self._kill_all()
        else:
            os.kill(call.host.pid, signal.SIGUSR1)

    def _signal(self, number: int, what: int) -> None:
        call = self._calls.get(number)
        if call is not None and call.main is not None:
            with contextlib.suppress(OSError):
                os.killpg(call.main, what)

    def _kill_all(self) -> None:
        """Kill every process of this user in the cell but the runner, in one step of the kernel."""
        if os.getpid() != 1:  # outside a container of its own this would reach foreign processes
            sys.exit(host.FAILED)
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        for one in self._idle:
            one.sock.close()
        self._idle = [_Host()]

    def _on_child(self, wake: int) -> None:
        os.read(wake, 4096)
        gone: set[int] = set()
        try:
            while True:
                pid, _ = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                gone.add(pid)
        except ChildProcessError:
            pass
        for one in [one for one in self._idle if one.pid in gone]:
            self._idle.remove(one)
            one.sock.close()


def main() -> None:
    """Run as PID 1 of a cell."""
    if os.getpid() != 1:
        sys.exit("the runner must be the first process of its container")
    process.hide()
    seccomp.install()
    Runner().run()
