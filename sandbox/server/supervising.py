# SPDX-License-Identifier: Apache-2.0
"""What the server process needs of a supervisor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from policy.model import ActionPlan
from sandbox.audit.events.agents import ChildRecord
from sandbox.audit.events.calls import OutcomeRecord
from sandbox.calls.edits.tool_use import ToolUse
from sandbox.calls.tickets import Admission
from sandbox.operations.requests import Request
from sandbox.results import CallResult

if TYPE_CHECKING:
    pass

R = TypeVar("R")


class Supervising(Protocol):
    """What the server needs of a Supervisor."""

    async def __aenter__(self) -> Any: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> Any: ...
    async def call(
        self,
        plan: ActionPlan,
        *,
        approver: Any,
        stdin: Any = None,
        env: Mapping[str, str] | None = None,
        on_output: Callable[[str, bytes], None] | None = None,
        call_id: str | None = None,
    ) -> CallResult: ...
    async def admit(
        self,
        plan: ActionPlan,
        *,
        approver: Any,
        on_host: bool = False,
        use: ToolUse | None = None,
    ) -> Admission: ...
    async def came_back(self, agent: str, use: ToolUse) -> str | None: ...
    async def redeem(
        self,
        admission: Admission,
        *,
        stdin: Any = None,
        on_output: Callable[[str, bytes], None] | None = None,
    ) -> CallResult: ...
    async def attach(self, call_id: str, on_output: Callable[[str, bytes], None]) -> CallResult: ...
    async def note(self, said: ChildRecord | OutcomeRecord) -> None: ...
    def check_latch(self, agent: str) -> None: ...
    async def request(self, request: Request[R], *, by: str | None = None) -> R: ...
    def asking(self) -> list[dict[str, Any]]: ...
    def running(self) -> Sequence[Mapping[str, Any]]: ...
    def follow_ups(self) -> Sequence[Mapping[str, Any]]: ...
    def cells(self) -> Sequence[Mapping[str, Any]]: ...
    def budgets(self) -> Mapping[str, Sequence[str]]: ...
