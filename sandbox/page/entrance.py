# SPDX-License-Identifier: Apache-2.0
"""What every request of a browser passes: address, origin, whose process it is, who was let in.

INVARIANT (P8, "no agent's browser"): a process that belongs to an agent, or is not known, is shown
nothing and answers nothing, whatever it bears.
"""

from __future__ import annotations

from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sandbox.errors import SandboxError
from sandbox.page.logins import Login, Logins
from sandbox.web.doorway import (
    CONNECTION,
    VISITOR,
    check_address,
    headers_of,
    limited_body,
    visitor_at,
)
from sandbox.web.problems import HttpRefusal, refusal_of
from sandbox.web.resources import nobodys

LOGIN = "lockgate.login"
"""Where a request has the browser that it is from."""
OPEN = ("/login", "/static/")
"""Addresses that need no login: to log in, and what looks the same for everybody."""
MOST_FIELDS = 10_000
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", _POLICY.encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)

Failure = Callable[[Request, HttpRefusal], Any]


class Entrance:
    """Lets browsers in to an application."""

    def __init__(
        self, app: ASGIApp, logins: Logins, port: Callable[[], int | None], failure: Failure
    ) -> None:
        """`failure` returns the page that says why one is not let in."""
        self._app = app
        self._logins = logins
        self._port = port
        self._failure = failure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *_HEADERS]}
            await send(message)

        try:
            await self._let_in(scope)
        except HttpRefusal as refusal:
            await self._failure(Request(scope), refusal)(scope, receive, guarded)
            return
        except SandboxError as error:
            await self._failure(Request(scope), refusal_of(error))(scope, receive, guarded)
            return
        await self._app(scope, limited_body(receive), guarded)

    async def _let_in(self, scope: Scope) -> None:
        headers = headers_of(scope)
        state = scope["state"]
        state[LOGIN] = None
        check_address(headers, self._port(), local=False)
        visitor = await visitor_at(state[CONNECTION])
        if visitor.agent is not None:
            raise HttpRefusal(
                403, "PersonsDecision", f"this browser belongs to agent `{visitor.agent.id}`",
                "open the page in a browser that no agent started",
            )  # fmt: skip
        if visitor.unseen:
            raise nobodys(visitor)
        if not visitor.is_person:
            raise HttpRefusal(
                403, "NobodysProcess", "the process of this browser is not known, or an agent's",
                "open the page in a browser that you started yourself, on this host",
            )  # fmt: skip
        login = self._logins.find(cookie_of(headers, self._port()))
        if login is not None:
            visitor = visitor.bearing()
        elif not scope["path"].startswith(OPEN):
            raise HttpRefusal(
                401, "NoLogin", "this browser is not logged in, or not any more",
                "type `lockgate ui` in a terminal and open the link that it prints",
            )  # fmt: skip
        state[LOGIN], state[VISITOR] = login, visitor


def cookie_name(port: int | None) -> str:
    """Return the name of the cookie; ports of one host share their cookies."""
    return f"lockgate-{port}"


def cookie_of(headers: dict[bytes, bytes], port: int | None) -> str | None:
    """Return the cookie of a browser that was let in, as it says."""
    try:
        read = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1"))
    except CookieError:
        return None
    found = read.get(cookie_name(port))
    return None if found is None else found.value


def login_of(request: Request) -> Login:
    """Return the browser that a request is from; it was let in."""
    login = request.scope["state"][LOGIN]
    assert isinstance(login, Login)
    return login


async def form_of(request: Request) -> list[tuple[str, str]]:
    """Return the fields of a form of ours. Raises HttpRefusal for any other."""
    data = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind != "application/x-www-form-urlencoded":
            raise ValueError
        fields = parse_qsl(
            data.decode("ascii"), keep_blank_values=True, strict_parsing=True,
            max_num_fields=MOST_FIELDS, errors="strict",
        )  # fmt: skip
    except ValueError:
        raise HttpRefusal(
            400, "BadInput", "the form cannot be read", "go back and send it again"
        ) from None
    word = dict(fields).get("word", "")
    if request.headers.get("origin") is None or not login_of(request).is_form_word(word):
        raise HttpRefusal(
            403, "WrongOrigin", "the form is not one that this page gave to this browser",
            "load the page again and answer there",
        )  # fmt: skip
    return fields
