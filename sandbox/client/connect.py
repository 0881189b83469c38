# SPDX-License-Identifier: Apache-2.0
"""Reach the supervisor process of this user, starting it when it does not run.

Standard library only, and nothing heavy before it is known that a process must be started.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sandbox.client import wire
from sandbox.client.line import Line, Silent
from sandbox.errors import SandboxError, Unavailable
from sandbox.host import relaunch as interpreter
from sandbox.host.dirs import Dirs
from sandbox.host.poll import readable
from sandbox.host.version import VERSION, digest
from sandbox.operations.requests import ShutdownRequest
from sandbox.processes.peer_process import peer_uid

START_SECONDS = 120.0
"""How long a supervisor may take to start; one that ends before is not waited for."""
END_SECONDS = 60.0
"""How long a supervisor may take to end, and its cells with it."""
RETRY_SECONDS = 0.02
BUSY_RETRY_SECONDS = 0.3
MOST_NAMED = 5
"""Calls that keep a supervisor busy of which the names are said."""
LOG_BYTES = 5_000_000
"""A log longer than this is begun anew."""


def connect(dirs: Dirs) -> Line | None:
    """Return a connection to the supervisor that runs, or None when none does.

    Raises Unavailable when the socket belongs to somebody else; Silent when nobody answers.
    """
    for path in dict.fromkeys((str(dirs.socket), _noted(dirs, "socket"))):
        if not path:
            continue
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(path)
        except OSError:
            connection.close()
            continue
        if peer_uid(connection) != os.geteuid():
            connection.close()
            raise Unavailable(f"`{path}` is served by another user; remove it")
        try:
            return Line(connection)
        except Silent:
            connection.close()
            raise
        except SandboxError:  # it was just ending, and has not said hello
            connection.close()
    return None


class _Busy(Unavailable):
    """A supervisor must not go on as it is, and cannot be replaced while calls go on."""

    calls: str = ""
    """What it is busy with, in words."""


def reach(
    dirs: Dirs, *, wait_seconds: float = 0, on_wait: Callable[[str], object] | None = None
) -> Line:
    """Return a connection to a supervisor of this very version and settings, started if need be.

    One that is busy goes on with the settings that it began with where it says that these are at
    least as strict; the line has a note of it then. One that must not go on decides nothing more:
    for `wait_seconds` its calls are waited for, of which `on_wait` is told, and then it is
    replaced. Raises Unavailable: it does not start, or it is busy still.
    """
    deadline = time.monotonic() + START_SECONDS
    patience = time.monotonic() + wait_seconds
    silent = True
    while time.monotonic() < deadline:
        line = connect(dirs)
        if line is not None:
            if line.hello.get("digest") == digest(str(dirs.config)):
                return line
            pid = line.hello.get("pid")
            try:
                note = _replace(line)
            except _Busy as busy:
                if time.monotonic() >= patience:
                    raise
                if on_wait is not None and silent:
                    on_wait(
                        "the supervisor began with other code or settings, and is replaced as soon "
                        f"as nothing goes on; waiting up to {wait_seconds:.0f} s for {busy.calls}"
                    )
                silent = False
                time.sleep(BUSY_RETRY_SECONDS)
                deadline = time.monotonic() + START_SECONDS
                continue
            if note and (again := connect(dirs)) is not None:
                if again.hello.get("pid") == pid:
                    again.note = note
                    return again
                again.close()
        elif not _start(dirs):
            time.sleep(RETRY_SECONDS)
    raise Unavailable(f"the supervisor does not answer; see `{dirs.log}`")


def end_idle(dirs: Dirs) -> bool:
    """End the supervisor, and its cells with it; False where none runs.

    Raises Unavailable: it is busy, which is named, or has not ended within `END_SECONDS`.
    """
    line = connect(dirs)
    if line is None:
        return False
    pid = line.hello.get("pid")
    value = _asked_to_end(line)
    if not value.get("ending"):
        raise Unavailable(
            f"the supervisor is busy with {value.get('busy')} calls"
            f"{named_calls(value.get('calls') or ())}; try again when they have ended, or "
            "`lockgate stop`"
        )
    deadline = time.monotonic() + END_SECONDS
    while not _lock_is_free(dirs) and _noted(dirs, "pid") in ("", str(pid)):  # not its successor
        if time.monotonic() > deadline:
            raise Unavailable(
                f"the supervisor has not ended within {END_SECONDS:.0f} s; see `{dirs.log}`"
            )
        time.sleep(RETRY_SECONDS)
    return True


def _asked_to_end(line: Line) -> Mapping[str, Any]:
    """Ask a supervisor to end; return what it says. The line is closed then.

    Raises SandboxError where it answers with an error.
    """
    try:
        line.send({"id": 0, **ShutdownRequest().message()})
        said = line.receive()
    except Unavailable:  # it has ended by itself
        return {"ending": True}
    finally:
        line.close()
    if said.get("event") == "cancelled":  # it was ending already
        time.sleep(RETRY_SECONDS)
        return {"ending": True}
    if said.get("event") == "error":
        raise wire.failure(said)
    return said.get("value") or {}


def _replace(line: Line) -> str:
    """Ask a supervisor of another version or settings to end. Return a note where it is busy and
    may go on as it is. Raises Unavailable where it is busy and must not."""
    value = _asked_to_end(line)
    if value.get("ending"):
        return ""
    busy = f"{value.get('busy')} calls{named_calls(value.get('calls') or ())}"
    if value.get("why_not") == "":  # of an older one nothing is known
        changed = ", ".join(f"`{one}`" for one in value.get("changed") or ())
        what = f"what was changed in the settings since ({changed})" if changed else "the new file"
        return (
            f"the supervisor goes on with the settings that it began with, since it is busy with "
            f"{busy}; {what} counts when they have ended"
        )
    why = f", and {value['why_not']}" if value.get("why_not") else ""
    error = _Busy(
        f"the supervisor (version {line.hello.get('version')}, pid {line.hello.get('pid')}) "
        f"runs other code or settings than this program (version {VERSION}){why}, and is busy with "
        f"{busy}; try again when they have ended (`lockgate end CALL`), or `lockgate stop`"
    )
    error.calls = busy
    raise error


def named_calls(calls: Sequence[Mapping[str, Any]]) -> str:
    """Name the calls that a supervisor is busy with, and what to type about each."""
    said = [
        f"`{call['id']}` of {call['agent']} waits for a person (`lockgate deny {call['id']}`)"
        if call.get("waits")
        else f"`{call['id']}` of {call['agent']} runs"
        for call in calls[:MOST_NAMED]
    ]
    more = f", and {len(calls) - MOST_NAMED} more" if len(calls) > MOST_NAMED else ""
    return f" ({', '.join(said)}{more})" if said else ""


def _start(dirs: Dirs) -> bool:
    """Start a supervisor. False if another one holds the lock; raises what the new one says."""
    dirs.create()
    if not _lock_is_free(dirs):
        return False
    import subprocess

    reading, writing = os.pipe()
    where = [str(dirs.state), str(dirs.config), str(dirs.runtime), str(writing)]
    if dirs.log.exists() and dirs.log.stat().st_size > LOG_BYTES:
        dirs.log.unlink()
    log = os.open(dirs.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        # The folder of the caller may be a workspace, whose files are an agent's: never import
        # from there (-P, and `/` as the working directory).
        starter = subprocess.Popen(
            [sys.executable, "-P", "-m", "sandbox.server.server", *where],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=interpreter.environment(_inherited(dirs)),
            pass_fds=(writing,),
            start_new_session=True,
        )
    except OSError as error:
        os.close(reading)
        raise Unavailable(f"the supervisor cannot be started: {error}") from None
    finally:
        os.close(log)
        os.close(writing)
    with os.fdopen(reading) as answers:
        ready = readable([answers], START_SECONDS)
        said = answers.readline().strip() if ready else ""
    if not ready:
        starter.kill()
    starter.wait()
    if said.startswith("error "):
        _, kind, message = said.split(" ", 2)
        raise wire.failure({"kind": kind, "message": message})
    if said not in ("ready", "held"):
        raise Unavailable(f"the supervisor does not start; see `{dirs.log}`")
    return said == "ready"


def _inherited(dirs: Dirs) -> dict[str, str]:
    """Return the variables that a supervisor begins with, without the mark of an agent of this
    state folder.

    The supervisor is no part of its agents. A mark of another folder's agent stays: such a
    supervisor is a program that the agent started, and a stop there must reach it.
    """
    from sandbox.client.inherited import kept_variables
    from sandbox.workspaces.registry import Registry as Workspaces

    known = Workspaces(dirs)
    env = kept_variables(os.environ, (one.path for one in known.list()), known.home)
    if mark := env.get("LOCKGATE_AGENT"):
        from sandbox.agents.registry import Registry

        if any(agent.mark == mark for agent in Registry(dirs).all()):
            del env["LOCKGATE_AGENT"]
    return env


def _lock_is_free(dirs: Dirs) -> bool:
    try:
        descriptor = os.open(dirs.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)


def _noted(dirs: Dirs, what: str) -> str:
    """Return what the running supervisor noted: its `pid`, or its `socket`, which may lie in
    another runtime folder."""
    try:
        return str(json.loads(dirs.lock.read_text("utf-8"))[what])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
