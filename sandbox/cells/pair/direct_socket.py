# SPDX-License-Identifier: Apache-2.0
"""Direct connections to a cell's runner and keeper, past the engine's attach streams.

Where the engine runs on this kernel, the keeper is given a folder with a listening socket. It takes
the runner's spare socket end out of that (non-dumpable) process, connects, and hands it over. So
no byte of a call goes through the engine, which would copy it twice each way; the attach streams
stay open as the sign of life.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from sandbox.errors import Unavailable

NAME = "door"
SECONDS = 20.0
_MOST_FDS = 253
"""What the kernel takes in one message."""


class Door:
    """A listening socket in a folder of its own, for one cell."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with self._short() as path:  # a socket's path may have 107 bytes only
            self._socket.bind(path)
        self._socket.listen(1)
        self._socket.settimeout(SECONDS)

    def take(self) -> tuple[socket.socket, socket.socket]:
        """Return the connections (keeper, runner). Blocking. Raises Unavailable."""
        try:
            keeper, _ = self._socket.accept()
            keeper.settimeout(SECONDS)
            _, fds, _, _ = socket.recv_fds(keeper, 1, 1)
        except OSError as error:
            raise Unavailable(f"the keeper did not connect: {error}") from None
        if len(fds) != 1:
            raise Unavailable("the keeper did not hand over the runner's connection")
        return keeper, socket.socket(fileno=fds[0])

    def take_sockets(self, count: int) -> list[socket.socket]:
        """Return so many sockets that the keeper hands over. Blocking. Raises Unavailable."""
        taken: list[int] = []
        try:
            keeper, _ = self._socket.accept()
            with keeper:
                keeper.settimeout(SECONDS)
                while len(taken) < count:
                    data, fds, _, _ = socket.recv_fds(keeper, 1, _MOST_FDS, socket.MSG_CMSG_CLOEXEC)
                    taken += fds
                    if not data or not fds:
                        raise OSError(0, "it ended too early")
                    keeper.sendall(data)
        except OSError as error:
            for fd in taken:
                os.close(fd)
            raise Unavailable(f"the keeper handed over no sockets: {error}") from None
        return [socket.socket(fileno=fd) for fd in taken]

    def close(self) -> None:
        """Remove the folder, and end what still waits for somebody to connect."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with contextlib.suppress(OSError):
            (self.folder / NAME).unlink()
        with contextlib.suppress(OSError):
            self.folder.rmdir()

    @contextlib.contextmanager
    def _short(self) -> Iterator[str]:
        fd = os.open(self.folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield f"/proc/self/fd/{fd}/{NAME}"
        finally:
            os.close(fd)
