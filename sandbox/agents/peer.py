# SPDX-License-Identifier: Apache-2.0
"""Whose call it is: the agent that the process at the other end of a connection belongs to.

INVARIANT (P10, "no borrowed name"): what belongs to an agent calls as that agent or as one below
it, within its role, so that a stop, a pause and a budget of that agent reach the call.
INVARIANT (P8, "no agent answers"): what is a person's to say is refused to what belongs to an
agent, and to a connection whose maker has ended, since nobody knows then who holds it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.agents.allowed import check_path
from sandbox.agents.declared import DEFAULT, narrowed, role_of, within
from sandbox.agents.registry import Agent, Registry
from sandbox.errors import BadInput
from sandbox.host.dirs import Dirs
from sandbox.host.latch import BETWEEN, below
from sandbox.operations.requests import May, Request
from sandbox.processes.peer_process import peer_pid
from sandbox.processes.scarcity import refuse_scarcity
from sandbox.processes.table import Host, Proc

_PEER_PIDFD = 77
"""SO_PEERPIDFD, since Linux 6.5: a descriptor that stands for the process at the other end."""


def peer_process(host: Host, connection: socket.socket) -> Proc | None:
    """Return the process that made a connection; None: it has ended.

    A number alone may be another process's by now. Where the kernel says the process itself, the
    number must still be its own after the look.
    """
    try:
        said = connection.getsockopt(socket.SOL_SOCKET, _PEER_PIDFD, struct.calcsize("i"))
    except OSError as error:
        refuse_scarcity(error)
        return host.process(peer_pid(connection)) if error.errno == errno.ENOPROTOOPT else None
    (held,) = struct.unpack("i", said)
    try:
        pid = _number(held)
        process = host.process(pid) if pid > 0 else None
        return process if process is not None and _number(held) == pid else None
    except OSError as error:
        refuse_scarcity(error)
        return None
    finally:
        os.close(held)


def _number(held: int) -> int:
    """Return the number of a process that a descriptor stands for; -1: it has ended."""
    with open(f"/proc/self/fdinfo/{held}", "rb") as file:  # noqa: PTH123
        for line in file:
            if line.startswith(b"Pid:"):
                return int(line[4:])
    return -1


class Peer:
    """The process at the other end of one connection. Make it when the connection is made."""

    def __init__(self, dirs: Dirs, connection: socket.socket | None) -> None:
        self._registry = Registry(dirs)
        self.pid = peer_pid(connection) if connection is not None else 0
        """Its number, 0 where there is none."""
        self._process = peer_process(self._registry.host, connection) if connection else None

    def agent(self) -> Agent | None:
        """Return the agent that it belongs to. Raises BadInput where it has ended."""
        if not self.pid or self._registry.empty:
            return None
        now = self._registry.host.process(self.pid)
        if now is None or now.ended or self._process is None or now.known != self._process.known:
            raise BadInput(
                f"process {self.pid}, which made this connection, has ended; make a new one"
            )
        return self._registry.of_process(self.pid)

    def speaking_for(self, name: object) -> Peer:
        """Return the peer that a request comes from which says for whom it is made: a door that
        serves several clients says so of each. It only takes away: what belongs to an agent speaks
        for itself and for those below it, and whoever speaks for an agent is that agent.
        """
        return self if name is None else SpokenForPeer(self, self._registry, name)

    async def caller(self) -> Caller:
        """Return whose calls come over the connection. Raises BadInput where it has ended."""
        around = None if self._registry.empty else await asyncio.to_thread(self.agent)
        return Caller(self._registry, around)

    def check(self, request: Request[Any], of: Callable[[], str | None]) -> None:
        """Raise BadInput for a request that an agent may not make.

        `of` returns the agent of the call that the request names, None where that is not known.
        """
        may = request.who_may()
        if may is May.ANYBODY:
            return
        around = self.agent()
        if around is None:
            return
        if may is May.PERSON:
            raise BadInput(f"{request.deed} is a person's decision; this is agent `{around.id}`")
        name = of()
        if name is None or not below(around.path, name):
            raise BadInput(
                f"agent `{around.id}` can {request.op} calls of its own alone, each by its id"
            )


class SpokenForPeer(Peer):
    """The agent for which a request is made over somebody else's connection."""

    def __init__(self, door: Peer, registry: Registry, name: object) -> None:
        self._door = door
        self._registry = registry
        self._name = name
        self.pid = door.pid

    def agent(self) -> Agent | None:
        """Return that agent. Raises BadInput where it is not known, or not the connection's."""
        around = self._door.agent()
        named = self._registry.find(self._name) if isinstance(self._name, str) else None
        if named is None:
            raise BadInput("the agent for which the request is made is not under watch any more")
        if around is not None and not below(around.path, named.path):
            raise BadInput(f"this is agent `{around.id}`, which cannot call as agent `{named.id}`")
        return named

    async def caller(self) -> Caller:
        """Return that agent as the one whose calls come. Raises BadInput."""
        return Caller(self._registry, await asyncio.to_thread(self.agent))


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose calls come in through a door."""

    registry: Registry | None
    """None: no agents are known, and the names that a call gives count."""
    around: Agent | None = None
    """The agent that the caller's process belongs to; None: none, so it is a person's."""

    @classmethod
    def itself(cls, dirs: Dirs) -> Caller:
        """Return the caller that this very process is."""
        return cls.of_process(Registry(dirs), os.getpid())

    @classmethod
    def of_process(cls, registry: Registry, pid: int) -> Caller:
        """Return the caller that a process of this host is."""
        return cls(registry, registry.of_process(pid))

    def attributed(self, plan: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a plan (as it came) with the agent and role that count. Raises BadInput."""
        if plan.get("agent") is not None:
            check_path(str(plan["agent"]))
        if self.registry is None:
            return plan
        if not self.registry.empty:
            plan = attributed(plan, self.around, self.registry)
        declared = self.registry.declared
        return plan if declared.empty else narrowed(plan, declared)


def itself(dirs: Dirs, agent: str, role: str | None) -> tuple[str, str | None]:
    """Return the agent and role that calls of this very process count as, by the names that it
    gives. Raises BadInput."""
    plan = Caller.itself(dirs).attributed({"agent": agent, "role": role})
    return str(plan["agent"]), role_of(plan)


def attributed(plan: Mapping[str, Any], around: Agent | None, registry: Registry) -> dict[str, Any]:
    """Return a plan with the agent and role that count, for a caller that belongs to `around`."""
    wanted = str(plan.get("agent") or DEFAULT)
    named = registry.find(wanted)
    if around is None:
        if named is None:
            return dict(plan)
        return {**plan, "agent": named.path, "role": within(named.role, role_of(plan))}
    if named is not None and not below(around.path, named.path):
        raise BadInput(f"this is agent `{around.id}`, which cannot call as agent `{named.id}`")
    inner = named or around
    path = inner.path
    if named is None and wanted != DEFAULT:
        path = wanted if below(around.path, wanted) else f"{around.path}{BETWEEN}{wanted}"
    return {**plan, "agent": path, "role": within(inner.role, role_of(plan))}
