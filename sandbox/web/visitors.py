# SPDX-License-Identifier: Apache-2.0
"""Whose request it is: the processes that hold the other end of a connection, as the kernel says.

INVARIANT (P8, "no agent answers"): where one of them belongs to an agent, the request is that
agent's; where none is found, it is nobody's, and what a person decides is refused.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sandbox.agents.peer import Caller, peer_process
from sandbox.agents.registry import Agent, Registry
from sandbox.host.dirs import Dirs
from sandbox.host.latch import BETWEEN
from sandbox.processes.peer_process import peer_uid
from sandbox.processes.scarcity import refuse_scarcity
from sandbox.processes.table import Host, Known, Proc

_TABLES = (Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6"))
"""The kernel's tables of connections; a socket of IPv6 can hold one of IPv4."""
_MAPPED = bytes(10) + b"\xff\xff"
"""What stands before an address of IPv4 in one of IPv6."""
_LOCAL, _REMOTE, _UID, _INODE = 1, 2, 7, 9
"""Columns of those tables."""


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
    unseen: str = ""
    """What of an agent does not show whether it holds the connection: then nobody is known."""
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
            process = peer_process(self._host, connection)
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
        held, unseen = holders(self._host, inode)
        if unseen and (whose := self._of_agent(unseen)):
            return Visitor(unseen=whose)
        return self._visitor(held)

    def _of_agent(self, pids: Collection[int]) -> str:
        """Return, in words, which of some processes is an agent's; empty: none is."""
        if self._registry.empty:
            return ""
        for name, own in self._registry.members_of(self._registry.all()).items():
            if inside := own.keys() & pids:
                return f"process {min(inside)} of agent `{name}`"
        return ""

    def _lives(self, process: Known | None) -> bool:
        now = None if process is None else self._host.process(process.pid)
        return now is not None and not now.ended and now.known == process

    def _visitor(self, found: Sequence[Known | None]) -> Visitor:
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


def holders(host: Host, inode: int) -> tuple[list[Known], set[int]]:
    """Return the processes that hold a socket, and those that do not show whether they do."""
    wanted = f"socket:[{inode}]"
    found, unseen = list[Known](), set[int]()
    for name in os.listdir("/proc"):  # noqa: PTH208 - names alone; half the time
        if not name.isdecimal():
            continue
        held = _holds(name, wanted)
        if held is False:
            continue
        before = host.process(int(name))
        if held is None:
            unseen.add(int(name))
        elif before is not None and _holds(name, wanted) and _is(host, before):
            found.append(before.known)
        else:  # the number is another's now, or it has let go of it
            unseen.add(int(name))
    return found, unseen


def _holds(pid: str, wanted: str) -> bool | None:
    """Whether a process holds a file; None: it does not show its files to this user."""
    try:
        numbers = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208
    except OSError as error:
        return _unseen(error)
    for number in numbers:
        try:
            if os.readlink(f"/proc/{pid}/fd/{number}") == wanted:  # noqa: PTH115
                return True
        except OSError as error:
            if _unseen(error) is None:
                return None
    return False  # what it has closed meanwhile says nothing of its other files


def _unseen(error: OSError) -> bool | None:
    """Return False for what is gone, and None for what is there and not shown."""
    refuse_scarcity(error)
    return False if error.errno in (errno.ENOENT, errno.ESRCH) else None


def _is(host: Host, process: Proc) -> bool:
    now = host.process(process.pid)
    return now is not None and now.known == process.known


def _row(client: tuple[str, int], server: tuple[str, int]) -> tuple[int, int] | None:
    """Return owner and inode of the client's end of a loopback connection; None: not there."""
    for table, before in zip(_TABLES, (b"", _MAPPED), strict=True):
        ends = [_hexed(before, client), _hexed(before, server)]
        try:
            lines = table.read_text("ascii").splitlines()
        except OSError as error:
            refuse_scarcity(error)
            continue
        for line in lines:
            cells = line.split()
            if cells[_LOCAL : _REMOTE + 1] == ends and int(cells[_INODE]):
                return int(cells[_UID]), int(cells[_INODE])
    return None


def _hexed(before: bytes, address: tuple[str, int]) -> str:
    packed = before + socket.inet_aton(address[0])
    words = (packed[place : place + 4] for place in range(0, len(packed), 4))
    return "".join(f"{int.from_bytes(each, sys.byteorder):08X}" for each in words) + (
        f":{address[1]:04X}"
    )
