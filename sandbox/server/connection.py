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
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from policy.model import ActionPlan, Decision
from sandbox.agents.peer import Peer
from sandbox.audit.store import Store
from sandbox.client.wire import (
    CHUNK_BYTES,
    REQUEST_CHARS,
    Decoder,
    Message,
    WireError,
    encode,
    pack,
    unpack,
)
from sandbox.errors import BadInput, SandboxError
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
from sandbox.questions.plans import Standing, plan_of
from sandbox.results import Ending
from sandbox.text.terminal import safe_line
from sandbox.workspaces.registry import Registry

if TYPE_CHECKING:
    from sandbox.server.server import Server, Supervising

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
        server: Server,
        supervisor: Supervising,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._server = server
        self.registry = Registry(server.dirs)
        self.tickets = server.tickets
        self.peer = Peer(server.dirs, writer.get_extra_info("socket"))
        self._supervisor = supervisor
        self._reader = reader
        self._writer = writer
        self._calls: dict[int, _Call] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.tied: set[str] = set()
        """Background calls that end with the connection: nobody else would end them."""

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
            for call in tuple(self._calls.values()):
                call.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            ends = [self._supervisor.request(EndRequest(call)) for call in self.tied]
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
            call = self._calls[number] = _Call(self, number)
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
        await asyncio.to_thread(self.peer.check, request, lambda: self._agent_of(request))
        by = None
        match request:
            case PingRequest():
                return self._server.hello()
            case PsRequest():
                return self._state()
            case HookRequest():
                return await self._answer_hook(request)
            case ShutdownRequest():
                return self._shut_down(request)
            case WarmRequest() | StopRequest(own=True):
                # The agent is the one that its calls count as.
                caller = await self.peer.caller()
                request = replace(
                    request, agent=caller.attributed({"agent": request.agent})["agent"]
                )
            case UndoRequest():
                around = await asyncio.to_thread(self.peer.agent)
                by = None if around is None else around.path
        return _plain(await self._supervisor.request(request, by=by))

    def _state(self) -> Message:
        guardian = self._server.guardian
        return {
            "running": [dict(call) for call in self._supervisor.running()],
            "cells": [dict(cell) for cell in self._supervisor.cells()],
            **({"guard": guardian.state()} if guardian is not None else {}),
        }

    async def _answer_hook(self, request: HookRequest) -> Message:
        await asyncio.to_thread(self.peer.agent)  # raises where the peer is gone
        printed = await self._server.hooks.answer(
            request.agent, request.said, peer=self.peer.pid, environment=request.environment
        )
        return {"stdout": printed.stdout, "stderr": printed.stderr, "status": printed.status}

    def _agent_of(self, request: Request[Any]) -> str | None:
        """Return the agent of the call that a request names by its whole id."""
        name = request.named_call()
        with contextlib.suppress(SandboxError, KeyError):
            entry = Store(self._server.dirs).call(str(name))
            agent = entry["agent"]  # of an undo: who asked for it; none for a person's
            return str(agent) if agent and entry["id"] == name else None
        return None

    def _shut_down(self, request: ShutdownRequest) -> Message:
        others = self._server.busy - 1  # this request counts itself
        if others and not request.force:
            return {"ending": False, "busy": others}
        self._server.shut_down()
        return {"ending": True, "busy": others}


class _Call:
    """One tool call on its way: its task, its input, and the question that waits for an answer."""

    def __init__(self, connection: Connection, number: int) -> None:
        self._connection = connection
        self._number = number
        self._input: asyncio.Queue[bytes] = asyncio.Queue()
        self._answer: asyncio.Future[Message] | None = None
        self.task: asyncio.Task[None] | None = None

    def take(self, op: str, message: Message) -> None:
        """Take what the client sends while the call goes on."""
        if op == "cancel":
            self.cancel()
        elif op == "stdin":
            self._input.put_nowait(unpack(message.get("data")))
        elif self._answer is not None and not self._answer.done():
            self._answer.set_result(message)

    def cancel(self) -> None:
        """Cancel the call: its processes end and nothing of it lands."""
        if self.task is not None:
            self.task.cancel()

    async def run(self, supervisor: Supervising, message: Message) -> Message:
        """Run the call to its end and return the result for the client."""
        if "ticket" in message:
            return await self._redeem(supervisor, message)
        plan = plan_of(
            message.get("plan"),
            await self._connection.peer.caller(),
            _standing(message, self._connection.registry),
        )
        result = await supervisor.call(
            plan,
            approver=await self._approver(message.get("ask")),
            stdin=self._stdin() if message.get("stdin") is True else None,
            env=_environment(message.get("env")),
            on_output=self._output if message.get("output") is True else None,
            call_id=message.get("call"),
        )
        if result.ending is Ending.RUNNING and message.get("tied") is True:
            self._connection.tied.add(result.id)
        without = {"stdout", "stderr"} if message.get("text") is False else None
        return result.model_dump(mode="json", exclude=without)

    async def _redeem(self, supervisor: Supervising, message: Message) -> Message:
        """Make a call that a hook admitted; a background one is listened to until it ends."""
        admission = self._connection.tickets.take(_text(message, "ticket"))
        result = await supervisor.redeem(
            admission,
            stdin=self._stdin() if message.get("stdin") is True else None,
            on_output=self._output if message.get("output") is True else None,
        )
        if result.ending is Ending.RUNNING:
            result = await supervisor.attach(result.id, self._output)
        without = {"stdout", "stderr"} if message.get("text") is False else None
        return result.model_dump(mode="json", exclude=without)

    async def _approver(self, ask: object) -> Any:
        """Return who answers: the client (`true`), somebody elsewhere (`"wait"`, or for so many
        seconds), or nobody. The word of an agent's own client counts for nothing (P8)."""
        from sandbox.approvals.approver import nobody
        from sandbox.approvals.desk import patient, waiting

        if ask is True:
            around = await asyncio.to_thread(self._connection.peer.agent)
            return self._ask if around is None else nobody
        if isinstance(ask, int | float) and ask > 0:
            return patient(float(ask))
        return waiting if ask == "wait" else nobody

    def _send(self, event: str, **fields: Any) -> None:
        self._connection.send({"id": self._number, "event": event, **fields})

    def _output(self, stream: str, data: bytes) -> None:
        for at in range(0, len(data), CHUNK_BYTES):
            self._send("output", stream=stream, data=pack(data[at : at + CHUNK_BYTES]))

    async def _ask(self, call_id: str, plan: ActionPlan, decision: Decision) -> Any:
        from sandbox.approvals.approver import Answer

        self._answer = asyncio.get_running_loop().create_future()
        self._send(
            "ask",
            call=call_id,
            plan=plan.model_dump(mode="json", by_alias=True),
            decision=decision.model_dump(mode="json"),
        )
        said = await self._answer
        return Answer(
            approved=said.get("approved") is True,
            by=str(said.get("by", "")),
            reason=str(said.get("reason", "")),
        )

    async def _stdin(self) -> AsyncIterator[bytes]:
        """Yield the client's input, asking for each piece only when it is wanted."""
        while True:
            self._send("stdin")
            data = await self._input.get()
            if not data:
                return
            yield data


def _standing(message: Message, registry: Registry) -> Standing | None:
    """Return where the client stands; None: its plan names workspace and folder itself."""
    if "here" not in message:
        return None
    here = message["here"]
    return Standing.registered(registry, here if isinstance(here, str) else None)


def _error(error: SandboxError) -> Message:
    return {"event": "error", "kind": type(error).__name__, "message": str(error)}


def _text(message: Message, key: str) -> str:
    value = message.get(key)
    if not isinstance(value, str):
        raise BadInput(f"`{key}` is not given as text")
    return value


def _plain(result: Any) -> Any:
    """Return a result as JSON has it."""
    if isinstance(result, BaseModel):
        return result.model_dump(mode="json")
    return [_plain(each) for each in result] if isinstance(result, tuple) else result


def _environment(value: object) -> dict[str, str] | None:
    if value is None:
        return None
    if isinstance(value, dict) and all(isinstance(one, str) for one in value.values()):
        return {str(key): one for key, one in value.items()}
    raise BadInput("`env` is not given as names and texts")
