# SPDX-License-Identifier: Apache-2.0
"""The gateway of one call: `python -m sandbox.network.serve`, with listening sockets of a cell.

A process of its own in the host's network, which holds nothing of the call but these sockets. Its
first line on standard input says which names they stand for, and its limits; it says what happened
as lines of JSON on standard output, and ends when its input does: no name outlives its call.
INVARIANT (P4, gateway): it carries bytes to a name that the call may reach, at an address that was
checked, and nowhere else.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread
import contextlib
import datetime
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Mapping
from typing import Any, cast

from sandbox.network import dns
from sandbox.network.book import Book, Reach
from sandbox.network.carrier import Carrier, Limits
from sandbox.network.confinement import confine
from sandbox.network.holding import Holding
from sandbox.network.login.broker import Broker
from sandbox.network.login.uses import Use

MOST_LINE = 1 << 21
MOST_REFUSED = 100
"""Refused names that are said; more are not."""
MOST_TEXT = 500
"""Characters of each text that is said."""
MOST_UNSAID = 1 << 20
"""Bytes that wait for the supervisor to read them."""
FINISH_SECONDS = 2.0
_LOOKUPS = 8
"""Names that are looked up at once."""


class Resolver(asyncio.DatagramProtocol):
    """Answers the cell's questions for names out of the book."""

    def __init__(self, book: Book, refused: Refusals) -> None:
        self._book = book
        self._refused = refused
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # asyncio's own transports of datagrams do not derive from its class of them
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """Answer one question; what is none gets an error."""
        assert self._transport is not None
        try:
            question = dns.read_question(data)
        except dns.Malformed:
            if reply := dns.refuse(data):
                self._transport.sendto(reply, addr)
            return
        address = self._book.address(question.name)
        if address is None:
            self._refused.note(question.name)
        self._transport.sendto(dns.answer(question, address), addr)


class Refusals:
    """The names that a call asked for and may not reach; each is said once."""

    def __init__(self, voice: Voice) -> None:
        self._voice = voice
        self._names: set[str] = set()

    def note(self, name: str) -> None:
        """Say a name, unless it was said, or too many were."""
        if name not in self._names and len(self._names) < MOST_REFUSED:
            self._names.add(name)
            self._voice.say(refused=name)


class Voice:
    """Says things to the supervisor, in lines of bounded length, and waits for nobody.

    INVARIANT (P4, gateway): what cannot be said is not carried: the gateway ends where its lines
    are not taken.
    """

    def __init__(self, out: int = 1) -> None:
        self._out = out
        self._unsaid = bytearray()
        os.set_blocking(out, False)

    def say(self, **what: Any) -> None:
        """Write one line, now or once there is room; its texts are cut to `MOST_TEXT`."""
        self.write(_cut(what))

    def write(self, what: Any) -> None:
        """Write one line whose texts are of known length."""
        self._unsaid += json.dumps(what).encode() + b"\n"
        if len(self._unsaid) > MOST_UNSAID:
            os.kill(os.getpid(), signal.SIGKILL)
        if self._flush():
            asyncio.get_running_loop().add_writer(self._out, self._go_on)

    def finish(self) -> None:
        """Write what is left, for as long as anybody takes it."""
        while self._flush():
            if not select.select((), (self._out,), (), FINISH_SECONDS)[1]:
                return

    def _go_on(self) -> None:
        if not self._flush():
            asyncio.get_running_loop().remove_writer(self._out)

    def _flush(self) -> bool:
        """Write what there is room for; return whether something is left."""
        try:
            while self._unsaid:
                del self._unsaid[: os.write(self._out, self._unsaid)]
        except BlockingIOError:
            return True
        except OSError:  # nobody hears it any more: standard input ends too
            self._unsaid.clear()
        return False


def _cut(what: Any) -> Any:
    """Return plain data with every text in it cut."""
    if isinstance(what, dict):
        return {name: _cut(one) for name, one in what.items()}
    return what[:MOST_TEXT] if isinstance(what, str) else what


class Ears:
    """Hears what the supervisor says after its order: secrets that were asked for, a person's
    answers, and the end."""

    def __init__(self, broker: Broker | None, holding: Holding) -> None:
        self._broker = broker
        self._holding = holding
        self._line = b""
        self.over = asyncio.Event()

    def listen(self) -> None:
        """Take what is there to read."""
        data = os.read(0, MOST_LINE)
        *lines, self._line = (self._line + data).split(b"\n")
        if not data or len(self._line) > MOST_LINE:
            self.over.set()
        for line in lines:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                message = json.loads(line)
                if "answer" in message:
                    self._holding.hear(message["answer"])
                elif self._broker is not None:
                    self._broker.hear(message["secret"])


def prepare(order: Mapping[str, Any], voice: Voice) -> tuple[Broker | None, str]:
    """Return what stands for hosts that get a credential, and the certificate that a cell must
    trust for them; None where there are none."""
    uses = [Use.of(use) for use in order["uses"]]
    if not uses:
        return None, ""
    from sandbox.network.login.authority import far_context, make_authority
    from sandbox.network.login.exchange import LoginExchange

    names = {host.rpartition(":")[0] for use in uses for host in use.hosts}
    made = make_authority(names, datetime.datetime.now(datetime.UTC))
    far = far_context(order["certificates"])
    return Broker(uses, made.contexts, far, LoginExchange, voice.say), made.certificate


async def serve(
    order: Mapping[str, Any],
    sockets: list[socket.socket],
    broker: Broker | None,
    certificate: str,
    voice: Voice,
) -> None:
    """Serve until standard input ends."""
    loop = asyncio.get_running_loop()
    loop.set_default_executor(concurrent.futures.thread.ThreadPoolExecutor(_LOOKUPS))
    reaches = [Reach.of(one) for one in order["reaches"]]
    book = Book(reaches, spare=order["spare"], ports=tuple(order["asked_ports"]))
    holding = Holding(lambda host, port: voice.say(asks={"host": host, "port": port}))
    refused = Refusals(voice)
    carrier = Carrier(
        book,
        Limits(**order["limits"]),
        lambda ended: voice.say(connection=ended),
        lambda why: voice.say(over=why),
        broker,
        holding,
    )
    for kind, one in zip((each[0] for each in book.listeners()), sockets, strict=True):
        one.setblocking(False)
        if kind == "udp":
            await loop.create_datagram_endpoint(lambda: Resolver(book, refused), sock=one)
        else:
            await asyncio.start_server(carrier.take, sock=one, limit=carrier.BUFFER)
    ears = Ears(broker, holding)
    loop.add_reader(0, ears.listen)
    voice.write({"ready": True, "certificate": certificate})
    await ears.over.wait()
    await carrier.close()
    for name in book.without_right():
        if name not in holding.names:  # nothing connected where it could be asked about
            refused.note(name)
    voice.finish()


def main() -> None:
    """Read what to serve, and serve it."""
    line = b""
    while not line.endswith(b"\n") and len(line) < MOST_LINE:
        data = os.read(0, MOST_LINE)
        if not data:
            return
        line += data
    order = json.loads(line)
    sockets = [socket.socket(fileno=number) for number in order["sockets"]]
    "name.invalid".encode("idna")  # what is imported late might not be readable afterwards
    voice = Voice()
    broker, certificate = prepare(order, voice)
    confine()
    asyncio.run(serve(order, sockets, broker, certificate, voice))


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    main()
