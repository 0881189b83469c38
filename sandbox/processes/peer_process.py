# SPDX-License-Identifier: Apache-2.0
"""Who is at the other end of a unix socket, as the kernel says it. Imports nothing heavy: the thin
programs use it."""

from __future__ import annotations

import _socket
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

_CREDENTIALS = struct.Struct("iII")
"""Process, uid and gid."""


def peer_pid(connection: socket.socket | _socket.socket) -> int:
    """Return the process at the other end."""
    return _read(connection)[0]


def peer_uid(connection: socket.socket | _socket.socket) -> int:
    """Return the uid of the process at the other end."""
    return _read(connection)[1]


def _read(connection: socket.socket | _socket.socket) -> tuple[int, int, int]:
    data = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(data)
    return pid, uid, gid
