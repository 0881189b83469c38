# SPDX-License-Identifier: Apache-2.0
"""The asyncio client of the supervisor process: many calls at once over one connection."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, TypeVar

from policy.model import ActionPlan, Decision
from sandbox.client import wire
from sandbox.client.connect import reach
from sandbox.client.line import Line
from sandbox.errors import SandboxError, Unavailable
from sandbox.host.dirs import Dirs
from sandbox.operations.methods import AsyncOperations
from sandbox.operations.requests import PingRequest, PsRequest, Request, ShutdownRequest
from sandbox.questions.plans import read_plan
from sandbox.results import CallResult

R = TypeVar("R")

READ_BYTES = 1024 * 1024

AsyncApprover = Callable[[str, ActionPlan, Decision], Awaitable[bool]]
Input = AsyncIterator[bytes] | bytes


class Client(AsyncOperations):
    """Talks to the supervisor process; an async context manager, which connects."""

    def __init__(self, dirs: Dirs | None = None) -> None:
        self._dirs = dirs or Dirs.default()
        self._number = 0
        self._line: Line | None = None
        self._queues: dict[int, asyncio.Queue[wire.Message | SandboxError]] = {}
        self._reading: asyncio.Task[None] | None = None
        self._sending = asyncio.Lock()

    async def __aenter__(self) -> Client:
        self._line = await asyncio.to_thread(reach, self._dirs)
        self._line.set_blocking(blocking=False)
        self._reading = asyncio.create_task(self._read(self._line))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        if self._line is not None:
            self._line.close()
            self._line = None

    async def call(
        self,
        plan: ActionPlan,
        *,
        approver: AsyncApprover | None = None,
        stdin: Input | None = None,
        env: Mapping[str, str] | None = None,
        on_output: Callable[[str, bytes], None] | None = None,
        call_id: str | None = None,
        wait: float = 0,
        patience: float = 0,
        tied: bool = False,
        session: str = "",
        speaks_for: str | None = None,
    ) -> CallResult:
        """Make a tool call and return its result. Cancelling the task cancels the call.

        A background call that is `tied` ends when this client goes away. `session` is that of an
        MCP server; of an agent under watch it is known. `speaks_for` names the agent for which the
        call is made, by a door that serves several clients.

        `approver` answers gate 1's question here; without one, `wait` is for how many seconds an
        answer from elsewhere (`lockgate approve`) is waited for. The question stays open then.
        `patience` says the same of what is asked while it runs; default: as long as before it.
        """
        fields: dict[str, Any] = {
            "op": "call",
            "plan": plan.model_dump(mode="json", by_alias=True),
            "call": call_id,
            "ask": approver is not None or wait,
            "patience": patience,
            "output": on_output is not None,
            "stdin": stdin is not None,
            "tied": tied,
            "session": session,
            wire.SPEAKS_FOR: speaks_for,
        }
        if env is not None:
            fields["env"] = dict(env)
        value = await self._exchange(fields, approver, _pieces(stdin), on_output)
        return CallResult.model_validate(value)

    @property
    def alive(self) -> bool:
        """Whether it is connected, as far as is known."""
        return self._reading is not None and not self._reading.done()

    async def request(self, request: Request[R], *, speaks_for: str | None = None) -> R:
        """Make a request of the table of operations and return its result. Raises SandboxError.

        `speaks_for` names the agent for which it is made, by a door that serves several clients.
        """
        fields = {**request.message(), wire.SPEAKS_FOR: speaks_for}
        return request.read(await self._exchange(fields))

    async def running(self) -> list[dict[str, Any]]:
        """Return the calls that go on."""
        return list((await self.request(PsRequest()))["running"])

    async def cells(self) -> list[dict[str, Any]]:
        """Return the cells."""
        return list((await self.request(PsRequest()))["cells"])

    async def ping(self) -> dict[str, Any]:
        """Return the supervisor's version, code digest, pid and how busy it is."""
        return await self.request(PingRequest())

    async def shutdown(self, *, force: bool = False) -> bool:
        """End the supervisor process if it is idle, or in any case with `force`."""
        return bool((await self.request(ShutdownRequest(force=force)))["ending"])

    async def _exchange(
        self,
        fields: Mapping[str, Any],
        approver: AsyncApprover | None = None,
        pieces: AsyncIterator[bytes] | None = None,
        on_output: Callable[[str, bytes], None] | None = None,
    ) -> Any:
        if self._line is None or self._reading is None or self._reading.done():
            raise Unavailable("the client is not connected; use it as `async with Client()`")
        self._number += 1
        number = self._number
        queue = self._queues[number] = asyncio.Queue()
        feeding: set[asyncio.Task[None]] = set()
        try:
            await self._send({"id": number, **fields})
            while True:
                message = await queue.get()
                if isinstance(message, SandboxError):
                    raise message
                match message.get("event"):
                    case "output" if on_output is not None:
                        on_output(str(message["stream"]), wire.unpack(message["data"]))
                    case "stdin":
                        feeding.add(asyncio.create_task(self._feed(number, pieces)))
                    case "ask":
                        await self._answer(number, message, approver)
                    case "result":
                        return message.get("value")
                    case "error":
                        raise wire.failure(message)
                    case "cancelled":
                        raise Unavailable("the call was cancelled; nothing of it landed")
        except asyncio.CancelledError:
            await self._cancel(number, queue)
            raise
        finally:
            for task in feeding:
                task.cancel()
            del self._queues[number]

    async def _cancel(self, number: int, queue: asyncio.Queue[wire.Message | SandboxError]) -> None:
        """Cancel a request and wait until the supervisor has ended it."""
        await self._send({"id": number, "op": "cancel"})
        while True:
            message = await queue.get()
            if isinstance(message, SandboxError):
                return
            if message.get("event") in ("result", "error", "cancelled"):
                return

    async def _answer(
        self, number: int, message: wire.Message, approver: AsyncApprover | None
    ) -> None:
        approved = False
        if approver is not None:
            plan = read_plan(message["plan"])
            decision = Decision.model_validate(message["decision"])
            approved = await approver(str(message["call"]), plan, decision)
        answer = {"id": number, "op": "answer", "approved": approved, "by": "client"}
        await self._send(answer)

    async def _feed(self, number: int, pieces: AsyncIterator[bytes] | None) -> None:
        piece = await anext(pieces, b"") if pieces is not None else b""
        await self._send({"id": number, "op": "stdin", "data": wire.pack(piece)})

    async def _send(self, message: wire.Message) -> None:
        assert self._line is not None
        assert isinstance(self._line.socket, socket.socket)
        async with self._sending:
            try:
                await asyncio.get_running_loop().sock_sendall(
                    self._line.socket, wire.encode(message, wire.REQUEST_CHARS)
                )
            except OSError:
                raise Unavailable("the supervisor went away in the middle") from None

    async def _read(self, line: Line) -> None:
        """Give each message to the request that waits for it, until the supervisor is gone."""
        loop = asyncio.get_running_loop()
        gone = Unavailable("the supervisor went away in the middle")
        assert isinstance(line.socket, socket.socket)
        try:
            while data := await loop.sock_recv(line.socket, READ_BYTES):
                for message in line.decoder.feed(data):
                    number = message.get("id")
                    if isinstance(number, int) and number in self._queues:
                        self._queues[number].put_nowait(message)
        except (OSError, SandboxError):
            pass
        finally:
            for queue in self._queues.values():
                queue.put_nowait(gone)


async def _pieces(source: Input | None) -> AsyncIterator[bytes]:
    """Yield a call's input in pieces that fit a message; never an empty one before the end."""
    if source is None:
        return
    if isinstance(source, bytes):
        for at in range(0, len(source), wire.CHUNK_BYTES):
            yield source[at : at + wire.CHUNK_BYTES]
        return
    async for piece in source:
        for at in range(0, len(piece), wire.CHUNK_BYTES):
            yield piece[at : at + wire.CHUNK_BYTES]
