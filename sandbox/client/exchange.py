# SPDX-License-Identifier: Apache-2.0
"""One request over a line: its input out, its events in, to the final one.

Imports nothing heavy: the thin programs use it as `BlockingClient` does.
"""

from __future__ import annotations

import os

from sandbox.client import wire
from sandbox.errors import Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from sandbox.client.line import Line
    from sandbox.host.poll import Readable

    OnInput = Callable[[bytes], object]
    OnOutput = Callable[[str, bytes], None]
    OnWait = Callable[[str, float], None]
    OnHost = Callable[[str, str], None]
    OnDelay = Callable[[str], object]
    OnAsk = Callable[[wire.Message, Readable], Mapping[str, Any] | None]
    """Takes an `ask` event, and what can be read once the question is settled elsewhere; returns
    approved, by, reason, or None where it was settled."""

CANCEL_SECONDS = 10.0
"""How long a cancelled call may take to end before the connection is cut."""


class Exchange:
    """One request of a line, with whoever is told of its events."""

    def __init__(
        self,
        line: Line,
        number: int,
        *,
        on_output: OnOutput | None = None,
        on_ask: OnAsk | None = None,
        stdin: bytes | Readable | None = None,
        on_input: OnInput | None = None,
        on_wait: OnWait | None = None,
        on_host: OnHost | None = None,
        on_delay: OnDelay | None = None,
    ) -> None:
        """`on_wait` is told by which call changes wait to land, and for how many seconds;
        `on_host` which question waits while the call runs, and what it is about; `on_delay` in
        words what the request itself has to wait for.
        `on_input` is told what of `stdin` is sent; the result says how much of it was read."""
        self._line = line
        self._number = number
        self._on_output = on_output
        self._on_ask = on_ask
        self._on_wait = on_wait
        self._on_host = on_host
        self._on_delay = on_delay
        self._has_input = stdin is not None
        self._source = _Source(stdin, on_input)

    def make(self, fields: Mapping[str, Any]) -> Any:
        """Send the request, `op` and its fields, and return the plain value of its result.

        On KeyboardInterrupt a call is cancelled, waited for, and the interrupt raised again.
        Raises SandboxError; the line is of no use after Unavailable.
        """
        request = {"id": self._number, **fields}
        if fields["op"] == "call":
            request |= {
                "output": self._on_output is not None,
                "ask": self._on_ask is not None or fields.get("ask", False),
                "stdin": self._has_input,
            }
        try:
            self._line.send(request)
            return self._follow()
        except KeyboardInterrupt:
            self._cancel()
            raise

    def _follow(self) -> Any:
        """Handle events until the request's final one."""
        line, source = self._line, self._source
        while True:
            if source.wanted and not line.waiting and source.comes_before(line):
                line.send({"id": self._number, "op": "stdin", "data": wire.pack(source.take())})
                continue
            message = line.receive()
            if message.get("id") not in (self._number, None):
                continue
            match message.get("event"):
                case "output" if self._on_output is not None:
                    self._on_output(str(message["stream"]), wire.unpack(message["data"]))
                case "waits" if self._on_wait is not None:
                    self._on_wait(str(message["call"]), float(message["seconds"]))
                case "asks" if self._on_host is not None:
                    self._on_host(str(message["call"]), str(message["wants"]))
                case "delayed" if self._on_delay is not None:
                    self._on_delay(str(message["why"]))
                case "stdin":
                    source.wanted = True
                case "ask":
                    if line.waiting:  # it was settled just now
                        continue
                    ask = self._on_ask
                    answer = {"approved": False} if ask is None else ask(message, line)
                    if answer is not None:
                        line.send({"id": self._number, "op": "answer", **answer})
                case "result":
                    return message.get("value")
                case "error":
                    raise wire.failure(message)
                case "cancelled":
                    raise Unavailable("the call was cancelled; nothing of it landed")

    def _cancel(self) -> None:
        """Cancel the request and wait until the supervisor has ended it; show its last output."""
        from sandbox.host.poll import readable

        line = self._line
        try:
            line.send({"id": self._number, "op": "cancel"})
            while line.waiting or readable([line], CANCEL_SECONDS):
                message = line.receive()
                if message.get("event") == "output" and self._on_output is not None:
                    self._on_output(str(message["stream"]), wire.unpack(message["data"]))
                if message.get("event") in ("result", "error", "cancelled"):
                    return
            line.close()
        except Unavailable:
            line.close()


class _Source:
    """A call's input, given out piece by piece when the supervisor wants it."""

    def __init__(self, source: bytes | Readable | None, told: OnInput | None) -> None:
        self._told = told
        self._data = source if isinstance(source, bytes) else None
        self._file = None if source is None or isinstance(source, bytes) else source
        self._at = 0
        self.wanted = False

    def comes_before(self, line: Line) -> bool:
        """Wait for input or for a message; True when it is input that can be read."""
        if self._file is None:
            return True
        from sandbox.host.poll import readable  # not every call has an input to wait for

        return line not in readable([line, self._file])

    def take(self) -> bytes:
        """Return the next piece; empty at the end."""
        self.wanted = False
        if self._file is not None:
            try:
                piece = os.read(self._file.fileno(), wire.CHUNK_BYTES)
            except OSError:  # a closed or hung-up input is an ended one
                return b""
            if self._told is not None:
                self._told(piece)
            return piece
        if self._data is None:
            return b""
        piece = self._data[self._at : self._at + wire.CHUNK_BYTES]
        self._at += len(piece)
        return piece
