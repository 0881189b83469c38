# SPDX-License-Identifier: Apache-2.0
"""What a cell or a host makes a gateway say neither deafens the supervisor nor holds its end up."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import ssl
import struct
import sys
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import pytest

from sandbox.network import serve
from sandbox.network.book import Reach
from sandbox.network.carrier import Limits
from sandbox.network.gateway import Gateway
from sandbox.network.login.uses import Secret, Use
from sandbox.network.serve import Voice
from sandbox.network.traffic import MOST_ENDS, Traffic
from tests.sandbox.network.tls_servers import TestAuthority

NAME = "code.example"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
FAIR = Limits(open=8, total=100, sent=1 << 22, received=1 << 22)


def run(work: Coroutine[Any, Any, Any]) -> None:
    """Run a coroutine within generous bounds."""

    async def bounded() -> None:
        async with asyncio.timeout(90):
            await work

    asyncio.run(bounded())


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while await reader.read(1 << 17):
            writer.write(OK)
            await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def _gateway(folder: Path, *uses: Use) -> AsyncIterator[tuple[Gateway, str, int]]:
    """Give a running gateway, and where a cell connects to for `NAME`."""
    owner = TestAuthority(folder)
    far = await asyncio.start_server(_answer, "127.0.0.1", 0, ssl=owner.context(NAME))
    port = far.sockets[0].getsockname()[1]
    reaches = [Reach(NAME, (port,), address="127.0.0.1")]
    placed = [Use.of({**use.as_json(), "hosts": [f"{NAME}:{port}"]}) for use in uses]
    gateway = Gateway(
        reaches, FAIR, lambda: None, placed, lambda _id, _host: Secret("s3cret-of-a-person", "me")
    )
    sockets, asked = [], ("", 0)
    for kind, address, number in gateway.listeners:
        if kind == "udp":
            one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            one.bind(("127.0.0.1", 0))
            asked = one.getsockname()
        else:
            one = socket.create_server((address, number))
        sockets.append(one)
    await gateway.start(sockets, owner.certificate)
    try:
        yield gateway, await _address(asked), port
    finally:
        await gateway.end()
        far.close()


async def _address(server: tuple[str, int]) -> str:
    """Ask a gateway where `NAME` is."""
    labels = b"".join(bytes([len(one)]) + one.encode() for one in NAME.split("."))
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.setblocking(False)
        one.connect(server)
        header = struct.pack(">6H", 7, 0x100, 1, 0, 0, 0)
        await loop.sock_sendall(one, header + labels + b"\0\0\1\0\1")
        return socket.inet_ntoa((await loop.sock_recv(one, 512))[-4:])


async def _ask(gateway: Gateway, place: str, port: int, head: str, body: bytes = b"") -> bytes:
    trust = ssl.create_default_context(cadata=gateway.certificate)
    reader, writer = await asyncio.open_connection(place, port, ssl=trust, server_hostname=NAME)
    lines = f"{head}\r\nHost: {NAME}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(lines.encode() + body)
    out = b""
    with contextlib.suppress(OSError):
        while more := await reader.read(1 << 16):
            out += more
    writer.close()
    return out


def test_a_push_of_an_endless_name_deafens_nobody(tmp_path: Path) -> None:
    use = Use("code", (), "basic", "", ("GET",), (), ("refs/heads/agent/*",))
    line = b"0" * 40 + b" " + b"1" * 40 + b" refs/heads/" + b"\xff" * 65_000 + b"\0report-status"
    body = b"%04x" % (len(line) + 4) + line + b"0000"

    async def go() -> None:
        async with _gateway(tmp_path, use) as (gateway, place, port):
            kind = "Content-Type: application/x-git-receive-pack-request"
            head = f"POST /r/git-receive-pack HTTP/1.1\r\n{kind}"
            refused = await _ask(gateway, place, port, head, body)
            assert refused.startswith(b"HTTP/1.1 403")
            assert len(refused) < 1000
            for _ in range(3):
                assert (await _ask(gateway, place, port, "GET /x HTTP/1.1")).endswith(b"ok")
        traffic = gateway.traffic
        assert (traffic.count, traffic.credentials, traffic.lost) == (4, {"code": 3}, "")
        assert "it would change `refs/heads/" in traffic.stopped

    run(go())


@pytest.mark.parametrize("said", ["printf '%0200000d\\n' 7", "echo '{'", "echo 5"])
def test_a_line_that_cannot_be_read_ends_the_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    """It goes on saying things, waits for nothing, and is ended all the same."""
    fake = tmp_path / "fake"
    text = 'yes \'{"used": "code"}\''
    fake.write_text(f"#!/bin/sh\necho '{{\"ready\": true}}'\n{said}\nexec {text}\n")
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fake))

    async def go() -> None:
        gateway = Gateway([], FAIR, lambda: None)
        await gateway.start([], "")
        async with asyncio.timeout(30):
            while not gateway.traffic.lost:
                await asyncio.sleep(0.01)
        await gateway.end()
        assert gateway.traffic.lost.endswith("call: it said what cannot be read")
        assert gateway.traffic.credentials == {}

    run(go())


def test_a_gateway_that_ignores_its_end_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process of its own that holds its pipes open changes nothing."""
    fake = tmp_path / "fake"
    fake.write_text("#!/bin/sh\necho '{\"ready\": true}'\nsleep 20 &\nexec sleep 20\n")
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fake))
    monkeypatch.setattr("sandbox.network.gateway.END_SECONDS", 0.3)

    async def go() -> None:
        gateway = Gateway([], FAIR, lambda: None)
        await gateway.start([], "")
        async with asyncio.timeout(20):
            await gateway.end()

    run(go())


def test_a_full_pipe_blocks_no_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has to say waits, up to a measure; then the gateway ends."""

    async def go() -> None:
        out, into = os.pipe()
        voice = Voice(into)
        for number in range(2000):
            voice.say(connection={"end": f"{number} " + "\ufffd" * 60_000})
        lines = b""
        while lines.count(b"\n") < 100:
            lines += await asyncio.to_thread(os.read, out, 1 << 16)
        assert [json.loads(line)["connection"]["end"][:3] for line in lines.split(b"\n")[:2]] == [
            "0 \ufffd", "1 \ufffd"
        ]  # fmt: skip
        assert max(map(len, lines.split(b"\n"))) < 5000
        asyncio.get_running_loop().remove_writer(into)
        os.close(out)
        os.close(into)

    ended: list[int] = []
    monkeypatch.setattr(os, "kill", lambda _id, signal: ended.append(signal))
    monkeypatch.setattr(serve, "MOST_UNSAID", 1 << 24)
    run(go())
    assert ended == []
    monkeypatch.setattr(serve, "MOST_UNSAID", 1 << 20)
    run(go())
    assert ended


def test_how_connections_ended_is_bounded_altogether() -> None:
    traffic = Traffic()
    for number in range(400):
        end = f"refused: {number} {'x' * 480}"
        one = {"host": "a.example", "port": 443, "sent": 1, "received": 1, "end": end}
        traffic.hear(json.dumps({"connection": one}).encode())
    assert (traffic.count, len(traffic.connections)) == (400, 400)
    assert sum(len(one["end"]) for one in traffic.connections) < MOST_ENDS + 400 * 10
    assert traffic.connections[0]["end"].startswith("refused: 0 x")
    assert traffic.connections[-1]["end"] == "refused"
