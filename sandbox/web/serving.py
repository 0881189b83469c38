# SPDX-License-Identifier: Apache-2.0
"""Serves HTTP on a socket of this user, and on loopback where that is asked for."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from sandbox.errors import Busy, Unavailable
from sandbox.host import files as own_files
from sandbox.host.dirs import Dirs
from sandbox.processes.loopback import HOST, listen_on
from sandbox.processes.scarcity import most_connections, raise_open_files
from sandbox.web.app import Page, application
from sandbox.web.doorway import CONNECTION, HEADERS, not_http
from sandbox.web.visitors import Wayfarer

BACKLOG = 128
END_SECONDS = 3
"""How long requests that go on may take when the server is told to end."""
HEAD_SECONDS = 10.0
"""How long a connection may take until the head of a request is there."""


async def serve_http(
    dirs: Dirs,
    *,
    port: int | None,
    say: Callable[[str], None],
    page: Page | None = None,
    ready: Callable[[int], None] = lambda _: None,
) -> None:
    """Serve until the process is told to end. `port`: also on loopback, 0 for any free one.

    `page` is served there too, beside the API; `ready` is told the port. Raises Busy where another
    one serves, BadInput where the port is taken.
    """
    raise_open_files()
    with _only_one(dirs), contextlib.ExitStack() as stack:
        listeners = [_local(dirs, stack)]
        if port is not None:
            listener = listen_on(port, "use --port")
            stack.callback(listener.close)
            listeners.append(listener)
        bound = listeners[1].getsockname()[1] if port is not None else None
        config = uvicorn.Config(
            application(dirs, lambda: bound, page),
            http=_protocol(dirs),
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_level="critical",
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=END_SECONDS,
        )
        if bound is not None:  # before anybody is told of it
            stack.callback(_port_file(dirs).unlink, missing_ok=True)
            own_files.write(_port_file(dirs), f"{bound}\n")
        say(f"serving HTTP on the socket `{dirs.web_socket}`")
        if bound is not None:
            say(f"serving http://{HOST}:{bound}/v1; every request bears the token")
            ready(bound)
        await uvicorn.Server(config).serve(sockets=listeners)


def is_served(dirs: Dirs) -> bool:
    """Whether a server of this state folder runs."""
    try:
        with _only_one(dirs):
            return False
    except Busy:
        return True


def served_port(dirs: Dirs) -> int | None:
    """Return the port of loopback that the server which runs is at; None: it is at none."""
    try:
        return int(own_files.read(_port_file(dirs)))
    except (OSError, ValueError):
        return None


def _port_file(dirs: Dirs) -> Path:
    return dirs.runtime / "http.port"


def _protocol(dirs: Dirs) -> type[asyncio.Protocol]:
    """Return the protocol that looks who is at the other end when a connection is made."""

    room = {True: most_connections() // 2, False: most_connections() // 4}
    """How many connections more may come, by whether they come over this user's own socket."""

    class Watched(H11Protocol):
        taken = False

        def connection_made(self, transport: Any) -> None:
            connection = transport.get_extra_info("socket")
            self.is_local = connection.family == socket.AF_UNIX
            super().connection_made(transport)
            if not room[self.is_local]:
                transport.abort()
                return
            try:
                other = Wayfarer(dirs, connection)
            except Unavailable:
                transport.abort()
                return
            room[self.is_local] -= 1
            self.taken = True
            self.app_state = {**self.app_state, CONNECTION: other}
            self.loop.call_later(HEAD_SECONDS, self._end_silent)

        def _end_silent(self) -> None:
            """Close a connection over which no whole request has begun."""
            if self.cycle is None and not self.transport.is_closing():
                self.transport.close()

        def send_400_response(self, msg: str) -> None:
            """Refuse what is no HTTP as everything else is refused."""
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                data = bytes(not_http().body)
                head = [
                    (b"content-type", b"application/json"), (b"connection", b"close"),
                    (b"content-length", b"%d" % len(data)), *HEADERS,
                ]  # fmt: skip
                for event in (
                    h11.Response(status_code=400, headers=head, reason=b"Bad Request"),
                    h11.Data(data=data),
                    h11.EndOfMessage(),
                ):
                    self.transport.write(self.conn.send(event) or b"")
            self.transport.close()

        def connection_lost(self, exc: Exception | None) -> None:
            if self.taken:
                self.taken = False
                room[self.is_local] += 1
            super().connection_lost(exc)

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
