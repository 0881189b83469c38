# SPDX-License-Identifier: Apache-2.0
"""The supervisor for programs without an event loop: the same methods, blocking."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

from policy.gate1.decide import Policy
from policy.model import ActionPlan, Workspace
from sandbox.approvals.approver import Approver, nobody
from sandbox.calls.flow.call import OnOutput
from sandbox.calls.supervisor import Supervisor
from sandbox.config.settings import Dirs, Settings
from sandbox.operations.methods import BlockingOperations
from sandbox.operations.requests import Request
from sandbox.results import CallResult

R = TypeVar("R")
T = TypeVar("T")


class BlockingSupervisor(BlockingOperations):
    """A Supervisor on a thread of its own; use as `with`."""

    def __init__(
        self,
        dirs: Dirs | None = None,
        *,
        policy: Policy | None = None,
        workspaces: Sequence[Workspace] | None = None,
        settings: Settings | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self._arguments: dict[str, Any] = {
            "policy": policy,
            "workspaces": workspaces,
            "settings": settings,
            "labels": labels,
        }
        self._dirs = dirs
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="supervisor")
        self._inner: Supervisor | None = None

    def __enter__(self) -> BlockingSupervisor:
        self._thread.start()
        try:
            self._inner = self._wait(self._enter())
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._wait(self._supervisor.__aexit__(None, None, None))
        finally:
            self._close()

    def call(
        self,
        plan: ActionPlan,
        *,
        approver: Approver = nobody,
        stdin: bytes | str | None = None,
        env: Mapping[str, str] | None = None,
        on_output: OnOutput | None = None,
    ) -> CallResult:
        """Carry out one plan. An interrupt ends its processes and throws its changes away."""
        return self._wait(
            self._supervisor.call(
                plan, approver=approver, stdin=stdin, env=env, on_output=on_output
            )
        )

    def request(self, request: Request[R]) -> R:
        """Carry out a request of the table of operations. Raises SandboxError."""
        return self._wait(self._supervisor.request(request))

    @property
    def _supervisor(self) -> Supervisor:
        if self._inner is None:
            raise RuntimeError("use BlockingSupervisor in a `with` block")
        return self._inner

    async def _enter(self) -> Supervisor:
        return await Supervisor(self._dirs, **self._arguments).__aenter__()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def _close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
