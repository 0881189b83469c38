# SPDX-License-Identifier: Apache-2.0
"""The application: reads a request by the table of resources, asks, and says what came of it."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError
from sse_starlette.sse import EventSourceResponse
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from policy.values.validation_text import first, worded
from sandbox.errors import SandboxError
from sandbox.host.dirs import Dirs
from sandbox.text.terminal import safe_line
from sandbox.web.doorway import CONNECTION, Doorway, admitted, refused, visitor_of
from sandbox.web.feed import Feed
from sandbox.web.metrics import Meters
from sandbox.web.openapi import document
from sandbox.web.problems import HttpRefusal, Problem, missing, problem_of
from sandbox.web.resources import NAME, Resource, Site, Visit
from sandbox.web.table import RESOURCES

PING_SECONDS = 15
SEND_SECONDS = 10.0
"""How long a client may leave what it is sent unread before its events end."""
DOCUMENT = "/openapi.json"
METRICS = "/metrics"
OWN = (DOCUMENT, METRICS)
"""Addresses of the API that are no entries of the table; whoever may read may read them."""
_NAME = re.compile(NAME)


Page = Callable[[Site, Callable[[], int | None]], ASGIApp]
"""Makes what is served to browsers, of what its resources share and the port of loopback."""


def application(dirs: Dirs, port: Callable[[], int | None], page: Page | None = None) -> ASGIApp:
    """Return what is served for one state folder; `port` is that of loopback, if any.

    A `page` gets what is asked for over loopback outside of the API.
    """
    site = Site(dirs, Feed(dirs))
    routes = [
        Route(
            resource.path, _endpoint(site, resource), methods=[resource.method], name=resource.name
        )
        for resource in RESOURCES
    ]

    async def openapi(_request: Request) -> Response:
        return JSONResponse(await asyncio.to_thread(_document))

    meters = Meters(dirs)

    async def metrics(_request: Request) -> Response:
        text, kind = await asyncio.to_thread(meters.text)
        return Response(text, media_type=kind)

    routes.append(Route(DOCUMENT, openapi, methods=["GET"]))
    routes.append(Route(METRICS, metrics, methods=["GET"]))
    inner = Starlette(
        routes=routes,
        exception_handlers={
            HTTPException: _not_routed,
            HttpRefusal: _refuse,
            SandboxError: _fail,
            ClientDisconnect: _left,
            Exception: _defect,
        },
    )
    inner.router.redirect_slashes = False
    api = Doorway(inner, dirs, port)
    return api if page is None else _beside(api, page(site, port))


def _beside(api: ASGIApp, page: ASGIApp) -> ASGIApp:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        of_api = scope["type"] != "http" or path in OWN or path.startswith("/v1/")
        of_api = of_api or scope["state"][CONNECTION].is_local  # no browser speaks to a socket
        await (api if of_api else page)(scope, receive, send)

    return serve


@cache
def _document() -> dict[str, Any]:
    return document(RESOURCES)


def _endpoint(site: Site, resource: Resource) -> Callable[[Request], Any]:
    answer: TypeAdapter[Any] | None = (
        None if resource.answer is None or resource.streams else TypeAdapter(resource.answer)
    )

    async def serve(request: Request) -> Response:
        resource.check(visitor_of(request.scope, anew=False))  # before it sends all that it has
        named = {key: checked_name(key, str(value)) for key, value in request.path_params.items()}
        query, body = _query(resource, request), await _body(resource, request)
        visitor = await admitted(resource, request.scope)
        visit = Visit(site, visitor, named, query, body, request.headers)
        if resource.streams:
            return _events(await resource.handler(visit))
        result = await _carried_out(resource, visit, request)
        if answer is None:
            return Response(status_code=204)
        return JSONResponse(answer.dump_python(result, mode="json"))

    return serve


async def _carried_out(resource: Resource, visit: Visit, request: Request) -> Any:
    """Return what comes of a request; a call ends with its client, what a person said does not."""
    work = asyncio.ensure_future(resource.handler(visit))
    if not resource.ends_with_client:
        return await asyncio.shield(work)
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise HttpRefusal(503, "Cancelled", "the client went away", "make the call again")
        return work.result()
    finally:
        gone.cancel()
        if not work.done():
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _events(lines: AsyncIterator[Mapping[str, Any]]) -> Response:
    async def told() -> AsyncIterator[dict[str, str]]:
        async for line in lines:
            yield {
                "id": str(line["n"]),
                "event": str(line.get("event", "record")),
                "data": json.dumps(line),
            }

    return EventSourceResponse(told(), ping=PING_SECONDS, send_timeout=SEND_SECONDS)


def checked_name(what: str, name: str) -> str:
    """Return a name of an address. Raises HttpRefusal where nothing can have it."""
    if _NAME.fullmatch(name) is None:
        raise missing(f"{what} of that name")
    return name


def _query(resource: Resource, request: Request) -> Any:
    given = request.query_params
    if resource.query is None:
        if given:
            raise _bad(f"`{safe_line(next(iter(given)))}` is nothing that this takes")
        return None
    twice = [name for name in given if len(given.getlist(name)) > 1]
    if twice:
        raise _bad(f"`{safe_line(twice[0])}` is given twice")
    try:
        return resource.query.model_validate_strings(dict(given))
    except ValidationError as error:
        raise _bad(safe_line(worded(first(error)))) from None


async def _body(resource: Resource, request: Request) -> Any:
    data = await request.body()
    if resource.body is None:
        if data.strip() not in (b"", b"{}"):
            raise _bad("this takes no fields")
        return None
    if not data:
        return _read(resource.body, b"{}")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HttpRefusal(
            415, "NotJson", "the body is not said to be JSON",
            "send it as `Content-Type: application/json`",
        )  # fmt: skip
    return _read(resource.body, data)


def _read(model: type[BaseModel], data: bytes) -> Any:
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        raise _bad(safe_line(worded(first(error)))) from None


def _bad(message: str) -> HttpRefusal:
    return HttpRefusal(
        400, "BadInput", message, "correct the request; `/openapi.json` says what it may hold"
    )


async def _not_routed(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        problem = Problem(
            kind="NoSuchMethod",
            message="this resource knows no such method",
            instead="`/openapi.json` lists the methods",
        )
    else:
        problem = Problem(
            kind="NotFound",
            message="nothing is served at this address",
            instead="`/openapi.json` lists what is",
        )
    answer = refused(error.status_code, problem)
    answer.headers.update(error.headers or {})
    return answer


async def _refuse(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HttpRefusal)
    return refused(error.status, error.problem)


async def _fail(_request: Request, error: Exception) -> Response:
    assert isinstance(error, SandboxError)
    return refused(*problem_of(error))


async def _left(_request: Request, _error: Exception) -> Response:
    return Response(status_code=400)  # nobody is there to read it


async def _defect(_request: Request, error: Exception) -> Response:
    """Answer for a mistake of ours: the log has it whole, the client nothing of it."""
    traceback.print_exception(error, file=sys.stderr)
    problem = Problem(
        kind="Defect",
        message=f"the server failed: {type(error).__name__}",
        instead="`lockgate log` says what was done; report what `lockgate serve` printed",
    )
    return refused(500, problem)
