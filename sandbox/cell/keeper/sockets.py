# SPDX-License-Identifier: Apache-2.0
"""Requests about connections: the supervisor's own, and those that reach into the cell's network.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import os
import socket
from typing import Any

from .. import mounts
from . import dialling, listeners

DOOR = "/door/door"


class Sockets:
    """Opens and dials in the cell's network, and hands over at the supervisor's door."""

    def __init__(self) -> None:
        self.direct_fd: int | None = None
        """The supervisor's own connection, once there is one."""
        self._dialled: socket.socket | None = None
        """A connection to a port of the cell that nobody has asked for yet."""

    def direct(self, request: dict[str, Any]) -> dict[str, Any]:
        """Connect to the supervisor, and hand over the runner's spare socket end."""
        process = mounts.take_descriptor(1, request["fd"])
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.connect(DOOR)
        socket.send_fds(sock, [b"r"], [process])
        os.close(process)
        self.direct_fd = sock.detach()
        return {}

    def listen(self, request: dict[str, Any]) -> dict[str, Any]:
        """Open sockets on the cell's loopback and hand them to the supervisor."""
        listeners.hand_over(listeners.open_listeners(request["listeners"]), DOOR)
        return {}

    def check_port(self, request: dict[str, Any]) -> dict[str, Any]:
        """Refuse a port on which no process of the cell listens."""
        dialling.find_places(request["port"])
        return {}

    def dial(self, request: dict[str, Any]) -> dict[str, Any]:
        """Connect to a port on which a process of the cell listens; `hand` gives the socket."""
        self._drop_dialled()
        self._dialled = dialling.dial(request["port"])
        return {}

    def hand(self, _request: dict[str, Any]) -> dict[str, Any]:
        """Hand the supervisor the socket of the last `dial`."""
        if self._dialled is None:
            raise dialling.BadDial("nothing was dialled")
        dialled, self._dialled = self._dialled, None
        listeners.hand_over([dialled], DOOR)
        return {}

    def _drop_dialled(self) -> None:
        if self._dialled is not None:
            self._dialled.close()
            self._dialled = None
