# SPDX-License-Identifier: Apache-2.0
"""Frames between the supervisor and the programs inside containers (runner, keeper).

A frame is a 5-byte header (length of the body as a big-endian 32-bit number, then its kind) and a
body. JSON frames carry control messages; DATA frames carry bytes of one channel of one call, so
that nothing a command writes can be taken for a control message.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from typing import Any

JSON, DATA = 0, 1
STDIN, STDOUT, STDERR = 0, 1, 2
MAX_BODY = 64 * 1024 * 1024

_HEADER = struct.Struct(">IB")
_CHANNEL = struct.Struct(">IB")


class ProtocolError(Exception):
    """The other side sent what is no frame."""


def pack(message: dict[str, Any]) -> bytes:
    """Return a JSON frame. Lone surrogates (names that are not UTF-8) survive."""
    body = json.dumps(message, separators=(",", ":")).encode("ascii")
    return _HEADER.pack(len(body), JSON) + body


def pack_data(call: int, channel: int, data: bytes) -> bytes:
    """Return a DATA frame; empty data is the end of that channel."""
    return _HEADER.pack(len(data) + _CHANNEL.size, DATA) + _CHANNEL.pack(call, channel) + data


Frame = tuple[int, Any]
"""(JSON, message) or (DATA, (call, channel, bytes))."""


class Decoder:
    """Turn a stream of bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield each frame that is complete. Raises ProtocolError."""
        self._buffer += data
        while len(self._buffer) >= _HEADER.size:
            length, kind = _HEADER.unpack_from(self._buffer)
            if length > MAX_BODY or kind not in (JSON, DATA):
                raise ProtocolError(f"frame of kind {kind} and {length} bytes")
            end = _HEADER.size + length
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_HEADER.size : end])
            del self._buffer[:end]
            if kind == JSON:
                yield JSON, json.loads(body)
            else:
                call, channel = _CHANNEL.unpack_from(body)
                yield DATA, (call, channel, body[_CHANNEL.size :])


def write_all(fd: int, data: bytes) -> None:
    """Write all bytes to a blocking descriptor."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
