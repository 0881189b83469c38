# SPDX-License-Identifier: Apache-2.0
"""One request of plain HTTP: whom it is for, how long it is, how it is passed on. Pure.

A connection carries one request, which is told to end it (`Connection: close`): a further one could
name another host. What a server might read otherwise than this does is refused.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MOST_BYTES = 65_536
"""Of a request's head."""
_LINE = re.compile(rb"([A-Z]{3,16}) (/[\x21-\x7e]*|\*) HTTP/1\.[01]")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}):[ \t]*([\x20-\x7e\x80-\xff\t]*)")
_DROPPED = frozenset(
    (b"connection", b"proxy-connection", b"keep-alive", b"upgrade", b"http2-settings", b"te")
)


class Malformed(ValueError):
    """It is no request that can be passed on; the text says why."""


class Request(NamedTuple):
    """A request's host (in lower case, without a port), its head as passed on, and its body's
    length in bytes."""

    host: str
    head: bytes
    body: int


def read_request(data: bytes) -> tuple[Request, bytes] | None:
    """Return the request and what of its body is there; None while more of its head is needed.

    Raises Malformed.
    """
    head, end, rest = data.partition(b"\r\n\r\n")
    if not end:
        if len(data) > MOST_BYTES:
            raise Malformed("its head is too long")
        return None
    first, *lines = head.split(b"\r\n")
    line = _LINE.fullmatch(first)
    if line is None or line[1] == b"CONNECT":
        raise Malformed("it is no plain request for a path")
    fields: list[tuple[bytes, bytes]] = []
    for one in lines:
        match = _FIELD.fullmatch(one)
        if match is None:
            raise Malformed("a header that is no header")
        fields.append((match[1].lower(), match[2].strip()))
    hosts = [value for name, value in fields if name == b"host"]
    if len(hosts) != 1:
        raise Malformed("it names no host" if not hosts else "it names two hosts")
    lengths = [value for name, value in fields if name == b"content-length"]
    if len(lengths) > 1 or not all(re.fullmatch(rb"[0-9]{1,15}", length) for length in lengths):
        raise Malformed("its length is not plain")
    if any(name == b"transfer-encoding" for name, _ in fields):
        raise Malformed("its body comes in pieces (chunked); over TLS that works")
    kept = [raw for raw, (name, _) in zip(lines, fields, strict=True) if name not in _DROPPED]
    passed = b"\r\n".join((first, *kept, b"Connection: close", b"", b""))
    host = hosts[0].decode("latin-1").lower()
    name = re.sub(r":[0-9]{1,5}$", "", host)
    return Request(name, passed, int(lengths[0]) if lengths else 0), rest
