# SPDX-License-Identifier: Apache-2.0
"""Start the command line by a fork of a process that has imported what it needs. Run as a program.

    python -m tests.sandbox.forking DESCRIPTOR

Imports are most of what a short command costs. What is started is a process of its own all the
same: with its own session, folder, environment, descriptors, threads and end, and it imports the
modules of its command itself. What the kernel says of it as it was started (`/proc/PID/environ` and
`cmdline`) is the forking process's, so whoever tests that starts Python (`Shell.start`).
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import os
import resource
import select
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
IMPORTED = (
    *("click", "rich.console", "rich.markup", "rich.table"),
    *("policy.gate1.decide", "policy.gate1.alternatives", "sandbox.calls.supervisor"),
    *("sandbox.client.blocking", "sandbox.approvals.desk", "sandbox.doctor", "sandbox.guard.serve"),
)
"""What commands import below `sandbox.cli`."""
PLAIN = ("PATH", "HOME", "PYTHONPATH", "NO_COLOR")
"""The variables, beside those that begin with XDG_, of an environment that a fork can be given:
others say something to Python as it starts, or are a sign that is looked for in `/proc`."""
_DESCRIPTORS = 5


class ForkedProcess:
    """A process that was started by a fork, until it ends."""

    def __init__(self, status: socket.socket) -> None:
        self._status = status
        self.pid = int.from_bytes(self._receive(), "big")

    def wait(self, timeout: float) -> int:
        """Return its exit status, as `Popen.wait` does. Raises TimeoutError."""
        with self._status:
            self._status.settimeout(timeout)
            return int.from_bytes(self._receive(), "big", signed=True)

    def _receive(self) -> bytes:
        data = self._status.recv(4)
        if not data:
            raise RuntimeError("the process that forks has ended; its errors are above")
        return data


class Forks:
    """A process that forks for this one, and ends with it."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.sandbox.forking", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
            )
        atexit.register(self._end)

    @property
    def alive(self) -> bool:
        """Whether it goes on."""
        return self._process.poll() is None

    def _end(self) -> None:
        self._control.close()
        self._process.wait()

    def start(
        self, words: Sequence[str], env: Mapping[str, str], cwd: Path, streams: Sequence[int]
    ) -> ForkedProcess:
        """Start `lockgate WORDS` with these three descriptors."""
        text = json.dumps({"words": list(words), "env": dict(env), "cwd": str(cwd)})
        mine, theirs = socket.socketpair()
        body = os.memfd_create("start")  # a message of its length might be refused
        with theirs, os.fdopen(body, "wb") as file:
            file.write(text.encode())
            file.flush()
            socket.send_fds(self._control, [b"."], [*streams, theirs.fileno(), body])
        return ForkedProcess(mine)


_forks: list[Forks] = []


def forks() -> Forks:
    """Return the one process that forks for this process; a stop that was tested may end it."""
    if not _forks or not _forks[-1].alive:
        _forks.append(Forks())
    return _forks[-1]


def fits(env: Mapping[str, str]) -> bool:
    """Whether a fork can be given an environment."""
    return all(name in PLAIN or name.startswith("XDG_") for name in env)


# The process that forks. It keeps plain descriptors: a child closes them all, and no object of its
# own may close one of their numbers once more.


def serve(control: int) -> dict[str, Any] | None:
    """Fork for each request; return what to run in the child, and None at the end."""
    running: dict[int, tuple[int, int]] = {}
    while True:
        ready, _, _ = select.select([control, *running], [], [])
        for ended in set(ready) & set(running):
            pid, status = running.pop(ended)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            _tell(status, code.to_bytes(4, "big", signed=True))
            os.close(status)
            os.close(ended)
        if control not in ready:
            continue
        fds = _receive(control)
        if not fds:
            return None
        *streams, status, body = fds
        wanted: dict[str, Any] = json.loads(_content(body))
        pid = os.fork()
        if pid == 0:
            _become(streams, wanted)
            return wanted
        _tell(status, pid.to_bytes(4, "big"))
        for fd in (*streams, body):
            os.close(fd)
        running[os.pidfd_open(pid)] = (pid, status)


def _receive(control: int) -> list[int]:
    with socket.socket(fileno=os.dup(control)) as end:
        return socket.recv_fds(end, 1, _DESCRIPTORS)[1]


def _tell(status: int, data: bytes) -> None:
    try:
        os.write(status, data)
    except BrokenPipeError:  # nobody waits for it any more
        return


def _content(body: int) -> bytes:
    os.lseek(body, 0, os.SEEK_SET)
    return os.read(body, os.fstat(body).st_size)


def _become(streams: Sequence[int], wanted: Mapping[str, Any]) -> None:
    """Be what a process is that was started with this."""
    os.setsid()
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
    os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    os.chdir(wanted["cwd"])
    os.environ.clear()
    os.environ.update({"LC_CTYPE": "C.UTF-8", **wanted["env"]})  # which Python says to children
    time.tzset()
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = _stream(number, getattr(sys, name))
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.argv = [str(ROOT / "sandbox/cli/main.py"), *wanted["words"]]


def _stream(number: int, like: io.TextIOWrapper) -> io.TextIOWrapper:
    raw = io.FileIO(number, "r" if number == 0 else "w", closefd=False)
    buffer: Any = io.BufferedReader(raw) if number == 0 else io.BufferedWriter(raw)
    lines = number == 2 or raw.isatty()
    return io.TextIOWrapper(buffer, like.encoding, like.errors, line_buffering=lines)


def main() -> None:
    """Fork until nobody asks any more; in a child, run the command line."""
    for name in IMPORTED:
        importlib.import_module(name)
    gc.freeze()
    if serve(int(sys.argv[1])) is not None:
        from sandbox.cli.main import main as run  # each child for itself

        run()


if __name__ == "__main__":
    main()
