# SPDX-License-Identifier: Apache-2.0
"""Whose call it is: the agent that the process at the other end of a connection belongs to.

INVARIANT (P10, "no borrowed name"): what belongs to an agent calls as that agent or as one below
it, within its role, so that a stop, a pause and a budget of that agent reach the call.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from typing import Any

from sandbox.agents import Agent, Registry
from sandbox.dirs import Dirs
from sandbox.errors import BadInput
from sandbox.latch import BETWEEN, below

DEFAULT = "main"
"""The agent of a call that names none."""


def peer_pid(connection: socket.socket) -> int:
    """Return the process at the other end, as the kernel says it."""
    size = struct.calcsize("3i")
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return int(struct.unpack("3i", data)[0])


class Peer:
    """The process at the other end of one connection."""

    def __init__(self, dirs: Dirs, connection: socket.socket | None) -> None:
        self._registry = Registry(dirs)
        self._connection = connection

    @property
    def pid(self) -> int:
        """Return its number, 0 where there is none."""
        return peer_pid(self._connection) if self._connection is not None else 0

    def attributed(self, plan: object) -> object:
        """Return a plan (as it came) with the agent and role that count. Raises BadInput."""
        if self._registry.empty or not isinstance(plan, dict):
            return plan
        around = None
        if self._connection is not None:
            around = self._registry.of_process(peer_pid(self._connection))
        return attributed(plan, around, self._registry)


def attributed(plan: Mapping[str, Any], around: Agent | None, registry: Registry) -> dict[str, Any]:
    """Return a plan with the agent and role that count, for a caller that belongs to `around`."""
    wanted = str(plan.get("agent") or DEFAULT)
    named = registry.find(wanted)
    if around is None:
        if named is None:
            return dict(plan)
        return {**plan, "agent": named.path, "role": _within(named.role, plan.get("role"))}
    if named is not None and not below(around.path, named.path):
        raise BadInput(f"this is agent `{around.id}`, which cannot call as agent `{named.id}`")
    inner = named or around
    path = inner.path
    if named is None and wanted != DEFAULT:
        path = wanted if below(around.path, wanted) else f"{around.path}{BETWEEN}{wanted}"
    return {**plan, "agent": path, "role": _within(inner.role, plan.get("role"))}


def _within(outer: str | None, role: object) -> str | None:
    inner = str(role) if role is not None else None
    if outer is None or inner is None or inner == outer:
        return outer or inner
    return f"{outer}/{inner}"
