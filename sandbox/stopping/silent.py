# SPDX-License-Identifier: Apache-2.0
"""End a supervisor that does not answer, as part of a stop; the next call starts another.

INVARIANT (P10, "never another's"): what is ended is the process that holds the lock of the state
folder, known by its number and its start time.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Iterator

from sandbox.errors import SandboxError
from sandbox.host import files as own_files
from sandbox.host.dirs import Dirs
from sandbox.processes.supervisor_process import supervisor
from sandbox.processes.table import Host, Known, Sent

ANSWER_SECONDS = 10.0
"""How long a supervisor may take to greet whoever connects; it takes a millisecond, but on a busy
machine."""
GONE_SECONDS = 5.0
"""How long one that was killed may take to go."""
_PAUSE_SECONDS = 0.02


def end_silent(dirs: Dirs, host: Host, *, seconds: float = ANSWER_SECONDS) -> tuple[str, bool]:
    """End the supervisor of a state folder if it does not answer.

    Return what was done, empty where nothing was, and whether it is gone.
    """
    one = supervisor(dirs.lock, host)
    if one is None or one.pid == os.getpid() or _answers(dirs, seconds):
        return "", True
    if supervisor(dirs.lock, host) != one:  # it has just ended
        return "", True
    said = f"the supervisor (process {one.pid}) did not answer within {seconds:g} s"
    if host.send(one, signal.SIGKILL) is Sent.FORBIDDEN or not _is_gone(one, host):
        return f"{said} and could not be ended", False
    return f"{said} and was ended; the next call starts another", True


def _answers(dirs: Dirs, seconds: float) -> bool:
    """Whether a supervisor greets us, or listens nowhere: it starts, or is about to end."""
    listening = False
    for path in _sockets(dirs):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(seconds)
            try:
                connection.connect(path)
                listening = True
                if connection.recv(1):
                    return True
            except TimeoutError:
                listening = True
            except OSError:  # nobody listens there
                continue
    return not listening


def _sockets(dirs: Dirs) -> Iterator[str]:
    """Give where a supervisor may listen; the one that runs has noted it."""
    found = []
    with contextlib.suppress(SandboxError):
        found.append(str(dirs.socket))
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        found.append(str(json.loads(own_files.read(dirs.lock))["socket"]))
    yield from dict.fromkeys(found)


def _is_gone(one: Known, host: Host) -> bool:
    deadline = time.monotonic() + GONE_SECONDS
    while (now := host.process(one.pid)) is not None and now.known == one and not now.ended:
        if time.monotonic() >= deadline:
            return False
        time.sleep(_PAUSE_SECONDS)
    return True
