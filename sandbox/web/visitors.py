# SPDX-License-Identifier: Apache-2.0
"""Whose request it is: the processes that hold the other end of a connection, as the kernel says.

INVARIANT (P8, "no agent answers"): where one of them belongs to an agent, the request is that
agent's; where none is found, it is nobody's, and what a person decides is refused.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from sandbox.agents.peer import Caller
from sandbox.agents.registry import Agent, Registry
from sandbox.host.dirs import Dirs
from sandbox.host.latch import BETWEEN
from sandbox.processes.peer_process import peer_pid, peer_uid
from sandbox.processes.scarcity import refuse_scarcity
from sandbox.processes.table import Host, Known

_TABLE = Path("/proc/self/net/tcp")
_LOCAL, _REMOTE, _UID, _INODE = 1, 2, 7, 9
"""Columns of the kernel's table of connections."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """Whoever makes a request."""

    agent: Agent | None = None
    """The agent that it belongs to, the innermost one; None: none of ours."""
    known: bool = False
    """Whether its process was found, and bears no mark of an agent that is not ours."""
    of_other_user: bool = False
    root: Known | None = None
    """One of its processes, which wrong tokens are counted by."""
    token: bool = False
    """Whether it bears the token."""

    @property
    def is_person(self) -> bool:
        """Whether its word may count as a person's."""
        return self.known and self.agent is None

    @property
    def speaks_for(self) -> str | None:
        """Return the agent for which its requests are made; None: a person's."""
        return None if self.agent is None else self.agent.path

    def caller(self, registry: Registry) -> Caller:
        """Return it as the caller whose calls are decided about."""
        return Caller(registry, self.agent)

    def bearing(self) -> Visitor:
        """Return it with the token that it bears."""
        return replace(self, token=True)


class Wayfarer:
    """The other end of one connection. Make it when the connection is made."""

    LOOK_SECONDS = 2.0
    """How long an earlier look counts for what anybody may ask."""

    def __init__(self, dirs: Dirs, connection: socket.socket) -> None:
        self._registry = Registry(dirs)
        self._host = self._registry.host
        self._connection = connection
        self.is_local = connection.family == socket.AF_UNIX
        self._maker: Known | None = None
        if self.is_local:
            process = self._host.process(peer_pid(connection))
            self._maker = process.known if process is not None else None
        self._seen: tuple[float, Visitor] | None = None

    def visitor(self, *, anew: bool) -> Visitor:
        """Return whose requests come now; a look takes some milliseconds.

        `anew`: an earlier look does not count, since the request is not for anybody to make.
        """
        now = time.monotonic()
        if anew or self._seen is None or now - self._seen[0] > self.LOOK_SECONDS:
            self._seen = now, self._look()
        return self._seen[1]

    def _look(self) -> Visitor:
        if self.is_local:
            if peer_uid(self._connection) != os.geteuid():
                return Visitor(of_other_user=True)
            return self._visitor([self._maker] if self._lives(self._maker) else [])
        found = _row(self._connection.getpeername(), self._connection.getsockname())
        if found is None:
            return Visitor()
        uid, inode = found
        if uid != os.geteuid():
            return Visitor(of_other_user=True)
        return self._visitor(list(holders(self._host, inode)))

    def _lives(self, process: Known | None) -> bool:
        now = None if process is None else self._host.process(process.pid)
        return now is not None and not now.ended and now.known == process

    def _visitor(self, found: list[Known | None]) -> Visitor:
        processes = [process for process in found if process is not None]
        agents = [self._registry.of_process(process.pid) for process in processes]
        ours = [agent for agent in agents if agent is not None]
        if ours:
            inner = max(ours, key=lambda agent: agent.path.count(BETWEEN))
            return Visitor(inner, True, root=processes[0])
        lines = [
            process
            for each in processes
            for process in self._host.line(each.pid)
            if process.pid > 1
        ]
        marked = any(self._host.marker(process.pid) for process in lines)
        alive = bool(processes) and all(map(self._lives, processes))  # as it was looked at
        return Visitor(None, alive and not marked, root=processes[0] if processes else None)


def holders(host: Host, inode: int) -> Iterator[Known]:
    """Yield the processes that hold a socket, as far as this user may see."""
    wanted = f"socket:[{inode}]"
    for name in os.listdir("/proc"):  # noqa: PTH208 - names alone; half the time
        if not name.isdecimal():
            continue
        try:
            held = any(
                os.readlink(f"/proc/{name}/fd/{number}") == wanted  # noqa: PTH115
                for number in os.listdir(f"/proc/{name}/fd")  # noqa: PTH208
            )
        except OSError as error:  # it has ended, or is another user's
            refuse_scarcity(error)
            continue
        if held and (process := host.process(int(name))) is not None:
            yield process.known


def _row(client: tuple[str, int], server: tuple[str, int]) -> tuple[int, int] | None:
    """Return owner and inode of the client's end of a loopback connection; None: not there."""
    local, remote = _hexed(client), _hexed(server)
    try:
        lines = _TABLE.read_text("ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        cells = line.split()
        if cells[_LOCAL : _REMOTE + 1] == [local, remote] and int(cells[_INODE]):
            return int(cells[_UID]), int(cells[_INODE])
    return None


def _hexed(address: tuple[str, int]) -> str:
    packed = socket.inet_aton(address[0])
    return f"{int.from_bytes(packed, sys.byteorder):08X}:{address[1]:04X}"
