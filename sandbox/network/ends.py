# SPDX-License-Identifier: Apache-2.0
"""The two ends of a connection of the cell: whom it says that it is for, and where that is."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Protocol

from sandbox.network import client_hello, plain_http
from sandbox.network.addresses import refusal
from sandbox.network.book import Reach

RAW_PORTS = frozenset((22, 9418))
"""Ports of protocols that say no host's name (ssh, git): the address alone counts."""
TLS_PORT = 443
CHUNK = 1 << 18


class Refused(Exception):
    """A connection leads nowhere; the text says why."""


class Known(Protocol):
    """A connection, as far as its ends need it."""

    port: int
    host: str
    address: str


async def opening(connection: Known, reader: asyncio.StreamReader) -> tuple[bytes, int | None]:
    """Return the first bytes to pass on, and how many more of the client's are; None: all.

    Raises Refused where they are not for the name that the connection was made to.
    """
    if connection.port in RAW_PORTS:
        return b"", None
    data = b""
    while more := await reader.read(CHUNK):
        data += more
        try:
            if data[0] == client_hello.HANDSHAKE:
                name = client_hello.server_name(data)
                if name is None:
                    continue
                _compare(name, connection.host)
                return data, None
            if connection.port == TLS_PORT:
                raise Refused("it is no TLS")
            found = plain_http.read_request(data)
        except (client_hello.Malformed, plain_http.Malformed) as error:
            raise Refused(str(error)) from None
        if found is not None:
            request, rest = found
            _compare(request.host, connection.host)
            rest = rest[: request.body]
            return request.head + rest, request.body - len(rest)
    raise Refused("it ended before it said whom it is for")


def _compare(said: str, host: str) -> None:
    if said.rstrip(".") != host:
        raise Refused("it names another host than the one it goes to")


async def connected(
    connection: Known, reach: Reach, tls: ssl.SSLContext | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a connection to the name, at an address that may be connected to; with `tls`, to a
    host that proved the name. Raises Refused."""
    why, private = "the name has no address", connection.port in reach.private
    for address in await _addresses(connection, reach):
        if not reach.address and (why := refusal(address, private=private)):
            continue
        try:
            reader, writer = await asyncio.open_connection(
                address,
                connection.port,
                limit=CHUNK,
                ssl=tls,
                server_hostname=connection.host if tls is not None else None,
            )
        except ssl.SSLCertVerificationError as error:
            why = f"its certificate is not trusted here: {error.verify_message}"
            continue
        except OSError as error:
            why = f"it cannot be connected to: {(error.strerror or 'it fails').lower()}"
            continue
        own = writer.get_extra_info("sockname")[0] == writer.get_extra_info("peername")[0]
        if own and not reach.address:
            writer.transport.abort()
            why = "it is an address of this host"
            continue
        connection.address = address
        return reader, writer
    raise Refused(why)


async def _addresses(connection: Known, reach: Reach) -> list[str]:
    if reach.address:
        return [reach.address]
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(
            connection.host, connection.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
        )
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(one[4][0]) for one in found))
