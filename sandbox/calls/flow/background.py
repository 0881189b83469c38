# SPDX-License-Identifier: Apache-2.0
"""Calls that go on while their agent does something else (a dev server), each in its own cell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from sandbox.calls.flow.output import Output
from sandbox.cells.cell import Cell
from sandbox.errors import BadInput
from sandbox.results import CallResult


class Background:
    """The background calls of one supervisor."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[CallResult]] = {}
        self._cells: dict[str, Cell] = {}
        self._outputs: dict[str, Output] = {}

    def start(
        self, call_id: str, cell: Cell, output: Output, work: Coroutine[Any, Any, CallResult]
    ) -> None:
        """Let a call go on; its end is waited for by `end` or `close`."""
        self._tasks[call_id] = asyncio.create_task(work)
        self._cells[call_id] = cell
        self._outputs[call_id] = output

    def peek(self, call_id: str) -> dict[str, Any]:
        """Return what a call has written so far. Raises BadInput for an unknown one."""
        if call_id not in self._tasks:
            raise BadInput(f"no background call `{call_id}`; `lockgate ps` lists them")
        output = self._outputs[call_id]
        return {
            "call": call_id,
            "running": not self._tasks[call_id].done(),
            "stdout": output.text(1),
            "stderr": output.text(2),
        }

    async def attach(self, call_id: str, on_output: Callable[[str, bytes], None]) -> CallResult:
        """Pass on what a call writes until it ends; when nobody listens any more, it is ended."""
        task = self._tasks.get(call_id)
        if task is None:
            raise BadInput(f"no background call `{call_id}`; `lockgate ps` lists them")
        self._outputs[call_id].listen(on_output)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._cells[call_id].end_running()
            raise
        finally:
            if task.done():
                self._forget(call_id)

    def _forget(self, call_id: str) -> None:
        self._tasks.pop(call_id, None)
        self._cells.pop(call_id, None)
        self._outputs.pop(call_id, None)

    async def end(self, call_id: str) -> CallResult:
        """End a call's processes and return its result. Raises BadInput for an unknown one."""
        task = self._tasks.get(call_id)
        if task is None:
            raise BadInput(f"no background call `{call_id}`; `lockgate ps` lists them")
        self._cells[call_id].end_running()
        try:
            return await asyncio.shield(task)
        finally:
            self._forget(call_id)

    async def close(self) -> None:
        """Cancel every call; nothing of it lands."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
