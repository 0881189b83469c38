# SPDX-License-Identifier: Apache-2.0
"""The processes at the other end of loopback connections, put under watch so that a stop ends them.

A connection's process is looked up in the kernel's tables: a client's own word is not asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import psutil
from starlette.types import ASGIApp, Receive, Scope, Send

from sandbox.errors import SandboxError

_MOST_KNOWN = 4096
"""Connections that are remembered, so that each is looked up once."""


def process_of(port: int, server: int) -> int | None:
    """Return the pid that connected from a loopback port to `server`; None where nobody knows."""
    for connection in psutil.net_connections(kind="tcp4"):
        if (
            connection.laddr
            and connection.raddr
            and (connection.laddr.port, connection.raddr.port) == (port, server)
        ):
            return connection.pid
    return None


class Peers:
    """Serves an application, and has each client's process put under watch before its request."""

    def __init__(self, inner: ASGIApp, server: int, watch: Callable[[int], object]) -> None:
        self._inner = inner
        self._server = server
        self._watch = watch
        self._known: set[int] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        client = scope.get("client")
        if scope["type"] == "http" and client and client[1] not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known.add(client[1])
            await asyncio.to_thread(self._look, client[1])
        await self._inner(scope, receive, send)

    def _look(self, port: int) -> None:
        pid = process_of(port, self._server)
        if pid is not None:
            with contextlib.suppress(SandboxError):  # a stop is told by the answer
                self._watch(pid)
