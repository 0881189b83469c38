# SPDX-License-Identifier: Apache-2.0
"""The application: which address shows what, how one logs in, and how it fails."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from jinja2 import Environment
from sse_starlette.sse import EventSourceResponse
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from sandbox.errors import SandboxError
from sandbox.page import approvals, held, history, now, rules, sessions
from sandbox.page.asking import Fields, PageRequest
from sandbox.page.entrance import (
    LOGIN,
    Entrance,
    cookie_name,
    cookie_of,
    form_of,
    login_of,
)
from sandbox.page.links import use_link
from sandbox.page.logins import Logins
from sandbox.page.showing import environment
from sandbox.web.app import PING_SECONDS, SEND_SECONDS
from sandbox.web.doorway import headers_of
from sandbox.web.problems import HttpRefusal, refusal_of
from sandbox.web.resources import Site

Look = Callable[[PageRequest], Awaitable[Response]]
Deed = Callable[[PageRequest, Fields], Awaitable[Response]]
LOOKS: dict[str, Look] = {
    "/": now.show_now,
    "/alert": now.show_alert,
    "/approvals": approvals.show_approvals,
    "/approvals/{call}": approvals.show_approvals,
    "/history": history.show_history,
    "/calls/{call}": history.show_call,
    "/calls/{call}/undo": history.show_undo,
    "/sessions": sessions.show_sessions,
    "/session": sessions.show_session,
    "/session/undo": sessions.show_undo_all,
    "/held": held.show_held,
    "/held/{call}": held.show_one,
    "/policy": rules.show_policy,
    "/record": rules.show_record,
}
"""What is shown, by address."""
DEEDS: dict[str, Deed] = {
    "/stop": now.stop,
    "/resume": now.resume,
    "/approvals/{call}/approve": approvals.approve,
    "/approvals/{call}/deny": approvals.deny,
    "/grants/{grant}/revoke": approvals.revoke,
    "/calls/{call}/undo": history.undo,
    "/calls/{call}/end": history.end,
    "/session/undo": sessions.undo_all,
    "/held/{call}/land": held.land,
    "/held/{call}/discard": held.discard,
}
"""What a form does, by address. No other address changes anything."""
_INSTEAD = {
    "NotFound": "go back to the list; it may be gone by now",
    "NotOpen": "look at what waits now",
    "BadInput": "go back and correct it",
    "Stopped": "a stop is in force; the bar above ends it",
}
_TITLES = {
    401: "Log in", 403: "Not from here", 404: "Not there", 409: "Not open any more",
    421: "Wrong address", 423: "Stopped", 500: "A mistake of ours",
}  # fmt: skip


def page_application(site: Site, port: Callable[[], int | None]) -> ASGIApp:
    """Return what is served to browsers over loopback."""
    templates, logins = environment(), Logins()

    def failure(request: Request, refusal: HttpRefusal) -> Response:
        return _failed(templates, request, refusal)

    async def enter(request: Request) -> Response:
        if request.method != "GET":  # what looks ahead at a link does not use it up
            return Response(status_code=204)
        cookie = cookie_of(headers_of(request.scope), port())
        if logins.find(cookie) is None:
            if not use_link(site.dirs, request.query_params.get("link", "")):
                raise HttpRefusal(
                    401, "NoLogin", "this link was used already, is too old, or is no link",
                    "type `lockgate ui` in a terminal and open the link that it prints",
                )  # fmt: skip
            cookie = logins.begin()
        answer = RedirectResponse("/", 303)
        answer.set_cookie(cookie_name(port()), cookie or "", httponly=True, samesite="strict")
        return answer

    async def leave(request: Request) -> Response:
        await form_of(request)
        logins.end(cookie_of(headers_of(request.scope), port()))
        return RedirectResponse("/", 303)

    async def events(request: Request) -> Response:
        lines = site.feed.listen(None)

        async def stream() -> Any:
            async for _ in lines:
                yield {"event": "changed", "data": "1"}

        return EventSourceResponse(stream(), ping=PING_SECONDS, send_timeout=SEND_SECONDS)

    def look(show: Look) -> Callable[[Request], Awaitable[Response]]:
        async def serve(request: Request) -> Response:
            return await show(PageRequest(site, templates, request))

        return serve

    def deed(do: Deed) -> Callable[[Request], Awaitable[Response]]:
        async def serve(request: Request) -> Response:
            fields = await form_of(request)
            return await do(PageRequest(site, templates, request), fields)

        return serve

    async def not_routed(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        refusal = HttpRefusal(
            error.status_code, "NotFound", "there is no such page", "use the links above"
        )
        return failure(request, refusal)

    async def refuse(request: Request, error: Exception) -> Response:
        assert isinstance(error, HttpRefusal)
        return failure(request, error)

    async def fail(request: Request, error: Exception) -> Response:
        assert isinstance(error, SandboxError)
        return failure(request, refusal_of(error))

    async def defect(request: Request, error: Exception) -> Response:
        traceback.print_exception(error, file=sys.stderr)
        return failure(
            request,
            HttpRefusal(
                500, "Defect", f"the server failed: {type(error).__name__}",
                "`lockgate log` says what was done; report what the server printed",
            ),
        )  # fmt: skip

    inner = Starlette(
        routes=[
            Route("/login", enter, methods=["GET"]),
            Route("/logout", leave, methods=["POST"]),
            Route("/events", events, methods=["GET"]),
            *(Route(path, look(show), methods=["GET"]) for path, show in LOOKS.items()),
            *(Route(path, deed(do), methods=["POST"]) for path, do in DEEDS.items()),
            Mount("/static", StaticFiles(directory=Path(__file__).parent / "static")),
        ],
        exception_handlers={
            HTTPException: not_routed,
            HttpRefusal: refuse,
            SandboxError: fail,
            Exception: defect,
        },
    )
    inner.router.redirect_slashes = False
    return Entrance(inner, logins, port, failure)


def _failed(templates: Environment, request: Request, refusal: HttpRefusal) -> Response:
    problem = refusal.problem
    there = request.scope["state"].get(LOGIN) is not None
    text = templates.get_template("failed.html").render(
        title=_TITLES.get(refusal.status, "That did not work"),
        message=problem.message,
        instead=_INSTEAD.get(problem.kind, problem.instead),
        there=there,
        word=login_of(request).form_word if there else "",
        news=(),
        path="",
    )
    return HTMLResponse(text, refusal.status)
