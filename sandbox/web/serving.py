# SPDX-License-Identifier: Apache-2.0
"""Serves HTTP on a socket of this user, and on loopback where that is asked for."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from sandbox.errors import BadInput, Busy
from sandbox.host.dirs import Dirs
from sandbox.web.app import application
from sandbox.web.doorway import CONNECTION, HOST
from sandbox.web.visitors import Wayfarer

BACKLOG = 128
END_SECONDS = 3
"""How long requests that go on may take when the server is told to end."""
MOST_AT_ONCE = 500
"""Connections and requests; further ones are turned away."""


async def serve_http(dirs: Dirs, *, port: int | None, say: Callable[[str], None]) -> None:
    """Serve until the process is told to end. `port`: also on loopback, 0 for any free one.

    Raises Busy where another one serves, BadInput where the port is taken.
    """
    with _only_one(dirs), contextlib.ExitStack() as stack:
        listeners = [_local(dirs, stack)]
        if port is not None:
            listeners.append(_loopback(port, stack))
        bound = listeners[1].getsockname()[1] if port is not None else None
        config = uvicorn.Config(
            application(dirs, lambda: bound),
            http=_protocol(dirs),
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_level="critical",
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            limit_concurrency=MOST_AT_ONCE,
            timeout_graceful_shutdown=END_SECONDS,
        )
        say(f"serving HTTP on the socket `{dirs.web_socket}`")
        if bound is not None:
            say(f"serving http://{HOST}:{bound}/v1; every request bears the token")
        await uvicorn.Server(config).serve(sockets=listeners)


def _protocol(dirs: Dirs) -> type[asyncio.Protocol]:
    """Return the protocol that looks who is at the other end when a connection is made."""

    class Watched(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            other = Wayfarer(dirs, transport.get_extra_info("socket"))
            self.app_state = {**self.app_state, CONNECTION: other}
            super().connection_made(transport)

    return Watched


@contextlib.contextmanager
def _only_one(dirs: Dirs) -> Iterator[None]:
    """Be the only one that serves this state folder. Raises Busy."""
    held = os.open(dirs.state / "http.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy("another `lockgate serve` serves this user; end it first") from None
        yield
    finally:
        os.close(held)


def _local(dirs: Dirs, stack: contextlib.ExitStack) -> socket.socket:
    """Return a listening socket that only this user can connect to."""
    path = dirs.web_socket
    path.unlink(missing_ok=True)  # whoever holds the lock is the only one
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stack.callback(listener.close)
    mask = os.umask(0o177)
    try:
        listener.bind(str(path))
    finally:
        os.umask(mask)
    inode = path.stat().st_ino
    stack.callback(lambda: path.unlink() if path.exists() and path.stat().st_ino == inode else None)
    listener.listen(BACKLOG)
    return listener


def _loopback(port: int, stack: contextlib.ExitStack) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    stack.callback(listener.close)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(BACKLOG)
    except OSError as error:
        raise BadInput(f"port {port} on {HOST}: {error.strerror}; use --port") from None
    return listener
