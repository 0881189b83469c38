# SPDX-License-Identifier: Apache-2.0
"""How client and supervisor talk: JSON objects, one per line, over a unix socket.

Bytes travel as base64. A message longer than a line may be is sent in pieces, which are lines of
their own. Standard library only. What the messages mean is the business of `server` and `client`.

A client sends `{"id", "op", ...}`; for the same id come back any number of `{"id", "event", ...}`
with `output`, `ask` or `stdin`, and then exactly one with `result`, `error` or `cancelled`. The
first line of every connection is the supervisor's `hello`.
"""

from __future__ import annotations

from sandbox import errors
from sandbox.text.json_text import dump_json, load_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    Message: TypeAlias = dict[str, Any]
else:
    Message = dict

LINE_BYTES = 4 * 1024 * 1024
"""Longest line; a longer one ends the connection."""
PIECE_CHARS = 1024 * 1024
MESSAGE_CHARS = 64 * 1024 * 1024
"""Longest message that is put together from pieces."""
REQUEST_CHARS = 16 * 1024 * 1024
"""Longest message that a supervisor takes: reading one keeps it from everything else."""
SPEAKS_FOR = "for"
"""The field of a request that names the agent for which a door makes it."""
CHUNK_BYTES = 256 * 1024
"""Most bytes of output or input in one message."""


class WireError(errors.Unavailable):
    """The other side does not speak as agreed."""


def encode(message: Message, most: int = MESSAGE_CHARS) -> bytes:
    """Return a message as one line, or as several when it is too long for one.

    Raises BadInput for one of more than `most` characters.
    """
    text = dump_json(message)
    if len(text) < LINE_BYTES:
        return text.encode("ascii") + b"\n"
    if len(text) > most:
        raise errors.BadInput(f"the message is longer than {most} characters")
    starts = range(0, len(text), PIECE_CHARS)
    pieces = [
        {"piece": text[at : at + PIECE_CHARS], "more": at + PIECE_CHARS < len(text)}
        for at in starts
    ]
    return b"".join(encode(piece) for piece in pieces)


class Decoder:
    """Puts messages together from bytes as they come. Raises WireError."""

    def __init__(self, most: int = MESSAGE_CHARS) -> None:
        """`most` is in characters."""
        self._most = most
        self._rest = bytearray()
        self._pieces: list[str] = []
        self._pieced = 0

    def feed(self, data: bytes) -> list[Message]:
        """Return the messages that `data` completes."""
        self._rest += data
        if b"\n" not in data:
            self._check_length(len(self._rest))
            return []
        *lines, rest = self._rest.split(b"\n")
        self._rest = rest
        self._check_length(len(rest))
        found = []
        for line in lines:
            self._check_length(len(line))
            message = _parse(line)
            if "piece" in message:
                whole = self._join(message)
                if whole is None:
                    continue
                message = whole
            found.append(message)
        return found

    def _join(self, piece: Message) -> Message | None:
        text = piece["piece"]
        if not isinstance(text, str):
            raise WireError("a piece of a message is not text")
        self._pieces.append(text)
        self._pieced += len(text)
        if self._pieced > self._most:
            raise WireError(f"a message is longer than {self._most} characters")
        if piece.get("more") is True:
            return None
        whole = "".join(self._pieces)
        self._pieces, self._pieced = [], 0
        return _parse(whole)

    @staticmethod
    def _check_length(length: int) -> None:
        if length > LINE_BYTES:
            raise WireError(f"a line is longer than {LINE_BYTES} bytes")


def pack(data: bytes) -> str:
    """Return bytes as text for a message."""
    import binascii

    return binascii.b2a_base64(data, newline=False).decode("ascii")


def unpack(text: object) -> bytes:
    """Return the bytes of a text made by `pack`. Raises WireError."""
    import binascii  # not every call has bytes

    try:
        if isinstance(text, str):
            return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        pass
    raise WireError("bytes are not given as base64")


def failure(message: Message) -> errors.SandboxError:
    """Return the exception that an `error` event stands for."""
    kind = getattr(errors, str(message.get("kind")), errors.SandboxError)
    if not (isinstance(kind, type) and issubclass(kind, errors.SandboxError)):
        kind = errors.SandboxError
    return kind(str(message.get("message")))


def _parse(text: str | bytes | bytearray) -> Message:
    try:
        message = load_json(text)
    except (ValueError, RecursionError):
        raise WireError("a line is not JSON") from None
    if not isinstance(message, dict):
        raise WireError("a line is not a JSON object")
    return message
