# SPDX-License-Identifier: Apache-2.0
"""What a gateway carries, and where to: real connections on this host's loopback, no cell."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from sandbox.network import carrier as carrying
from sandbox.network import ends
from sandbox.network.book import Book, Reach
from sandbox.network.carrier import Carrier, Limits
from tests.sandbox.network.test_gateway_readers import hello

NAME = "index.example"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
FAIR = Limits(open=4, total=100, sent=1 << 20, received=1 << 20)


class Far:
    """A server that keeps what it is sent."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the first piece."""
        data = await reader.read(100_000)
        self.heard.append(data)
        with contextlib.suppress(OSError):
            writer.write(ANSWER)
            await writer.drain()
            while more := await reader.read(100_000):
                self.heard[-1] += more
        writer.close()


class Way:
    """A carrier between a listener, which stands for the cell's, and a far server."""

    def __init__(self, far: Far, near: int, told: list[dict[str, Any]], address: str) -> None:
        self.far = far
        self.near = near
        self.told = told
        self.address = address
        self.over: list[str] = []
        """Why the whole call was said to be at its end."""

    async def send(self, data: bytes, *, end: bool = False) -> bytes:
        """Connect as the cell does, send, and return what comes until the end."""
        reader, writer = await asyncio.open_connection(self.address, self.near)
        out = b""
        with contextlib.suppress(OSError):
            writer.write(data)
            await writer.drain()
            if end:
                writer.write_eof()
            out = await reader.read(len(ANSWER))
        writer.close()
        return out

    async def ended(self, count: int = 1) -> list[dict[str, Any]]:
        """Wait until so many connections were told of."""
        async with asyncio.timeout(30):
            while len(self.told) < count:
                await asyncio.sleep(0.01)
        return self.told


@contextlib.asynccontextmanager
async def way(
    reach: Callable[[int], Reach], limits: Limits = FAIR, *, port: int | None = None
) -> AsyncIterator[Way]:
    """Give a way to a far server on this host's loopback."""
    far, told = Far(), list[dict[str, Any]]()
    server = await asyncio.start_server(far.serve, "127.0.0.1", 0)
    far.port = server.sockets[0].getsockname()[1]
    book = Book([reach(port or far.port)])
    address = book.address(NAME)
    assert address is not None
    made = Way(far, port or far.port, told, address)
    carrier = Carrier(book, limits, told.append, made.over.append)
    near = await asyncio.start_server(carrier.take, address, port or far.port)
    try:
        yield made
    finally:
        near.close()
        await carrier.close()
        server.close()


def at_loopback(port: int) -> Reach:
    """Return the far server as a person names it: with its address."""
    return Reach(NAME, (port,), address="127.0.0.1")


def by_name(port: int) -> Reach:
    """Return it as a name alone."""
    return Reach(NAME, (port,))


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine within generous bounds."""

    async def bounded() -> Any:
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(bounded())


def plain(host: str) -> bytes:
    """Return a plain request for a host."""
    return f"GET /x HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()


def test_a_plain_request_for_the_name_is_carried() -> None:
    async def go() -> None:
        async with way(at_loopback) as one:
            assert await one.send(plain(NAME)) == ANSWER
            (told,) = await one.ended()
            assert one.far.heard == [plain(NAME)[:-2] + b"Connection: close\r\n\r\n"]
            assert (told["host"], told["address"], told["end"]) == (NAME, "127.0.0.1", "ended")
            assert told["received"] == len(ANSWER)
            assert told["sent"] == len(one.far.heard[0])

    run(go())


def test_a_first_message_of_tls_for_the_name_is_carried_as_it_came() -> None:
    async def go() -> None:
        async with way(at_loopback) as one:
            data = hello(NAME)
            assert await one.send(data) == ANSWER
            assert one.far.heard[0] == data

    run(go())


ELSEWHERE = {
    "another host in plain": plain("other.example"),
    "another name in TLS": hello("other.example"),
    "no name in TLS": hello(None),
    "neither": b"SECRET\r\n\r\n",
    "a name that only begins like it": plain(f"{NAME}.evil.example"),
    "a name below it": hello(f"x.{NAME}"),
}


@pytest.mark.parametrize("data", ELSEWHERE.values(), ids=ELSEWHERE)
def test_what_names_another_host_never_leaves(data: bytes) -> None:
    async def go() -> None:
        async with way(at_loopback) as one:
            assert await one.send(data, end=True) == b""
            (told,) = await one.ended()
            assert told["end"].startswith("refused: ")
            assert told["sent"] == 0
            assert one.far.heard == []

    run(go())


def test_a_second_request_on_a_connection_goes_nowhere() -> None:
    async def go() -> None:
        async with way(at_loopback) as one:
            assert await one.send(plain(NAME) + plain("other.example"), end=True) == ANSWER
            await one.ended()
            assert b"other.example" not in one.far.heard[0]

    run(go())


def test_plain_http_has_no_way_to_the_port_of_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        async with way(at_loopback) as one:
            monkeypatch.setattr(ends, "TLS_PORT", one.near)
            assert await one.send(plain(NAME), end=True) == b""
            (told,) = await one.ended()
            assert told["end"] == "refused: it is no TLS"
            assert await one.send(hello(NAME)) == ANSWER

    run(go())


def resolving(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """Let names resolve to these addresses, one answer after the other; return what was asked."""
    asked: list[str] = []
    left = list(answers)
    real = socket.getaddrinfo

    def resolve(host: Any, port: Any, *more: Any, **named: Any) -> Any:
        if host != NAME:
            return real(host, port, *more, **named)
        asked.append(host)
        found = left.pop(0) if len(left) > 1 else left[0]
        return [
            (socket.AF_INET6 if ":" in one else socket.AF_INET, socket.SOCK_STREAM, 6, "",
             (one, port)) for one in found
        ]  # fmt: skip

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return asked


REBOUND = {
    "loopback": ["127.0.0.1"],
    "loopback in six": ["::1"],
    "mapped": ["::ffff:127.0.0.1"],
    "metadata": ["169.254.169.254"],
    "private": ["10.255.255.1"],
    "any": ["0.0.0.0"],
    "all of them": ["127.0.0.1", "::1", "10.0.0.1"],
}


@pytest.mark.parametrize("answer", REBOUND.values(), ids=REBOUND)
def test_a_name_that_leads_to_this_host_or_its_network_is_refused(
    answer: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go() -> None:
        asked = resolving(monkeypatch, answer)
        async with way(by_name) as one:
            assert await one.send(plain(NAME), end=True) == b""
            (told,) = await one.ended()
            assert told["end"].startswith("refused: it ")
            assert "address" not in told
            assert (one.far.heard, asked) == ([], [NAME])

    run(go())


def test_what_was_checked_is_connected_to_whatever_a_second_answer_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first answer is public, every later one is this host: no later one is ever asked for."""

    async def go() -> None:
        asked = resolving(monkeypatch, ["192.0.2.1"], ["127.0.0.1"])
        seen: list[str] = []

        async def connect(host: str, *_: Any, **__: Any) -> Any:
            seen.append(host)
            raise ConnectionRefusedError(111, "Connection refused")

        async with way(lambda port: Reach(NAME, (port,), private=(port,))) as one:
            reader, writer = await asyncio.open_connection(one.address, one.near)
            monkeypatch.setattr(asyncio, "open_connection", connect)
            writer.write(plain(NAME))
            assert await reader.read(10) == b""
            await one.ended()
            assert (asked, seen) == ([NAME], ["192.0.2.1"])
            assert one.far.heard == []
            writer.close()

    with contextlib.suppress(ConnectionResetError):
        run(go())


@pytest.mark.parametrize("named", [True, False])
def test_a_private_network_is_open_at_the_port_that_names_it_alone(
    named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go() -> None:
        resolving(monkeypatch, ["10.255.255.1"])
        seen: list[str] = []

        async def connect(host: str, *_: Any, **__: Any) -> Any:
            seen.append(host)
            raise ConnectionRefusedError(111, "Connection refused")

        def both(port: int) -> Reach:
            return Reach(NAME, (port,), private=(port if named else port + 1,))

        async with way(both) as one:
            _, writer = await asyncio.open_connection(one.address, one.near)
            monkeypatch.setattr(asyncio, "open_connection", connect)
            writer.write(plain(NAME))
            (told,) = await one.ended()
            assert ("private network" in told["end"]) is not named
            assert seen == (["10.255.255.1"] if named else [])
            writer.close()

    run(go())


def test_an_address_that_nobody_asked_a_name_for_leads_nowhere() -> None:
    async def go() -> None:
        told: list[dict[str, Any]] = []
        book = Book([Reach(NAME, (443,), address="127.0.0.1")])
        carrier = Carrier(book, FAIR, told.append, pytest.fail)
        server = await asyncio.start_server(carrier.take, "127.1.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.1.0.1", port)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read(10) == b""
        writer.close()
        assert told[0]["end"] == "refused: nobody asked for a name there"
        server.close()

    run(go())


def test_more_than_a_call_may_send_ends_its_network() -> None:
    async def go() -> None:
        limits = Limits(open=4, total=100, sent=300, received=1 << 20)
        async with way(at_loopback, limits) as one:
            assert await one.send(plain(NAME)) == ANSWER
            body = b"POST / HTTP/1.1\r\nHost: index.example\r\nContent-Length: 9000\r\n\r\n"
            await one.send(body + b"s" * 9000)
            await one.ended(2)
            assert "network.upload_mib" in one.told[1]["end"]
            assert await one.send(plain(NAME)) == b""
            await one.ended(3)
            assert one.over == ["the call sent more than it may (`network.upload_mib`)"]
            assert sum(map(len, one.far.heard)) <= 300

    run(go())


def test_more_than_a_call_may_receive_ends_its_network() -> None:
    async def go() -> None:
        limits = Limits(open=4, total=100, sent=1000, received=len(ANSWER) + 5)
        async with way(at_loopback, limits) as one:
            assert await one.send(plain(NAME)) == ANSWER
            await one.ended()
            await one.send(plain(NAME))
            await one.ended(2)
            assert "network.download_mib" in one.told[1]["end"]

    run(go())


async def _hold(one: Way, stack: contextlib.AsyncExitStack) -> None:
    _, writer = await asyncio.open_connection(one.address, one.near)
    stack.callback(writer.close)


def test_of_too_many_connections_only_the_last_ones_are_refused() -> None:
    async def go() -> None:
        limits = Limits(open=2, total=100, sent=1 << 20, received=1 << 20)
        async with way(at_loopback, limits) as one, contextlib.AsyncExitStack() as stack:
            await _hold(one, stack)
            assert await one.send(plain(NAME)) == ANSWER
            await one.ended()
            await _hold(one, stack)
            assert await one.send(plain(NAME)) == b""
            assert (await one.ended(2))[1]["end"] == "refused: too many connections"

    run(go())


def test_a_client_that_says_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        monkeypatch.setattr(carrying, "FIRST_SECONDS", 0.05)
        async with way(at_loopback) as one:
            assert await one.send(b"") == b""
            assert (await one.ended())[0]["end"] == "idle"

    run(go())


def test_what_is_open_when_the_call_ends_is_cut() -> None:
    async def go() -> None:
        async with way(at_loopback) as one:
            reader, writer = await asyncio.open_connection(one.address, one.near)
            writer.write(hello(NAME))
            assert await reader.read(len(ANSWER)) == ANSWER
        assert one.told[0]["end"] == "its call is over"
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read(10) == b""
        writer.close()

    run(go())


def test_tls_stays_between_its_ends() -> None:
    """The gateway has no key: what goes through it is what the client sent."""

    async def go() -> None:
        async with way(at_loopback) as one:
            context = ssl.create_default_context()
            with pytest.raises((ssl.SSLError, OSError)):
                await asyncio.open_connection(
                    one.address, one.near, ssl=context, server_hostname=NAME
                )
            assert one.far.heard[0][:1] == b"\x16"

    run(go())
