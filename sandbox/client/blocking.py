# SPDX-License-Identifier: Apache-2.0
"""Clients of the supervisor process: `BlockingClient`, and `Client` for asyncio.

Both offer the operations of `sandbox.operations` as methods, as the supervisor itself does.
Importing this module is cheap: what is typed by pydantic is imported when a result is made.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sandbox.client import wire
from sandbox.client.connect import Line, connect, reach
from sandbox.errors import Unavailable
from sandbox.host.dirs import Dirs
from sandbox.host.poll import Readable, readable
from sandbox.operations.methods import BlockingOperations
from sandbox.operations.requests import PingRequest, PsRequest, Request, ShutdownRequest

if TYPE_CHECKING:
    from types import TracebackType

    from policy.model import ActionPlan, Decision
    from sandbox.client.async_client import Client as Client
    from sandbox.results import CallResult

R = TypeVar("R")

CANCEL_SECONDS = 10.0
"""How long a cancelled call may take to end before the connection is cut."""

OnInput = Callable[[bytes], object]
OnOutput = Callable[[str, bytes], None]
OnWait = Callable[[str, float], None]
OnAsk = Callable[[wire.Message, Readable], Mapping[str, Any] | None]
"""Takes an `ask` event, and what can be read once the question is settled elsewhere; returns
approved, by, reason, or None where it was settled."""


class Approver(Protocol):
    """Answers gate 1's question: whether a person says yes, and who."""

    def __call__(self, call_id: str, plan: ActionPlan, decision: Decision, /) -> bool: ...


def __getattr__(name: str) -> Any:
    if name == "Client":
        from sandbox.client.async_client import Client

        return Client
    raise AttributeError(name)


class BlockingClient(BlockingOperations):
    """Talks to the supervisor process; a context manager. One request at a time per client."""

    def __init__(self, dirs: Dirs | None = None) -> None:
        self._dirs = dirs or Dirs.default()
        self._line: Line | None = None
        self._number = 0
        self._lock = threading.Lock()

    def __enter__(self) -> BlockingClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def keep_running(self) -> None:
        """Use the supervisor that runs, whatever its version: it knows what it gave out."""
        self._line = self._line or connect(self._dirs)

    def close(self) -> None:
        """Close the connection."""
        if self._line is not None:
            self._line.close()
            self._line = None

    def call(
        self,
        plan: ActionPlan,
        *,
        approver: Approver | None = None,
        stdin: bytes | Readable | None = None,
        env: Mapping[str, str] | None = None,
        on_output: OnOutput | None = None,
        call_id: str | None = None,
    ) -> CallResult:
        """Make a tool call and return its result. Ctrl-C cancels it: nothing of it lands."""
        from sandbox.results import CallResult

        value = self.exchange(
            {"op": "call", "plan": plan.model_dump(mode="json", by_alias=True), "call": call_id}
            | ({"env": dict(env)} if env is not None else {}),
            on_ask=_asking(approver) if approver is not None else None,
            stdin=stdin,
            on_output=on_output,
        )
        return CallResult.model_validate(value)

    def request(self, request: Request[R]) -> R:
        """Make a request of the table of operations and return its result. Raises SandboxError."""
        return request.read(self.ask(request))

    def ask(self, request: Request[Any]) -> Any:
        """Make a request and return the plain value of its result: JSON. Raises SandboxError."""
        return self.exchange(request.message())

    def running(self) -> list[dict[str, Any]]:
        """Return the calls that go on."""
        return list(self.ask(PsRequest())["running"])

    def cells(self) -> list[dict[str, Any]]:
        """Return the cells."""
        return list(self.ask(PsRequest())["cells"])

    def ping(self) -> dict[str, Any]:
        """Return the supervisor's version, code digest, pid and how busy it is."""
        return self.request(PingRequest())

    def shutdown(self, *, force: bool = False) -> bool:
        """End the supervisor process if it runs and is idle, or in any case with `force`."""
        line = self._line or connect(self._dirs)
        if line is None:
            return True
        self._line = line
        try:
            return bool(self.ask(ShutdownRequest(force=force))["ending"])
        finally:
            self.close()

    def exchange(
        self,
        fields: Mapping[str, Any],
        *,
        on_output: OnOutput | None = None,
        on_ask: OnAsk | None = None,
        stdin: bytes | Readable | None = None,
        on_input: OnInput | None = None,
        on_wait: OnWait | None = None,
    ) -> Any:
        """Send one request, `op` and its fields, and return the plain value of its result.

        `on_wait` is told by which call changes wait to land, and for how many seconds.
        `on_input` is told what of `stdin` is sent; the result says how much of it was read.
        On KeyboardInterrupt a call is cancelled, waited for, and the interrupt raised again.
        """
        with self._lock:
            if self._line is None:
                self._line = reach(self._dirs)
            line = self._line
            self._number += 1
            source = _Source(stdin, on_input)
            request = {"id": self._number, **fields}
            if fields["op"] == "call":
                request |= {
                    "output": on_output is not None,
                    "ask": on_ask is not None or fields.get("ask", False),
                    "stdin": stdin is not None,
                }
            try:
                line.send(request)
                return self._follow(line, source, on_output, on_ask, on_wait)
            except KeyboardInterrupt:
                self._cancel(line, on_output)
                raise
            except Unavailable:
                self.close()
                raise

    def _follow(
        self,
        line: Line,
        source: _Source,
        on_output: OnOutput | None,
        on_ask: OnAsk | None,
        on_wait: OnWait | None,
    ) -> Any:
        """Handle events until the request's final one."""
        while True:
            if source.wanted and not line.waiting and source.comes_before(line):
                line.send({"id": self._number, "op": "stdin", "data": wire.pack(source.take())})
                continue
            message = line.receive()
            if message.get("id") not in (self._number, None):
                continue
            match message.get("event"):
                case "output" if on_output is not None:
                    on_output(str(message["stream"]), wire.unpack(message["data"]))
                case "waits" if on_wait is not None:
                    on_wait(str(message["call"]), float(message["seconds"]))
                case "stdin":
                    source.wanted = True
                case "ask":
                    if line.waiting:  # it was settled just now
                        continue
                    answer = {"approved": False} if on_ask is None else on_ask(message, line)
                    if answer is not None:
                        line.send({"id": self._number, "op": "answer", **answer})
                case "result":
                    return message.get("value")
                case "error":
                    raise wire.failure(message)
                case "cancelled":
                    raise Unavailable("the call was cancelled; nothing of it landed")

    def _cancel(self, line: Line, on_output: OnOutput | None) -> None:
        """Cancel the request and wait until the supervisor has ended it; show its last output."""
        try:
            line.send({"id": self._number, "op": "cancel"})
            while line.waiting or readable([line], CANCEL_SECONDS):
                message = line.receive()
                if message.get("event") == "output" and on_output is not None:
                    on_output(str(message["stream"]), wire.unpack(message["data"]))
                if message.get("event") in ("result", "error", "cancelled"):
                    return
            self.close()
        except Unavailable:
            self.close()


class _Source:
    """A call's input, given out piece by piece when the supervisor wants it."""

    def __init__(self, source: bytes | Readable | None, told: OnInput | None) -> None:
        self._told = told
        self._data = source if isinstance(source, bytes) else None
        self._file = None if source is None or isinstance(source, bytes) else source
        self._at = 0
        self.wanted = False

    def comes_before(self, line: Line) -> bool:
        """Wait for input or for a message; True when it is input that can be read."""
        if self._file is None:
            return True
        return line not in readable([line, self._file])

    def take(self) -> bytes:
        """Return the next piece; empty at the end."""
        self.wanted = False
        if self._file is not None:
            try:
                piece = os.read(self._file.fileno(), wire.CHUNK_BYTES)
            except OSError:  # a closed or hung-up input is an ended one
                return b""
            if self._told is not None:
                self._told(piece)
            return piece
        if self._data is None:
            return b""
        piece = self._data[self._at : self._at + wire.CHUNK_BYTES]
        self._at += len(piece)
        return piece


def _asking(approver: Approver) -> OnAsk:
    from policy.model import Decision
    from sandbox.questions.plans import read_plan

    def ask(message: wire.Message, line: Readable) -> Mapping[str, Any]:
        plan = read_plan(message["plan"])
        decision = Decision.model_validate(message["decision"])
        return {"approved": approver(str(message["call"]), plan, decision), "by": "client"}

    return ask
