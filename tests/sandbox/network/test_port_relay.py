# SPDX-License-Identifier: Apache-2.0
"""The relay of an open port: its limits, and that one connection is in no other's way."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from sandbox.network import port_relay
from sandbox.network.port_relay import Relay
from sandbox.processes.loopback import HOST, listen_on

Answer = Callable[[], socket.socket | None]


class Supervising:
    """The supervisor's end of a relay: gives connections to what `dial` returns."""

    def __init__(self, dial: Answer) -> None:
        self._dial = dial
        self.tally: dict[str, int] = {}
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ours.setblocking(False)
        listener = listen_on(0, "")
        self.port: int = listener.getsockname()[1]
        listener.setblocking(False)
        self._serving = asyncio.create_task(Relay(theirs).serve(listener))
        self._ready = asyncio.Event()
        asyncio.get_running_loop().add_reader(self.ours, self._hear)

    def _hear(self) -> None:
        said: dict[str, Any] = json.loads(self.ours.recv(4096))
        self.tally = said.get("tally", self.tally)
        if "ready" in said:
            self._ready.set()
        if "dial" in said:
            answer, dialled = json.dumps({"n": said["dial"]}).encode(), self._dial()
            if dialled is None:
                self.ours.send(answer)
            else:
                with dialled:
                    socket.send_fds(self.ours, [answer], [dialled.fileno()])

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect as a program of this host does."""
        await self._ready.wait()
        return await asyncio.open_connection(HOST, self.port)

    async def end(self) -> None:
        """Go away, as a supervisor does that ends."""
        self.ours.shutdown(socket.SHUT_WR)
        await self._serving


@contextlib.asynccontextmanager
async def relayed(serve: Callable[..., Any]) -> AsyncIterator[Supervising]:
    """Lead a relay to a server of this process."""
    server = await asyncio.start_server(serve, HOST, 0)
    place = server.sockets[0].getsockname()

    def dial() -> socket.socket:
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex(place)
        return one

    supervising = Supervising(dial)
    yield supervising
    loop = asyncio.get_running_loop()
    await supervising.end()
    loop.remove_reader(supervising.ours)
    supervising.ours.close()
    server.close()


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.close()


async def _is_ended(reader: asyncio.StreamReader) -> bool:
    with contextlib.suppress(ConnectionError):
        return await asyncio.wait_for(reader.read(1), 60) == b""
    return True


def test_connections_beyond_the_limit_are_closed_and_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(port_relay, "MOST_OPEN", 2)

    async def scene() -> None:
        async with relayed(_echo) as supervising:
            kept = [await supervising.connect() for _ in range(2)]
            for reader, writer in kept:
                writer.write(b"here\n")
                assert await reader.readline() == b"here\n"
            assert await _is_ended((await supervising.connect())[0])
            reader, writer = kept[0]
            writer.write_eof()
            assert await reader.read() == b""
            kept[1][1].write(b"still\n")
            assert await kept[1][0].readline() == b"still\n"
            reader, writer = await supervising.connect()  # there is room again
            writer.write(b"again\n")
            assert await reader.readline() == b"again\n"
        assert await _is_ended(reader)  # what goes on ends with the supervisor
        assert (supervising.tally["connections"], supervising.tally["refused"]) == (3, 1)

    asyncio.run(scene())


def test_a_connection_on_which_nothing_moves_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        async with relayed(_echo) as supervising:
            reader, writer = await supervising.connect()
            writer.write(b"here\n")
            assert await reader.readline() == b"here\n"
            assert await _is_ended(reader)

    monkeypatch.setattr(port_relay, "IDLE_SECONDS", 0.2)
    asyncio.run(scene())


def test_a_connection_that_nothing_answers_ends_and_the_next_is_served() -> None:
    answers: list[bool] = [False, True]

    async def scene() -> None:
        async with relayed(_echo) as supervising:
            dial = supervising._dial
            supervising._dial = lambda: dial() if answers.pop(0) else None
            assert await _is_ended((await supervising.connect())[0])
            reader, writer = await supervising.connect()
            writer.write(b"here\n")
            assert await reader.readline() == b"here\n"

    asyncio.run(scene())
