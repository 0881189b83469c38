# SPDX-License-Identifier: Apache-2.0
"""Start one command or file tool, with its three pipes, in a session of its own."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any

from . import file_tools as tools

NOT_FOUND, NOT_EXECUTABLE, FAILED = 127, 126, 125


def start(request: dict[str, Any], fds: tuple[int, ...]) -> tuple[int, object]:
    """Start what is asked; return its pid, and an object that must live until it was waited for.

    `fds` become its standard input, output and error. Raises OSError; see `not_started`.
    """
    if "tool" in request:
        return _fork_tool(request, fds), None
    child = subprocess.Popen(
        request["argv"],
        stdin=fds[0],
        stdout=fds[1],
        stderr=fds[2],
        cwd=request["cwd"],
        env=_environment(request),
        start_new_session=True,
    )
    return child.pid, child  # when collected before, it would reap the process itself


def _environment(request: dict[str, Any]) -> dict[str, str]:
    """Return the variables of a call; the time zone is the container's unless it names one."""
    zone = os.environ.get("TZ")
    return {"TZ": zone, **request["env"]} if zone else request["env"]


def _fork_tool(request: dict[str, Any], fds: tuple[int, ...]) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = FAILED
    try:
        signal.set_wakeup_fd(-1)
        for caught in (signal.SIGCHLD, signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(caught, signal.SIG_DFL)
        os.setsid()
        for number, fd in enumerate(fds):
            os.dup2(fd, number)
        os.closerange(3, max(int(name) for name in os.listdir("/proc/self/fd")) + 1)
        os.chdir(request["cwd"])
        own = _environment(request)
        os.environ.clear()
        os.environ.update(own)
        status = tools.main(request["tool"], request["params"])
    except OSError as error:
        os.write(2, f"{error.strerror}: {error.filename}\n".encode("utf-8", "backslashreplace"))
    finally:
        os._exit(status)


def not_started(request: dict[str, Any], error: OSError) -> dict[str, Any]:
    """Return the answer for a command that could not be started, with the shell's status."""
    name = (request.get("argv") or [request.get("tool")])[0]
    if error.filename == request["cwd"]:
        return {"status": FAILED, "error": f"directory `{request['cwd']}`: {error.strerror}"}
    if isinstance(error, FileNotFoundError):
        return {"status": NOT_FOUND, "error": f"`{name}`: command not found"}
    return {"status": NOT_EXECUTABLE, "error": f"`{name}`: {error.strerror}"}


def ended(status: int) -> dict[str, Any]:
    """Return the answer for a wait status: 128+n for signal n, as the shell gives it."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return {"status": 128 + number, "signal": number}
    return {"status": os.WEXITSTATUS(status), "signal": None}
