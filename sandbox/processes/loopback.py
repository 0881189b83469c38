# SPDX-License-Identifier: Apache-2.0
"""Listen on this host's loopback, where no other machine can connect."""

from __future__ import annotations

import errno
import socket

from sandbox.errors import BadInput

HOST = "127.0.0.1"
_BACKLOG = 128


def listen_on(port: int, advice: str) -> socket.socket:
    """Return a socket that listens on a port of the loopback. Raises BadInput with the advice."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        why = "something else listens there" if error.errno == errno.EADDRINUSE else error.strerror
        raise BadInput(
            f"port {port} of this host cannot be opened: {str(why).lower()}; {advice}"
        ) from None
    return listener
