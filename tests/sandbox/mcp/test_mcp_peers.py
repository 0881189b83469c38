# SPDX-License-Identifier: Apache-2.0
"""Clients over HTTP are put under watch by the process that really connected."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.agents.registry import Registry
from sandbox.errors import BadInput, Stopped
from sandbox.hooks.sessions import Sessions
from sandbox.host.dirs import Dirs
from sandbox.mcp.peers import Peers, process_of
from sandbox.stopping.stop import stop_all

CONNECT = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); {}"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


@pytest.fixture
def client(listener: socket.socket) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Yield a program that is connected, and the port that it connected from."""
    script = CONNECT.format("import time; time.sleep(300)")
    port = listener.getsockname()[1]
    with subprocess.Popen([sys.executable, "-c", script, str(port)]) as process:
        accepted, address = listener.accept()
        with accepted:
            yield process, address[1]
        process.kill()


def test_the_process_of_a_connection_is_found(
    listener: socket.socket, client: tuple[subprocess.Popen[bytes], int]
) -> None:
    process, port = client
    server = listener.getsockname()[1]
    assert process_of(port, server) == process.pid
    assert process_of(port, server + 1) is None
    assert process_of(server, server) is None


def test_a_client_is_under_watch_before_its_request_and_a_stop_ends_it(
    tmp_path: Path, listener: socket.socket, client: tuple[subprocess.Popen[bytes], int]
) -> None:
    process, port = client
    dirs = Dirs.under(tmp_path / "lockgate").create()
    sessions, asked, served = Sessions(dirs), [], []

    def watch(pid: int) -> None:
        asked.append(sessions.watch_itself("mcp", pid))

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        served.append([one.pid for one in Registry(dirs).all()])

    peers = Peers(inner, listener.getsockname()[1], watch)
    scope = {"type": "http", "client": ("127.0.0.1", port)}

    async def requests() -> None:
        for one in (scope, scope, {"type": "lifespan"}, {"type": "http", "client": None}):
            await peers(one, None, None)  # type: ignore[arg-type]

    asyncio.run(requests())
    assert served == [[process.pid]] * 4
    assert asked == ["main"]  # looked up once
    report = stop_all(dirs, "a test", engine=None)
    assert process.wait(120) != 0
    assert (len(report.killed), report.left) == (1, ())


@pytest.mark.parametrize("error", [Stopped, BadInput])
def test_who_cannot_be_watched_is_still_answered(
    listener: socket.socket,
    client: tuple[subprocess.Popen[bytes], int],
    error: type[Exception],
) -> None:
    served = []

    def watch(pid: int) -> None:
        raise error("no")

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        served.append(scope)

    scope = {"type": "http", "client": ("127.0.0.1", client[1])}
    peers = Peers(inner, listener.getsockname()[1], watch)
    asyncio.run(peers(scope, None, None))  # type: ignore[arg-type]
    assert served == [scope]
