# SPDX-License-Identifier: Apache-2.0
"""The operations as methods: of what waits for a result, and of what is awaited for it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Generic, ParamSpec, TypeVar, overload

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

P = ParamSpec("P")
R = TypeVar("R")


class Method(Generic[P, R]):
    """A method that makes one request: it waits for the result, or is awaited for it."""

    def __init__(self, request: Callable[P, Request[R]]) -> None:
        self.request = request
        self.__doc__ = request.__doc__

    @overload
    def __get__(self, asker: BlockingOperations, kind: type | None = None) -> Callable[P, R]: ...
    @overload
    def __get__(
        self, asker: AsyncOperations, kind: type | None = None
    ) -> Callable[P, Coroutine[Any, Any, R]]: ...
    @overload
    def __get__(self, asker: None, kind: type) -> Method[P, R]: ...
    def __get__(self, asker: Any, kind: type | None = None) -> Any:
        if asker is None:
            return self

        def ask(*given: P.args, **named: P.kwargs) -> Any:
            return asker.request(self.request(*given, **named))

        ask.__doc__ = self.__doc__
        return ask


class _Operations:
    """What a supervisor does for whoever asks, each as a method."""

    warm = Method(WarmRequest)
    peek = Method(PeekRequest)
    end = Method(EndRequest)
    held = Method(HeldRequest)
    look_held = Method(LookHeldRequest)
    land = Method(LandRequest)
    discard = Method(DiscardRequest)
    object = Method(ObjectRequest)
    undo = Method(UndoRequest)
    undo_last = Method(UndoLastRequest)
    undo_chosen = Method(UndoChosenRequest)
    changed = Method(ChangedRequest)
    open_port = Method(OpenPortRequest)
    close_port = Method(ClosePortRequest)
    stop = Method(StopRequest)


class BlockingOperations(_Operations):
    """The operations as methods that wait for the result. Raise SandboxError."""

    def request(self, request: Request[R]) -> R:
        """Make a request and return its result. Raises SandboxError."""
        raise NotImplementedError


class AsyncOperations(_Operations):
    """The operations as methods to be awaited. Raise SandboxError."""

    async def request(self, request: Request[R]) -> R:
        """Make a request and return its result. Raises SandboxError."""
        raise NotImplementedError


OF_SUPERVISOR: tuple[Callable[..., Request[Any]], ...] = tuple(
    method.request for method in vars(_Operations).values() if isinstance(method, Method)
)
"""Every request that is a method, and that a supervisor carries out."""
