# SPDX-License-Identifier: Apache-2.0
"""Sockets that a cell's keeper opens in the cell and hands over at the supervisor's door."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Protocol

from sandbox.cells.pair.direct_socket import Door
from sandbox.errors import NotEnforced


class Ask(Protocol):
    """Sends the keeper a request and returns its answer."""

    def __call__(
        self, request: dict[str, Any] | None = None, *, op: str
    ) -> Coroutine[Any, Any, dict[str, Any]]: ...


class Handing:
    """What comes through a cell's door."""

    def __init__(self, folder: Path | None, ask: Ask) -> None:
        """`folder`: where the door is; None where the engine is not on this kernel."""
        self._door = Door(folder) if folder else None
        self._ask = ask
        self._lock = asyncio.Lock()
        """Held while a socket is handed over: they come through one door."""

    def close(self) -> None:
        """Take the door away."""
        if self._door is not None:
            self._door.close()

    async def take_direct(self, spare_end: int) -> Sequence[socket.socket] | None:
        """Return connections to keeper and runner that need no engine; None without a door."""
        if self._door is None:
            return None
        taken = asyncio.get_running_loop().run_in_executor(None, self._door.take)
        await self._ask_handing(self._door, taken, {"fd": spare_end}, op="direct")
        return await taken

    async def listen(self, wanted: Sequence[tuple[str, str, int]]) -> list[socket.socket]:
        """Return sockets that listen on the cell's loopback: (kind, address, port) each.

        Raises SandboxError, also where something in the cell holds one of the ports.
        """
        if self._door is None:
            raise NotEnforced(
                "this engine does not run on this kernel, so that a cell cannot be given a network"
            )
        request = {"listeners": [list(listener) for listener in wanted]}
        async with self._lock:
            return await self._handed(self._door, len(wanted), request, op="listen")

    async def check_port(self, port: int) -> None:
        """Raise KeeperRefused where no process of this cell listens on a port, NotEnforced where
        none can be dialled."""
        if self._door is None:
            raise NotEnforced(
                "this cell's engine or runtime keeps its network apart, so that no port of it can "
                "be reached"
            )
        await self._ask({"port": port}, op="check_port")

    async def dial(self, port: int) -> socket.socket:
        """Return a socket that connects, or has connected, to a port that `check_port` lets
        through. Raises SandboxError.

        Not to be cancelled: what is handed over then would be lost.
        """
        assert self._door is not None
        async with self._lock:
            await self._ask({"port": port}, op="dial")
            (dialled,) = await self._handed(self._door, 1, {}, op="hand")
        return dialled

    async def _handed(
        self, door: Door, count: int, request: dict[str, Any], *, op: str
    ) -> list[socket.socket]:
        """Return so many sockets that the keeper hands over when it is asked to."""
        taking = asyncio.get_running_loop().run_in_executor(None, door.take_sockets, count)
        await self._ask_handing(door, taking, request, op=op)
        return await taking

    async def _ask_handing(
        self, door: Door, taking: asyncio.Future[Any], request: dict[str, Any], *, op: str
    ) -> None:
        """Ask the keeper to hand over what is being taken at the door."""
        try:
            await self._ask(request, op=op)
        except BaseException:
            door.close()  # nobody hands anything over any more
            await asyncio.gather(taking, return_exceptions=True)
            raise
