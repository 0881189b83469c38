# SPDX-License-Identifier: Apache-2.0
"""One call at a time inside the cell: start its command, wait for it, end every process it left.

A host is forked from the runner ahead of time. It adopts orphans, so that any descendant, however
it detached, stays below it: when waiting says that no child is left, no process of the call is
left, and the host is ready for the next call.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import signal
import socket
import time
from typing import Any

from .. import protocol
from . import process
from .start import FAILED, ended, not_started, start

SWEEP_SECONDS = 3.0
INLINE = 100_000
"""Bytes of a message that still fit into one datagram."""


class _End(Exception):
    """The runner asked to end the call."""


def send(sock: socket.socket, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
    """Send one message with descriptors. A long one travels in a memory file, the last of them."""
    data = json.dumps(message).encode("ascii")
    if len(data) > INLINE:
        memory = os.memfd_create("request")
        try:
            protocol.write_all(memory, data)
            _send(sock, b"m", (*fds, memory))
        finally:
            os.close(memory)
    else:
        _send(sock, data, fds)


def _send(sock: socket.socket, data: bytes, fds: tuple[int, ...]) -> None:
    extra = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    sock.sendmsg([data], extra)


def receive(sock: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """Receive one message; None when the other side is gone."""
    fds = array.array("i")
    data, extra, flags, _ = sock.recvmsg(
        2 * INLINE, socket.CMSG_SPACE(8 * fds.itemsize), socket.MSG_CMSG_CLOEXEC
    )
    for level, kind, payload in extra:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    if not data or flags & socket.MSG_TRUNC:
        return None, list(fds)
    if data == b"m":
        memory = fds.pop()
        with open(memory, "rb") as file:
            file.seek(0)
            data = file.read()
    return json.loads(data), list(fds)


class Host:
    """The runner's end of a forked host."""

    def __init__(self) -> None:
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            _keep_only(theirs.fileno())
            serve(theirs)
        theirs.close()


def _keep_only(fd: int) -> None:
    """Close what a fork inherited, but standard error and one descriptor: a host that held other
    calls' pipes would keep them from ending."""
    for number in (0, 1):
        os.close(number)
        os.open(os.devnull, os.O_RDWR)
    os.closerange(3, fd)
    os.closerange(fd + 1, max(int(name) for name in os.listdir("/proc/self/fd")) + 1)


def serve(sock: socket.socket) -> None:
    """Run calls to their end and report them, until one leaves something behind. Never returns."""
    status = FAILED
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # A handler, not SIG_IGN: commands must start with the default.
            signal.signal(number, lambda *_: None)
        process.adopt_orphans()
        process.die_with_parent()
        process.hide()
        signal.signal(signal.SIGUSR1, lambda *_: None)
        clean = True
        while clean:
            request, fds = receive(sock)
            if request is None:
                break
            clean = _run(sock, request, fds)
        status = 0
    except BaseException as error:  # the outermost edge of this process: say why, then end
        os.write(2, f"host: {type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(status)


def _run(sock: socket.socket, request: dict[str, Any], fds: list[int]) -> bool:
    """Run one call; return whether nothing of it is left."""

    def end(_signal: int, _frame: object) -> None:
        raise _End

    signal.signal(signal.SIGUSR1, end)
    answer: dict[str, Any] = {}
    try:
        try:
            pid, _child = start(request, tuple(fds))
        except OSError as error:
            answer = not_started(request, error)
        else:
            _close(fds)
            send(sock, {"event": "started", "pid": pid})
            answer = _wait(pid)
    except _End:
        answer = {"status": 128 + signal.SIGKILL, "signal": signal.SIGKILL, "ended": True}
    signal.signal(signal.SIGUSR1, lambda *_: None)
    _close(fds)
    left = sweep()
    send(sock, {"event": "exit", **answer, "left": left})
    return left == 0


def _close(fds: list[int]) -> None:
    while fds:
        os.close(fds.pop())


def _wait(main: int) -> dict[str, Any]:
    """Reap until the main process has ended; orphans are reaped on the way."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid != main:
            continue
        return ended(status)


def sweep() -> int:
    """Kill all descendants until none is left; return how many could not be ended."""
    me = os.getpid()
    deadline = time.monotonic() + SWEEP_SECONDS
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return 0
        left = process.descendants(me)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            return max(1, len(left))
        time.sleep(0.0005)
