# SPDX-License-Identifier: Apache-2.0
"""Opens listening sockets on the loopback of the cell, for a gateway that runs outside of it.

The keeper enters the cell's network namespace for no longer than that. It carries nothing itself,
and the cell gets no interface: whoever holds the sockets decides what a connection leads to.
INVARIANT (P4, listeners): only addresses of 127.0.0.0/8 are listened on, and a port that something
in the cell holds already is an error, so that no process there can stand in for the gateway.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
from collections.abc import Iterator, Sequence
from typing import Any

from .. import mounts

MOST = 1024
"""Sockets of one call."""
AT_ONCE = 200
"""Descriptors in one message; the kernel takes 253."""
BACKLOG = 128
_LOOPBACK = ipaddress.ip_network("127.0.0.0/8")


class BadListener(Exception):
    """An address or a port on which nothing of this may listen."""


def open_listeners(wanted: Sequence[Sequence[Any]], pid: int = 1) -> list[socket.socket]:
    """Return sockets for (kind, address, port) in the network namespace of a process.

    `kind` is `tcp` (listening) or `udp`. Raises OSError, BadListener; then none is left open.
    """
    if len(wanted) > MOST:
        raise BadListener(f"more than {MOST} addresses are wanted in one call")
    for kind, address, port in wanted:
        is_own = ipaddress.ip_address(address) in _LOOPBACK
        if kind not in ("tcp", "udp") or not is_own or not 0 < int(port) < 65536:
            raise BadListener(f"`{kind} {address}:{port}` is no address of the cell's loopback")
    sockets: list[socket.socket] = []
    try:
        with inside(pid):
            for kind, address, port in wanted:
                sockets.append(_bound(kind, address, int(port)))
    except BaseException:
        for connection in sockets:
            connection.close()
        raise
    return sockets


def hand_over(sockets: Sequence[socket.socket], door: str) -> None:
    """Send sockets over a unix socket, in their order, and close them here."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as way:
            way.connect(door)
            for start in range(0, len(sockets), AT_ONCE):
                part = [connection.fileno() for connection in sockets[start : start + AT_ONCE]]
                socket.send_fds(way, [b"l"], part)
                if way.recv(1) != b"l":  # taken: one message is not joined with the next
                    raise OSError(104, "the supervisor took no sockets", door)
    finally:
        for sock in sockets:
            sock.close()


def _bound(kind: str, address: str, port: int) -> socket.socket:
    if kind == "udp":  # without SO_REUSEADDR: nobody else gets the port while it is held
        connection = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    else:
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        connection.bind((address, port))
        if kind == "tcp":
            connection.listen(BACKLOG)
    except OSError as error:
        connection.close()
        raise OSError(error.errno, error.strerror, f"{kind} {address}:{port}") from None
    return connection


@contextlib.contextmanager
def inside(pid: int) -> Iterator[None]:
    """Be in the network namespace of a process for a while; what cannot go back ends."""
    own = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        mounts.enter_network_namespace(pid)
        try:
            yield
        finally:
            try:
                mounts.enter_namespace(own, mounts.NEWNET)
            except OSError:
                os._exit(1)
    finally:
        os.close(own)
