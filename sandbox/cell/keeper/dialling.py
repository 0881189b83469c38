# SPDX-License-Identifier: Apache-2.0
"""Dials a port of the cell's loopback, for a person who asked for it, and hands the socket out.

The keeper enters the cell's network namespace for no longer than that, waits for nothing there and
carries nothing itself. Cells of one agent may share that namespace, so it looks first who listens.
INVARIANT (P4, dialled): only a loopback address at which processes of this very cell listen, and
nobody else's do, is dialled; the cell learns nothing and can reach nobody by it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .listeners import inside

MOST_SAID = 8
"""Ports that a refusal names."""
MOST_FILES = 100_000
"""Open files of the cell that are looked through for who listens."""
_LISTENS = "0A"
"""How the kernel's tables write the state of a listening socket."""
_LOOPBACK = "127.0.0.1"
_LOOPBACK_6 = "::1"
_UNSPECIFIED, _UNSPECIFIED_6 = "0.0.0.0", "::"


class BadDial(Exception):
    """Nothing that may be dialled listens on a port."""


@dataclass(frozen=True)
class Listener:
    """A listening socket of TCP."""

    address: str
    port: int
    inode: str


def dial(port: int, pid: int = 1) -> socket.socket:
    """Return a socket that connects, or has connected, to a port of the cell's loopback.

    Raises BadDial where no process of the cell listens there, OSError where connecting fails.
    """
    places = find_places(port, pid)
    refused: OSError | None = None
    for address in places:
        try:
            with inside(pid):
                dialled = _connecting(address, port)
        except OSError as error:
            refused = error
            continue
        if address in _places_of(port, pid):  # still: nobody else listens there by now
            return dialled
        dialled.close()
        raise BadDial(f"who listens on port {port} changed meanwhile")
    assert refused is not None
    raise refused


def find_places(port: int, pid: int = 1) -> list[str]:
    """Return the loopback addresses at which processes of the cell, and no others, listen.

    Raises BadDial where there is none for the port.
    """
    places = _places_of(port, pid)
    if places:
        return places
    own, _ = listeners_of(pid)
    if any(listener.port == port and _places(listener.address) for listener in own):
        raise BadDial(f"on port {port} a process of another cell of this agent listens as well")
    ports = sorted({listener.port for listener in own if _places(listener.address)})
    said = ", ".join(map(str, ports[:MOST_SAID])) or "none"
    raise BadDial(f"nothing of it listens on port {port} (its ports: {said})")


def _places_of(port: int, pid: int) -> list[str]:
    own, others = (
        {place for each in side if each.port == port for place in _places(each.address)}
        for side in listeners_of(pid)
    )
    return [address for address in (_LOOPBACK, _LOOPBACK_6) if address in own - others]


def listeners_of(pid: int) -> tuple[list[Listener], list[Listener]]:
    """Return what processes of this process namespace listen on, in the network namespace of one of
    them, and what others do there. Raises BadDial where there is too much to look through."""
    listening = []
    for table in ("tcp", "tcp6"):
        try:
            with open(f"/proc/{pid}/net/{table}", encoding="ascii") as file:
                listening += read_table(file)
        except FileNotFoundError:  # a kernel without IPv6
            continue
    held = _held_of({listener.inode for listener in listening})
    own = [listener for listener in listening if listener.inode in held]
    return own, [listener for listener in listening if listener.inode not in held]


def read_table(lines: Iterable[str]) -> list[Listener]:
    """Return the listening sockets of one of the kernel's tables."""
    found = []
    for line in lines:
        words = line.split()
        if len(words) > 9 and words[3] == _LISTENS:
            host, _, port = words[1].partition(":")
            found.append(Listener(_address(host), int(port, 16), words[9]))
    return found


def _address(text: str) -> str:
    """Return an address as it is written; the kernel writes words of 32 bits in its own order."""
    raw = bytes.fromhex(text)
    words = (raw[start : start + 4] for start in range(0, len(raw), 4))
    numbers = (socket.htonl(int.from_bytes(word, "big")) for word in words)
    packed = b"".join(number.to_bytes(4, "big") for number in numbers)
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)


def _places(listens: str) -> tuple[str, ...]:
    """Return the loopback addresses at which what listens on an address may answer."""
    plain = listens[len("::ffff:") :] if listens.startswith("::ffff:") else listens
    if plain in (_LOOPBACK, _UNSPECIFIED):
        return (_LOOPBACK,)
    if plain == _UNSPECIFIED_6:
        return (_LOOPBACK, _LOOPBACK_6)
    return (_LOOPBACK_6,) if plain == _LOOPBACK_6 else ()


def _held_of(inodes: set[str]) -> set[str]:
    """Return those of the sockets that processes of this process namespace hold."""
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    held: set[str] = set()
    for looked, target in enumerate(_open_files()):
        if looked == MOST_FILES:
            raise BadDial("too many files are open there to see who listens")
        if target in wanted:
            held.add(wanted[target])
        if len(held) == len(inodes):
            break
    return held


def _open_files() -> Iterator[str]:
    """Give what each open file of each process of this process namespace is."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            numbers = os.listdir(f"/proc/{pid}/fd")
        except OSError:  # it has ended
            continue
        for number in numbers:
            with contextlib.suppress(OSError):  # it is closed meanwhile
                yield os.readlink(f"/proc/{pid}/fd/{number}")


def _connecting(address: str, port: int) -> socket.socket:
    """Begin to connect: a server that takes no connection keeps nobody waiting here."""
    family = socket.AF_INET6 if address == _LOOPBACK_6 else socket.AF_INET
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        code = connection.connect_ex((address, port))
        if code not in (0, errno.EINPROGRESS):
            raise OSError(code, os.strerror(code), f"port {port}")
    except BaseException:
        connection.close()
        raise
    return connection
