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
from sandbox.results import CallResult, HeldCall, HeldLook, StopReport, UndoReport, UndoResult

T = TypeVar("T")


class BlockingSupervisor:
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

    def warm(self, workspace: str) -> None:
        """Start the cell of a workspace ahead of the first call."""
        self._wait(self._supervisor.warm(workspace))

    def end(self, call_id: str) -> CallResult:
        """End a background call."""
        return self._wait(self._supervisor.end(call_id))

    def undo(self, call_id: str, *, dry_run: bool = False) -> UndoResult:
        """Undo a landed call, or with `dry_run` say what that would do."""
        return self._wait(self._supervisor.undo(call_id, dry_run=dry_run))

    def undo_last(self, count: int, *, dry_run: bool = False) -> UndoReport:
        """Undo the newest landed calls, newest first, until one cannot be undone."""
        return self._wait(self._supervisor.undo_last(count, dry_run=dry_run))

    def held(self) -> tuple[HeldCall, ...]:
        """Return what waits for a person to land or discard it, newest first."""
        return self._wait(self._supervisor.held())

    def look_held(self, call_id: str) -> HeldLook:
        """Look at a held call as things stand now; from then on that is what was shown."""
        return self._wait(self._supervisor.look_held(call_id))

    def land(self, call_id: str, paths: Sequence[str] = (), *, force: bool = False) -> CallResult:
        """Land a held transaction, or some of its paths (files, folders, globs)."""
        return self._wait(self._supervisor.land(call_id, paths, force=force))

    def object(self, call_id: str, reason: str = "") -> CallResult:
        """Object to a call whose changes wait to land."""
        return self._wait(self._supervisor.object(call_id, reason))

    def discard(self, call_id: str) -> CallResult:
        """Throw a held transaction away."""
        return self._wait(self._supervisor.discard(call_id))

    def stop(self, reason: str, agent: str | None = None) -> StopReport:
        """Stop everything, or one agent and all below it."""
        return self._wait(self._supervisor.stop(reason, agent))

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
