# SPDX-License-Identifier: Apache-2.0
"""MCP over streamable HTTP: loopback alone, a bearer token, Origin and Host checked."""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Callable
from pathlib import Path

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp, Receive, Scope, Send

from sandbox.errors import BadInput
from sandbox.host.dirs import Dirs
from sandbox.mcp.peers import Peers
from sandbox.mcp.server import Tools, build
from sandbox.mcp.session import Door

HOST = "127.0.0.1"
PATH = "/mcp"
_BACKLOG = 128
_BODY_BYTES = 16 * 1024 * 1024
_TOKEN_BYTES = 32


def token_file(dirs: Dirs) -> Path:
    """Return the file that holds the token; it is made when it is not there (mode 0600)."""
    path = dirs.state / "mcp.token"
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        if path.stat().st_mode & 0o077:
            raise BadInput(
                f"`{path}` can be read by others; remove it, a new one is made"
            ) from None
        if len(path.read_bytes().strip()) < _TOKEN_BYTES:  # its making was cut off
            raise BadInput(f"`{path}` holds no token; remove it, a new one is made") from None
        return path
    with os.fdopen(fd, "w") as file:
        file.write(secrets.token_urlsafe(_TOKEN_BYTES) + "\n")
    return path


class Guarded:
    """Refuses whoever does not bear the token (401) before anything else looks at a request."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._wanted = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. A websocket is none that is served, so it is closed unseen."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "lifespan":
            said = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(said, self._wanted):
                await _refuse(send)
                return
        await self._app(scope, receive, send)


async def _refuse(send: Send) -> None:
    body = b'{"error":"invalid_token"}'
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"www-authenticate", b'Bearer realm="lockgate"'),
    ]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def app(
    door: Door,
    token: str,
    port: int,
    watch: Callable[[int], object] | None,
    tools: Tools = "work",
) -> ASGIApp:
    """Return the application for one port; `watch` is told the pid of each client."""
    names = [f"{host}:{port}" for host in (HOST, "localhost")]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=names,
        allowed_origins=[f"http://{name}" for name in names],
    )
    inner = build(door, tools=tools).streamable_http_app(
        streamable_http_path=PATH,
        transport_security=security,
        max_request_body_size=_BODY_BYTES,
        host=HOST,
    )
    return Guarded(Peers(inner, port, watch) if watch is not None else inner, token)


async def serve_http(
    door: Door,
    *,
    port: int,
    say: Callable[[str], None],
    watch: Callable[[int], object] | None = None,
    tools: Tools = "work",
) -> None:
    """Serve until the process is told to end. Raises BadInput where the port is taken."""
    import socket

    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(_BACKLOG)  # whoever is told the address may connect at once
    except OSError as error:
        listener.close()
        raise BadInput(f"port {port} on {HOST}: {error.strerror}; use --port") from None
    bound = listener.getsockname()[1]
    path = token_file(door.dirs)
    config = uvicorn.Config(
        app(door, path.read_text("ascii").strip(), bound, watch, tools),
        log_level="warning",
        lifespan="on",
        timeout_graceful_shutdown=5,
    )
    say(f"serving http://{HOST}:{bound}{PATH}; the token is in {path}")
    await uvicorn.Server(config).serve(sockets=[listener])
