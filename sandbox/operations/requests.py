# SPDX-License-Identifier: Apache-2.0
"""The requests: of each its name and fields on the socket, what comes back, and who may make it.

INVARIANT (P8, "who may"): a request that decides for a person says so in `may`; `agents/peer`
refuses it to whatever belongs to an agent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

if TYPE_CHECKING:
    from sandbox.results import (
        CallResult,
        ChangedReport,
        HeldCall,
        HeldLook,
        StopReport,
        UndoReport,
        UndoResult,
    )

R = TypeVar("R")


class May(Enum):
    """Who may make a request."""

    ANYBODY = "anybody"
    ITS_OWN = "its own"
    """A person; an agent about its own calls and those of agents below it."""
    PERSON = "person"


@dataclass(frozen=True, slots=True)
class Request(Generic[R]):
    """A request whose result is an R. Its fields are what goes over the socket."""

    op: ClassVar[str]
    may: ClassVar[May] = May.ANYBODY
    deed: ClassVar[str] = ""
    """What it is, for whoever may not make it."""

    def who_may(self) -> May:
        """Return who may make just this request."""
        return self.may

    def named_call(self) -> str | None:
        """Return the id of the call that it is about; None: it is about none."""
        call = getattr(self, "call", None)
        return call if isinstance(call, str) else None

    def message(self) -> dict[str, Any]:
        """Return it as it goes over the socket."""
        return {"op": self.op, **{each.name: getattr(self, each.name) for each in fields(self)}}

    def read(self, value: Any) -> R:
        """Return the result of the plain value that came back."""
        raise NotImplementedError


class _OfCall(Request["CallResult"]):
    """A request that gives the result of a call."""

    __slots__ = ()

    def read(self, value: Any) -> CallResult:
        from sandbox.results import CallResult

        return CallResult.model_validate(value)


class _Plain(Request[dict[str, Any]]):
    """A request whose result has no type of its own."""

    __slots__ = ()

    def read(self, value: Any) -> dict[str, Any]:
        return dict(value)


# -- what a supervisor does


@dataclass(frozen=True, slots=True)
class WarmRequest(Request[None]):
    """Start an agent's cell of a workspace ahead of the first call."""

    op = "warm"
    workspace: str
    agent: str = "main"

    def read(self, value: Any) -> None:
        return None


@dataclass(frozen=True, slots=True)
class PeekRequest(_Plain):
    """Return what a background call has written so far: running, stdout, stderr."""

    op = "peek"
    call: str


@dataclass(frozen=True, slots=True)
class EndRequest(_OfCall):
    """End a background call; its changes are judged and land as any call's."""

    op = "end"
    may = May.ITS_OWN
    call: str


@dataclass(frozen=True, slots=True)
class HeldRequest(Request["tuple[HeldCall, ...]"]):
    """Return what waits for a person to land or discard it, newest first."""

    op = "held"

    def read(self, value: Any) -> tuple[HeldCall, ...]:
        from sandbox.results import HeldCall

        return tuple(HeldCall.model_validate(each) for each in value)


@dataclass(frozen=True, slots=True)
class LookHeldRequest(Request["HeldLook"]):
    """Look at a held call as things stand now; from then on that is what was shown."""

    op = "look-held"
    may = May.PERSON
    deed = "being shown anew what is held"
    call: str

    def read(self, value: Any) -> HeldLook:
        from sandbox.results import HeldLook

        return HeldLook.model_validate(value)


@dataclass(frozen=True, slots=True)
class LandRequest(_OfCall):
    """Land a held transaction, or some of its paths (files, folders, globs)."""

    op = "land"
    may = May.PERSON
    deed = "landing what was held"
    call: str
    paths: Sequence[str] = ()
    force: bool = field(default=False, kw_only=True)
    """Also over files that changed meanwhile."""
    digest: str | None = field(default=None, kw_only=True)
    """That of the look that the person was shown. Raises NotShown where another counts by now."""


@dataclass(frozen=True, slots=True)
class DiscardRequest(_OfCall):
    """Throw away a held transaction, or what waits to land."""

    op = "discard"
    may = May.ITS_OWN
    call: str


@dataclass(frozen=True, slots=True)
class ObjectRequest(_OfCall):
    """Object to a call whose changes wait to land: they are thrown away."""

    op = "object"
    may = May.PERSON
    deed = "objecting to a landing"
    call: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class UndoRequest(Request["UndoResult"]):
    """Undo what a call landed, or with `dry_run` say what that would do.

    Raises BadInput, with the paths, where a later change would be lost. An agent may undo what is
    its own, and ordinary files alone.
    """

    op = "undo"
    may = May.ITS_OWN
    call: str
    dry_run: bool = field(default=False, kw_only=True)

    def read(self, value: Any) -> UndoResult:
        from sandbox.results import UndoResult

        return UndoResult.model_validate(value)


@dataclass(frozen=True, slots=True)
class UndoLastRequest(Request["UndoReport"]):
    """Undo the newest landed calls, newest first, until one cannot be undone."""

    op = "undo-last"
    may = May.PERSON
    deed = "undoing whatever came last"
    count: int
    dry_run: bool = field(default=False, kw_only=True)
    workspace: str | None = field(default=None, kw_only=True)
    """Only of this one."""

    def read(self, value: Any) -> UndoReport:
        from sandbox.results import UndoReport

        return UndoReport.model_validate(value)


@dataclass(frozen=True, slots=True)
class UndoChosenRequest(Request["UndoReport"]):
    """Undo what stands of the chosen calls, newest first; what cannot be undone is named."""

    op = "undo-chosen"
    may = May.PERSON
    deed = "undoing several calls"
    session: str | None = None
    agent: str | None = None
    since: float | None = None
    workspace: str | None = None
    dry_run: bool = field(default=False, kw_only=True)

    def read(self, value: Any) -> UndoReport:
        from sandbox.results import UndoReport

        return UndoReport.model_validate(value)


@dataclass(frozen=True, slots=True)
class ChangedRequest(Request["ChangedReport"]):
    """Return what the chosen calls changed on disk, all in all."""

    op = "changed"
    session: str | None = None
    agent: str | None = None
    since: float | None = None
    workspace: str | None = None

    def read(self, value: Any) -> ChangedReport:
        from sandbox.results import ChangedReport

        return ChangedReport.model_validate(value)


@dataclass(frozen=True, slots=True)
class OpenPortRequest(_Plain):
    """Open a port of a running call's cell on this host's loopback: call, host, both ports, by."""

    op = "open-port"
    may = May.PERSON
    deed = "opening a port of a cell"
    call: str
    port: int
    host_port: int


@dataclass(frozen=True, slots=True)
class ClosePortRequest(Request["tuple[dict[str, Any], ...]"]):
    """Close the open ports of a call, or the one of its cell that is named; return them."""

    op = "close-port"
    may = May.PERSON
    deed = "closing a port of a cell"
    call: str
    port: int | None = None

    def read(self, value: Any) -> tuple[dict[str, Any], ...]:
        return tuple(dict(each) for each in value)


@dataclass(frozen=True, slots=True)
class StopRequest(Request["StopReport"]):
    """Stop everything, or one agent and all below it. Raises BadInput for an unknown one.

    `own`: that agent asks, so it is known even if it has done nothing yet.
    """

    op = "stop"
    reason: str
    agent: str | None = None
    own: bool = field(default=False, kw_only=True)

    def read(self, value: Any) -> StopReport:
        from sandbox.results import StopReport

        return StopReport.model_validate(value)


# -- what its process does


@dataclass(frozen=True, slots=True)
class PingRequest(_Plain):
    """Return the supervisor's version, code digest, pid and how busy it is."""

    op = "ping"


@dataclass(frozen=True, slots=True)
class PsRequest(_Plain):
    """Return running calls, cells, and how the guard is."""

    op = "ps"


@dataclass(frozen=True, slots=True)
class HookRequest(_Plain):
    """Answer an event of a coding agent's hook: stdout, stderr and status to end with."""

    op = "hook"
    agent: str
    said: str
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ShutdownRequest(_Plain):
    """End the supervisor process if it is idle, or in any case with `force`."""

    op = "shutdown"
    deed = "ending a supervisor that is busy"
    force: bool = field(default=False, kw_only=True)

    def who_may(self) -> May:
        """Only a person ends what others use."""
        return May.PERSON if self.force else May.ANYBODY
