# SPDX-License-Identifier: Apache-2.0
"""What every request passes before anything else looks at it: address, origin, size, token.

No other origin is ever permitted, and no page elsewhere reaches this server by a name of its own:
the Host of a request over loopback must be the address that is served.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sandbox.errors import SandboxError
from sandbox.host.dirs import Dirs
from sandbox.processes.loopback import HOST
from sandbox.web.problems import HttpRefusal, Problem, problem_of
from sandbox.web.resources import Resource
from sandbox.web.tokens import WrongTries, bears_token
from sandbox.web.visitors import Visitor, Wayfarer

MOST_BODY_BYTES = 4 * 1024 * 1024
CONNECTION = "lockgate.connection"
"""Where the state of a connection has its other end."""
VISITOR = "lockgate.visitor"
"""Where a request has whose it is."""
_BEARER = b"Bearer "
HEADERS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
"""What every answer of the API bears."""


class Doorway:
    """Lets requests in to an application, each with whose it is."""

    def __init__(self, app: ASGIApp, dirs: Dirs, port: Callable[[], int | None]) -> None:
        """`port` is that of loopback, None where it is not served."""
        self._app = app
        self._dirs = dirs
        self._port = port
        self._wrong = WrongTries()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. A websocket is none that is served, so it is closed unseen."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *HEADERS]}
            await send(message)

        try:
            scope.setdefault("state", {})[VISITOR] = await self._let_in(scope)
        except HttpRefusal as refusal:
            await refused(refusal.status, refusal.problem)(scope, receive, guarded)
            return
        except SandboxError as error:
            await refused(*problem_of(error))(scope, receive, guarded)
            return
        await self._app(scope, limited_body(receive), guarded)

    async def _let_in(self, scope: Scope) -> Visitor:
        wayfarer: Wayfarer = scope["state"][CONNECTION]
        headers = headers_of(scope)
        check_address(headers, self._port(), local=wayfarer.is_local)
        visitor = await visitor_at(wayfarer)
        said = headers.get(b"authorization")
        if said is not None:
            return self._with_token(visitor, said)
        if not wayfarer.is_local:
            raise _no_token("over loopback every request bears the token")
        return visitor

    def _with_token(self, visitor: Visitor, said: bytes) -> Visitor:
        who = visitor.root
        if wait := self._wrong.wait(who):
            raise HttpRefusal(
                429, "TooManyTries", "too many wrong tokens came from this process",
                f"try again in {wait:.0f} s, with the token",
            )  # fmt: skip
        if said.startswith(_BEARER) and bears_token(self._dirs, said[len(_BEARER) :].strip()):
            return visitor.bearing()
        self._wrong.note(who)
        raise _no_token("the token is wrong")


def check_address(headers: dict[bytes, bytes], port: int | None, *, local: bool) -> None:
    """Raise HttpRefusal for a request to another host, from a page of elsewhere, or too large.

    `local`: it comes over the socket, where a Host says nothing.
    """
    names = [f"{name}:{port}".encode() for name in (HOST, "localhost")]
    if not local and headers.get(b"host", b"").lower() not in names:
        raise HttpRefusal(
            421, "WrongHost", "the request is for another host",
            f"send it to {HOST}, with that as its Host",
        )  # fmt: skip
    site = headers.get(b"sec-fetch-site")
    origin = headers.get(b"origin")
    own = not local and (
        origin in [b"http://" + name for name in names]
        or (origin == b"null" and site == b"same-origin")  # of a page that sends no referrer
    )
    if (origin is not None and not own) or site in (b"cross-site", b"same-site"):
        raise HttpRefusal(
            403, "WrongOrigin", "the request comes from a page of elsewhere",
            "make it from a program, or from a page of this server",
        )  # fmt: skip
    length = headers.get(b"content-length", b"0")
    if not length.isdigit() or int(length) > MOST_BODY_BYTES:
        raise _too_large()


def refused(status: int, problem: Problem) -> JSONResponse:
    """Return the response of a refusal."""
    more = {"www-authenticate": 'Bearer realm="lockgate"'} if status == 401 else None
    return JSONResponse(problem.model_dump(), status, more)


def not_http() -> JSONResponse:
    """Return the answer to what cannot be read as HTTP."""
    problem = Problem(
        kind="BadInput",
        message="the request is no HTTP that can be read",
        instead="correct its first line and its headers",
    )
    return refused(400, problem)


def _no_token(why: str) -> HttpRefusal:
    return HttpRefusal(
        401, "NoToken", why, "send `Authorization: Bearer TOKEN`; `lockgate serve` showed it, and "
        "`lockgate serve --new-token` makes another",
    )  # fmt: skip


def _too_large() -> HttpRefusal:
    return HttpRefusal(
        413, "TooLarge", f"the body has more than {MOST_BODY_BYTES} bytes", "send less at once"
    )


def limited_body(receive: Receive) -> Receive:
    """Return the same source of a body, which ends with a refusal where it is too long."""
    count = 0

    async def limited() -> Message:
        nonlocal count
        message = await receive()
        if message["type"] == "http.request":
            count += len(message.get("body", b""))
            if count > MOST_BODY_BYTES:
                raise _too_large()
        return message

    return limited


def headers_of(scope: Scope) -> dict[bytes, bytes]:
    """Return the headers by name. One that must stand once and does not is no header at all."""
    found: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        found[name] = value if name not in found else found[name] + b", " + value
    return found


def visitor_of(scope: Any, *, anew: bool) -> Visitor:
    """Return whose request it is; `anew`: by a new look at its processes."""
    state = scope["state"]
    first: Visitor = state[VISITOR]
    if not anew:
        return first
    now: Visitor = state[CONNECTION].visitor(anew=True)
    return now.bearing() if first.token else now


async def visitor_at(wayfarer: Wayfarer) -> Visitor:
    """Return who is at the other end of a connection. Raises HttpRefusal for another user."""
    visitor = await asyncio.to_thread(wayfarer.visitor, anew=False)
    if visitor.of_other_user:
        raise HttpRefusal(
            403, "NotYours", "this serves the user who started it alone", "start your own"
        )
    return visitor


async def admitted(resource: Resource, scope: Any) -> Visitor:
    """Return whose request it is, where it may ask for a resource. Raises HttpRefusal.

    INVARIANT (P8, "whoever asks now"): call it when all of the request is there. A connection may
    have been handed to another process since its first line came.
    """
    visitor = await asyncio.to_thread(visitor_of, scope, anew=resource.asks_whose)
    resource.check(visitor)
    return visitor
