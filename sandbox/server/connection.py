# SPDX-License-Identifier: Apache-2.0
"""One client's connection to the supervisor process: reads requests, answers each by its id.

When the client goes away its calls are cancelled, so that nothing of theirs lands; what a person
asked for (undo, land, discard, end) is carried out to its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ValidationError

from sandbox.agents.peer import Peer
from sandbox.agents.told_sessions import ToldSessions
from sandbox.audit.store import Store
from sandbox.cells.work import ON_DELAY
from sandbox.client.wire import (
    REQUEST_CHARS,
    SPEAKS_FOR,
    Decoder,
    Message,
    WireError,
    encode,
)
from sandbox.errors import BadInput, SandboxError, Unavailable, say_os_error
from sandbox.operations.reading import read_request
from sandbox.operations.requests import (
    EndRequest,
    HookRequest,
    PingRequest,
    PsRequest,
    Request,
    ShutdownRequest,
    StopRequest,
    UndoRequest,
    WarmRequest,
)
from sandbox.server.state import ServerState
from sandbox.server.tool_call import Line, ToolCall
from sandbox.text.terminal import safe_line
from sandbox.workspaces.registry import Registry

READ_BYTES = 1024 * 1024
MOST_AT_ONCE = 1000
"""Requests of one connection that go on at a time; further ones are refused."""
UNREAD_BYTES = 400 * 1024 * 1024
"""More than the output of one call may come to, whose reader may be a pager."""
DEFECT_CHARS = 300
"""How much of a defect's message a client is told; the log has the whole."""


class Connection:
    """Serves one connection until the client leaves or breaks the agreement."""

    def __init__(
        self,
        server: ServerState,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._server = server
        self.peer = Peer(server.dirs, writer.get_extra_info("socket"))
        self._supervisor = server.supervisor
        self._line = Line(
            self.peer, ToldSessions(server.dirs), Registry(server.dirs), server.tickets, self.send
        )
        self._reader = reader
        self._writer = writer
        self._calls: dict[int, ToolCall] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._gone = asyncio.Event()
        """Set when the client has left."""

    async def serve(self) -> None:
        """Answer requests until the client goes away."""
        self.send(self._server.hello())
        decoder = Decoder(REQUEST_CHARS)
        try:
            while data := await self._reader.read(READ_BYTES):
                for message in decoder.feed(data):
                    self._take(message)
        except WireError as error:
            self.send({"id": None, "event": "error", "kind": "WireError", "message": str(error)})
        except ConnectionError:
            pass
        finally:
            self._gone.set()
            for call in tuple(self._calls.values()):
                call.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            ends = [self._supervisor.request(EndRequest(call)) for call in self._line.tied]
            await asyncio.gather(*ends, return_exceptions=True)  # it may be gone already

    def send(self, message: Message) -> None:
        """Queue a message; one that nobody will read any more is dropped.

        A client that reads nothing is cut off, before what it leaves unread takes all memory.
        """
        if self._writer.is_closing():
            return
        self._writer.write(encode(message))
        if self._writer.transport.get_write_buffer_size() > UNREAD_BYTES:
            self._writer.transport.abort()

    def _take(self, message: Message) -> None:
        number, op = message.get("id"), message.get("op")
        if not isinstance(number, int) or not isinstance(op, str):
            raise WireError("a request has no `id` or no `op`")
        call = self._calls.get(number)
        if op in ("stdin", "answer", "cancel"):
            if call is not None:  # it may have ended meanwhile
                call.take(op, message)
            return
        if call is not None:
            raise WireError(f"id {number} is in use")
        if len(self._tasks) >= MOST_AT_ONCE:
            said = f"{MOST_AT_ONCE} requests of this connection go on; wait until one has ended"
            self.send({"id": number, **_error(BadInput(said))})
            return
        if op == "call":
            call = self._calls[number] = ToolCall(self._line, number)
            call.task = self._start(number, lambda: call.run(self._supervisor, message))
        else:
            self._start(number, lambda: self._serve_one(op, message))

    def _start(self, number: int, work: Callable[[], Awaitable[Any]]) -> asyncio.Task[None]:
        task = asyncio.create_task(self._answer(number, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _answer(self, number: int, work: Callable[[], Awaitable[Any]]) -> None:
        """Do the work of one request and send exactly one final event."""
        self._server.request_begins()
        ON_DELAY.set(lambda why: self.send({"id": number, "event": "delayed", "why": why}))
        final: Message
        try:
            final = {"event": "result", "value": await work()}
        except asyncio.CancelledError:
            final = {"event": "cancelled"}
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            final = _error(BadInput(f"the plan's `{place}`: {first['msg'].lower()}"))
        except SandboxError as error:
            final = _error(error)
        except OSError as error:
            final = _error(Unavailable(safe_line(say_os_error(error))))
        except Exception as error:
            traceback.print_exc()
            sys.stderr.flush()
            what = safe_line(f"{type(error).__name__}: {error}")[:DEFECT_CHARS]
            final = _error(SandboxError(f"the supervisor failed: {what}"))
        finally:
            self._server.request_ends()
            self._calls.pop(number, None)
        self.send({"id": number, **final})
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()

    async def _serve_one(self, op: str, message: Message) -> Any:
        """Carry out a request of the table of operations, as far as its maker may make it."""
        request = read_request(op, message)
        peer = self.peer.speaking_for(message.get(SPEAKS_FOR))
        await asyncio.to_thread(peer.check, request, lambda: self._agent_of(request))
        by = None
        match request:
            case PingRequest():
                return self._server.hello()
            case PsRequest():
                return self._state()
            case HookRequest():
                return await self._answer_hook(request)
            case ShutdownRequest():
                return await self._shut_down(request)
            case WarmRequest() | StopRequest(own=True):
                # The agent is the one that its calls count as.
                caller = await peer.caller()
                request = replace(
                    request, agent=caller.attributed({"agent": request.agent})["agent"]
                )
            case UndoRequest():
                around = await asyncio.to_thread(peer.agent)
                by = None if around is None else around.path
        return _plain(await self._supervisor.request(request, by=by))

    def _state(self) -> Message:
        guardian = self._server.guardian
        return {
            "running": [dict(call) for call in self._supervisor.running()],
            "follow_ups": [dict(work) for work in self._supervisor.follow_ups()],
            "cells": [dict(cell) for cell in self._supervisor.cells()],
            "asking": [dict(question) for question in self._supervisor.asking()],
            "budgets": self._supervisor.budgets(),
            **({"guard": guardian.state()} if guardian is not None else {}),
        }

    async def _answer_hook(self, request: HookRequest) -> Message:
        await asyncio.to_thread(self.peer.agent)  # raises where the peer is gone
        refused = await self._server.why_not()
        printed = await self._server.hooks.answer(
            request.agent,
            request.said,
            peer=self.peer.pid,
            environment=request.environment,
            gone=self._gone,
            refused=refused,
        )
        return {"stdout": printed.stdout, "stderr": printed.stderr, "status": printed.status}

    def _agent_of(self, request: Request[Any]) -> str | None:
        """Return the agent of the call that a request names by its whole id."""
        name = request.named_call()
        with contextlib.suppress(SandboxError, KeyError):
            entry = Store(self._server.dirs).call(str(name))
            agent = entry.agent  # of an undo: who asked for it; none for a person's
            return str(agent) if agent and entry.id == name else None
        return None

    async def _shut_down(self, request: ShutdownRequest) -> Message:
        others = self._server.busy - 1  # this request counts itself
        if others and not request.force:
            lag = await asyncio.to_thread(self._server.freshness.lag)
            return {
                "ending": False,
                "busy": others,
                "calls": self._server.goes_on(),
                "changed": list(lag.changed),
                "why_not": lag.why_not,
            }
        self._server.shut_down()
        return {"ending": True, "busy": others}


def _error(error: SandboxError) -> Message:
    return {"event": "error", "kind": type(error).__name__, "message": str(error)}


def _plain(result: Any) -> Any:
    """Return a result as JSON has it."""
    if isinstance(result, BaseModel):
        return result.model_dump(mode="json")
    return [_plain(each) for each in result] if isinstance(result, tuple) else result
