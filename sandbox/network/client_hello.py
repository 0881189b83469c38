# SPDX-License-Identifier: Apache-2.0
"""The first message of a TLS connection, as far as it says whom the client wants. Pure.

Strict: what a server might read otherwise than this does is refused.
"""

from __future__ import annotations

MOST_BYTES = 65_536
"""Of records that hold the first message."""
HANDSHAKE = 22
_CLIENT_HELLO = 1
_SERVER_NAME, _ENCRYPTED_HELLO = 0, 0xFE0D
_MOST_RECORD = 16_384 + 256


class Malformed(ValueError):
    """It is no such message, or says nothing that could be checked."""


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        if count > self.left:
            raise Malformed("a field is longer than its message")
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def part(self, size: int) -> _Reader:
        return _Reader(self.take(self.number(size)))


def server_name(data: bytes) -> str | None:
    """Return the name that a client asks for, in lower case; None while more bytes are needed.

    Raises Malformed, also for a message without a name, with two, or with a hidden one.
    """
    message = _message(data)
    if message is None:
        return None
    hello = _Reader(message)
    hello.take(2 + 32)  # version, random
    hello.part(1)  # session
    hello.part(2)  # ciphers
    hello.part(1)  # compressions
    extensions = hello.part(2)
    if hello.left:
        raise Malformed("there is more behind it")
    names: list[str] = []
    seen: set[int] = set()
    while extensions.left:
        kind, body = extensions.number(2), extensions.part(2)
        if kind in seen:
            raise Malformed("an extension twice")
        seen.add(kind)
        if kind == _ENCRYPTED_HELLO:
            raise Malformed("its true name is encrypted (ECH)")
        if kind == _SERVER_NAME:
            names += _names(body)
    if len(names) != 1:
        raise Malformed("it names no host" if not names else "it names two hosts")
    return names[0]


def _names(body: _Reader) -> list[str]:
    entries, found = body.part(2), []
    while entries.left:
        kind, name = entries.number(1), entries.part(2)
        if kind != 0:
            raise Malformed("a name of an unknown kind")
        try:
            found.append(name.take(name.left).decode("ascii").lower())
        except UnicodeDecodeError:
            raise Malformed("a name that is not ASCII") from None
    if body.left:
        raise Malformed("there is more behind its names")
    return found


def _message(data: bytes) -> bytes | None:
    """Return the body of the first message, out of the records that carry it."""
    body, at = b"", 0
    while True:
        if len(body) >= 4:
            if body[0] != _CLIENT_HELLO:
                raise Malformed("another message comes first")
            length = int.from_bytes(body[1:4], "big")
            if length > MOST_BYTES:
                raise Malformed("it is too long")
            if len(body) >= 4 + length:
                if len(body) > 4 + length:
                    raise Malformed("there is more behind it")
                return body[4:]
        if data[at : at + 1] not in (b"", bytes((HANDSHAKE,))):
            raise Malformed("it is no TLS")
        if data[at + 1 : at + 2] not in (b"", b"\x03"):
            raise Malformed("it is no TLS of today")
        if len(data) < at + 5:
            return None
        length = int.from_bytes(data[at + 3 : at + 5], "big")
        if not 0 < length <= _MOST_RECORD:
            raise Malformed("the length of a record")
        if len(data) < at + 5 + length:
            return None
        body += data[at + 5 : at + 5 + length]
        at += 5 + length
