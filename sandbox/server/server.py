# SPDX-License-Identifier: Apache-2.0
"""The supervisor process of one user: a Supervisor behind a unix socket.

Started on demand, detached from every terminal, exactly one per state folder (a lock file), ends
by itself when idle. Decides nothing: what a request means for the files is the Supervisor's.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from sandbox.agents.registry import Registry as Agents
from sandbox.errors import SandboxError, Unavailable, say_os_error
from sandbox.guard.child import Guardian
from sandbox.host.dirs import Dirs
from sandbox.host.version import ROOT
from sandbox.operations.requests import StopRequest
from sandbox.processes.peer_process import peer_pid, peer_uid
from sandbox.processes.scarcity import most_connections, raise_open_files
from sandbox.server.code_watch import CodeWatch
from sandbox.server.connection import Connection
from sandbox.server.log_stream import LogStream
from sandbox.server.loop_watch import LoopWatch, end_on
from sandbox.server.state import ServerState
from sandbox.server.supervising import Supervising

if TYPE_CHECKING:
    pass

R = TypeVar("R")

BACKLOG = 128
LOG_BYTES = 5_000_000
"""A log longer than this is begun anew when a supervisor starts."""


class Server(ServerState):
    """Accepts connections of its own user and serves each until it is asked to end, or idle."""

    def __init__(
        self,
        dirs: Dirs,
        supervisor: Supervising,
        *,
        idle_seconds: float,
        guardian: Guardian | None = None,
    ) -> None:
        super().__init__(dirs, supervisor, guardian=guardian)
        self._idle_seconds = idle_seconds
        self._connections: set[asyncio.Task[None]] = set()
        self._most = most_connections()
        self._of_process: Counter[int] = Counter()
        """How many of them each process has."""
        self._stops: set[asyncio.Task[None]] = set()

    def stop_all(self) -> None:
        """Begin an emergency stop, as a signal asks for; the latch is set when this returns."""
        from sandbox.host.latch import Latch

        reason = "the signal USR1 to the supervisor"
        with contextlib.suppress(SandboxError):  # the stop says so, and goes on
            Latch(self.dirs).set(reason)
        task = asyncio.create_task(self._stop(reason))
        self._stops.add(task)
        task.add_done_callback(self._stops.discard)

    async def _stop(self, reason: str) -> None:
        report = await self.supervisor.request(StopRequest(reason))
        print(report.model_dump_json(), file=sys.stderr, flush=True)

    async def serve(self, *, ready: Callable[[], None] = lambda: None) -> None:
        """Listen until shut down or idle; `ready` is called once clients can connect.

        The caller holds the lock, so a socket that is there already is stale.
        """
        path = self.dirs.socket
        path.unlink(missing_ok=True)
        mask = os.umask(0o177)
        try:
            listener = await asyncio.start_unix_server(self._accept, path, backlog=BACKLOG)
        finally:
            os.umask(mask)
        inode = path.stat().st_ino
        try:
            self.code = CodeWatch(ROOT, self.freshness.code)
            async with self.supervisor:
                ready()
                if self.guardian is not None:
                    self.guardian.start()
                await self._until_done()
                listener.close()
                for task in tuple(self._connections):
                    task.cancel()
                await asyncio.gather(*self._connections, return_exceptions=True)
        finally:
            listener.close()
            self.close()
            if self.guardian is not None:
                await self.guardian.close()
            if path.exists() and path.stat().st_ino == inode:
                path.unlink()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        uid = peer_uid(writer.get_extra_info("socket"))
        if uid != os.geteuid():
            print(f"refused a client of uid {uid}", file=sys.stderr, flush=True)
            writer.close()
            return
        peer = peer_pid(writer.get_extra_info("socket"))
        if len(self._connections) >= self._most or self._of_process[peer] >= self._most // 2:
            writer.close()  # else no file could be opened to see who asks for what
            return
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        self._of_process[peer] += 1
        try:
            await Connection(self, reader, writer).serve()
        except asyncio.CancelledError:
            pass  # the server ends; asyncio would log it as an error
        except Unavailable as error:
            print(f"a connection was not served: {error}", file=sys.stderr, flush=True)
        finally:
            self._connections.discard(task)
            self._of_process[peer] -= 1
            if not self._of_process[peer]:
                del self._of_process[peer]
            writer.close()

    async def _until_done(self) -> None:
        """Wait for `shut_down`, or until nobody has used the supervisor for the idle time."""
        clock = asyncio.get_running_loop().time
        used = clock()
        while not self.done.is_set():
            if self._connections or self.busy:
                used = clock()
            left = used + self._idle_seconds - clock()
            if left <= 0:
                return
            try:
                await asyncio.wait_for(self.done.wait(), min(left, self._idle_seconds / 4))
            except TimeoutError:
                continue


def hold_lock(dirs: Dirs) -> int | None:
    """Return a descriptor that holds the lock of the one supervisor, or None if it is held."""
    descriptor = os.open(dirs.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "socket": str(dirs.socket)}).encode(), 0)
    return descriptor


async def _run(dirs: Dirs, ready: Callable[[], None]) -> None:
    from sandbox.calls.supervisor import Supervisor
    from sandbox.config.settings import load_settings

    raise_open_files()
    settings = load_settings(dirs)
    supervisor = Supervisor(dirs)
    server = Server(
        dirs,
        supervisor,
        idle_seconds=settings.idle.supervisor_seconds,
        guardian=Guardian(dirs, settings.guard, supervisor.tell_tampered),
    )
    end_on((signal.SIGTERM, signal.SIGINT, signal.SIGHUP), server.shut_down)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, server.stop_all)
    watch = LoopWatch(sys.stderr)
    watch.start()
    try:
        await server.serve(ready=ready)
    finally:
        watch.close()


def main() -> None:
    """Run the supervisor: `python -m sandbox.server.server STATE CONFIG RUNTIME READY_FD`.

    The descriptor READY_FD gets one line: `ready`, `held`, or `error KIND MESSAGE`.
    """
    if os.fork():  # nobody's child, so that whoever started it need not wait for its end
        os._exit(0)
    sys.stderr = LogStream(sys.stderr.fileno())
    dirs = Dirs(*(Path(argument) for argument in sys.argv[1:4]))
    starter = os.fdopen(int(sys.argv[4]), "w")

    def say(text: str) -> None:
        if not starter.closed:
            starter.write(text + "\n")
            starter.close()

    try:
        dirs.create()
        lock = hold_lock(dirs)
        if lock is None:
            say("held")
            return
        for group in filter(None, map(Agents(dirs).group, Agents(dirs).all())):
            group.leave(os.getpid())  # an agent's call may have started it: no part of that agent
        asyncio.run(_run(dirs, lambda: say("ready")))
    except SandboxError as error:
        say(f"error {type(error).__name__} {error}")
    except OSError as error:
        say(f"error {Unavailable.__name__} the supervisor does not start: {say_os_error(error)}")
    except Exception as error:
        traceback.print_exc()
        say(f"error {Unavailable.__name__} the supervisor does not start: {error}")


if __name__ == "__main__":
    main()
