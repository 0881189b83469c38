# SPDX-License-Identifier: Apache-2.0
"""Carry out what the table of operations names: one handler for each request of a supervisor."""

from __future__ import annotations

from typing import Any

from sandbox.agents.allowed import check_path
from sandbox.calls.corrections import Corrections
from sandbox.calls.edits.several import Chosen
from sandbox.calls.flow.live import LiveState
from sandbox.calls.flow.parts import Parts
from sandbox.errors import UnknownRequest
from sandbox.operations.requests import (
    ChangedRequest,
    ClosePortRequest,
    DiscardRequest,
    EndRequest,
    HeldRequest,
    LandRequest,
    LookHeldRequest,
    ObjectRequest,
    OpenPortRequest,
    PeekRequest,
    Request,
    StopRequest,
    UndoChosenRequest,
    UndoLastRequest,
    UndoRequest,
    WarmRequest,
)


class Handlers:
    """Carries out requests with what one supervisor is made of."""

    def __init__(self, parts: Parts, live: LiveState, corrections: Corrections) -> None:
        self._parts = parts
        self._live = live
        self._corrections = corrections

    async def carry_out(self, request: Request[Any], by: str | None) -> Any:
        """Return the result of a request by agent `by`, None for a person. Raises SandboxError."""
        match request:
            case WarmRequest():
                return await self._warm(request.workspace, request.agent)
            case PeekRequest():
                return self._live.background.peek(request.call)
            case EndRequest():
                return await self._live.background.end(request.call)
            case HeldRequest():
                return await self._corrections.held()
            case LookHeldRequest():
                return await self._corrections.look_held(request.call)
            case LandRequest():
                return await self._corrections.land(
                    request.call, request.paths, force=request.force, digest=request.digest
                )
            case DiscardRequest():
                return await self._corrections.discard(request.call)
            case ObjectRequest():
                return await self._corrections.object(request.call, request.reason)
            case UndoRequest():
                return await self._corrections.undo(request.call, dry_run=request.dry_run, by=by)
            case UndoLastRequest():
                return await self._corrections.undo_last(
                    request.count, dry_run=request.dry_run, workspace=request.workspace
                )
            case UndoChosenRequest():
                return await self._corrections.undo_chosen(
                    _chosen(request), dry_run=request.dry_run
                )
            case ChangedRequest():
                return await self._corrections.changed(_chosen(request))
            case OpenPortRequest():
                return await self._live.ports.open(request.call, request.port, request.host_port)
            case ClosePortRequest():
                return tuple(await self._live.ports.close(request.call, request.port))
            case StopRequest():
                return await self._live.stop(request.reason, request.agent, own=request.own)
        raise UnknownRequest(f"`{request.op}` is no request of a supervisor")

    async def _warm(self, workspace: str, agent: str) -> None:
        self._parts.latch.check(check_path(agent))
        pool = await self._live.connected()
        await pool.warm(agent, self._parts.check_workspaces((workspace,)))


def _chosen(request: UndoChosenRequest | ChangedRequest) -> Chosen:
    return Chosen(request.session, request.agent, request.since, request.workspace)
