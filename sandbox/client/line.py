# SPDX-License-Identifier: Apache-2.0
"""A connection to the supervisor that has said hello. Imports nothing heavy: the thin programs
use it."""

from __future__ import annotations

import _socket

from sandbox.client import wire
from sandbox.errors import SandboxError, Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

HELLO_SECONDS = 30.0
"""How long a supervisor may take to greet whoever connects."""


class Silent(Unavailable):
    """The supervisor runs and does not answer."""

    def __init__(self) -> None:
        super().__init__(
            f"the supervisor did not answer within {HELLO_SECONDS:.0f} s; `lockgate stop` ends it, "
            "and the first call after `lockgate resume` starts another"
        )


class Line:
    """A blocking connection to the supervisor that has said hello."""

    def __init__(self, connection: socket.socket | _socket.socket) -> None:
        self.socket = connection
        self.decoder = wire.Decoder()
        self._waiting: list[wire.Message] = []
        self.note = ""
        """What a person is told of the supervisor: that it goes on with older settings."""
        connection.settimeout(HELLO_SECONDS)
        self.hello = self.receive()
        connection.settimeout(None)

    def fileno(self) -> int:
        """Return the socket's descriptor, for `select`."""
        return self.socket.fileno()

    def set_blocking(self, *, blocking: bool) -> None:
        """Set whether the socket waits; an event loop needs one that does not."""
        self.socket.setblocking(blocking)

    @property
    def closed(self) -> bool:
        """Whether it was closed at this end."""
        return self.socket.fileno() < 0

    @property
    def waiting(self) -> bool:
        """Whether a message is here already."""
        return bool(self._waiting)

    def send(self, message: wire.Message) -> None:
        """Send a message. Raises Unavailable when the supervisor is gone."""
        try:
            self.socket.sendall(wire.encode(message, wire.REQUEST_CHARS))
        except OSError:
            raise _gone() from None

    def receive(self) -> wire.Message:
        """Return the next message. Raises Unavailable when the supervisor is gone."""
        while not self._waiting:
            try:
                data = self.socket.recv(1 << 20)
            except TimeoutError:
                raise Silent from None
            except OSError:
                raise _gone() from None
            if not data:
                raise _gone()
            self._waiting = self.decoder.feed(data)
        return self._waiting.pop(0)

    def close(self) -> None:
        """Close the connection; calls that it still waits for are cancelled."""
        self.socket.close()


def _gone() -> SandboxError:
    return Unavailable("the supervisor went away in the middle; `lockgate log` says what landed")
