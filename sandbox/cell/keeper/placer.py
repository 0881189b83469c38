# SPDX-License-Identifier: Apache-2.0
"""The keeper's hand inside the cell's mount namespace: attaches and detaches the workspaces.

A child of the keeper that lives in that namespace, so that no call pays for a fork. It is handed
detached mounts over a socket and knows nothing else.
"""

from __future__ import annotations

import os
import socket
from typing import Any

from .. import mounts
from ..run import call_host as host
from ..run import process


class Placer:
    """The keeper's end. Raises OSError where the kernel refuses."""

    def __init__(self, targets: list[str], home: tuple[str, dict[str, str]]) -> None:
        """`home` is the folder that is the home of reading calls, and the files that it holds: no
        command can write there."""
        self._sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            self._sock.close()
            try:
                _serve(theirs, targets, home)
            finally:
                os._exit(1)
        theirs.close()
        self._answer()

    def place(self, index: int, mount: int, pins: list[str]) -> None:
        """Attach a mount at a workspace's path; make the pinned paths in it read-only."""
        host.send(self._sock, {"op": "place", "index": index, "pins": pins}, (mount,))
        self._answer()

    def remove(self, index: int) -> None:
        """Detach what stands at a workspace's path."""
        host.send(self._sock, {"op": "remove", "index": index})
        self._answer()

    def _answer(self) -> None:
        message, _ = host.receive(self._sock)
        if message is None:
            raise OSError(5, "the cell's mount namespace is gone", "placer")
        if "error" in message:
            raise OSError(message["errno"], message["error"], "placer")


def _serve(sock: socket.socket, targets: list[str], home: tuple[str, dict[str, str]]) -> None:
    process.die_with_parent()
    try:
        mounts.enter_mount_namespace(1)
        for name, text in home[1].items():
            with open(os.path.join(home[0], name), "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(os.path.join(home[0], name), 0o644)
        # Opened before any command runs, so that no command can put another path in their place.
        points = [os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW) for path in targets]
        host.send(sock, {})
    except OSError as error:
        host.send(sock, {"error": f"{error.strerror} ({error.filename})", "errno": error.errno})
        return
    while True:
        message, fds = host.receive(sock)
        if message is None:
            return
        try:
            _act(message, fds, points, targets)
            host.send(sock, {})
        except OSError as error:
            host.send(sock, {"error": f"{error.strerror} ({error.filename})", "errno": error.errno})
        finally:
            for fd in fds:
                os.close(fd)


def _act(message: dict[str, Any], fds: list[int], points: list[int], targets: list[str]) -> None:
    index = message["index"]
    if message["op"] == "remove":
        mounts.detach(targets[index])
        return
    mounts.move(fds[0], points[index])
    for path in message["pins"]:
        pin(fds[0], path)


def pin(root: int, path: str) -> None:
    """Make one path read-only. A path that is not there needs no pin."""
    try:
        copy = mounts.clone(root, path)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        mounts.set_attributes(copy, mounts.RDONLY | mounts.NOSUID | mounts.NODEV)
        mounts.move(copy, root, path)
    finally:
        os.close(copy)
