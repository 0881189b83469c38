# SPDX-License-Identifier: Apache-2.0
"""Clients of the supervisor process: `BlockingClient`, and `Client` for asyncio.

Both offer the operations of `sandbox.operations` as methods, as the supervisor itself does.
Importing this module is cheap: what is typed by pydantic is imported when a result is made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sandbox.client.connect import connect, reach
from sandbox.client.exchange import Exchange
from sandbox.errors import Unavailable
from sandbox.host.dirs import Dirs
from sandbox.operations.methods import BlockingOperations
from sandbox.operations.requests import PingRequest, PsRequest, Request, ShutdownRequest

if TYPE_CHECKING:
    from types import TracebackType

    from policy.model import ActionPlan, Decision
    from sandbox.client import wire
    from sandbox.client.async_client import Client as Client
    from sandbox.client.exchange import OnAsk, OnInput, OnOutput, OnWait
    from sandbox.client.line import Line
    from sandbox.host.poll import Readable
    from sandbox.results import CallResult

R = TypeVar("R")


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

    def __init__(
        self,
        dirs: Dirs | None = None,
        *,
        notify: Callable[[str], object] | None = None,
        wait_seconds: float = 0,
        on_wait: Callable[[str], object] | None = None,
    ) -> None:
        """`notify` gets what a person should know of the supervisor that was found, and what a
        request has to wait for.

        One that must be replaced, and is busy, is waited for so many seconds; `on_wait` is told.
        """
        self._wait_seconds, self._on_wait = wait_seconds, on_wait
        self._dirs = dirs or Dirs.default()
        self._notify = notify
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
                self._line = reach(
                    self._dirs, wait_seconds=self._wait_seconds, on_wait=self._on_wait
                )
                if self._line.note and self._notify is not None:
                    self._notify(self._line.note)
            self._number += 1
            one = Exchange(
                self._line,
                self._number,
                on_output=on_output,
                on_ask=on_ask,
                stdin=stdin,
                on_input=on_input,
                on_wait=on_wait,
                on_delay=self._notify,
            )
            try:
                return one.make(fields)
            except KeyboardInterrupt:
                if self._line.closed:
                    self._line = None
                raise
            except Unavailable:
                self.close()
                raise


def running_now(dirs: Dirs) -> Mapping[str, Any]:
    """Return what the supervisor says of cells and calls; nothing where none runs."""
    line = connect(dirs)
    if line is None:
        return {"running": [], "follow_ups": [], "cells": []}
    line.close()
    with BlockingClient(dirs) as client:
        client.keep_running()  # whatever its settings
        answer: Mapping[str, Any] = client.ask(PsRequest())
        return answer


def _asking(approver: Approver) -> OnAsk:
    from policy.model import Decision
    from sandbox.questions.plans import read_plan

    def ask(message: wire.Message, line: Readable) -> Mapping[str, Any]:
        plan = read_plan(message["plan"])
        decision = Decision.model_validate(message["decision"])
        return {"approved": approver(str(message["call"]), plan, decision), "by": "client"}

    return ask
