# SPDX-License-Identifier: Apache-2.0
"""What the gateway of a call costs: TLS that is passed on, and TLS that ends there to log in.

python -m tests.bench.network [--mib N] [--connections N]

Everything is on this host's loopback, without a cell: a client, the gateway's process, and a server
in a process of its own. Direct connections of the same client to the same server stand beside.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

from sandbox.network.book import Reach
from sandbox.network.carrier import Limits
from sandbox.network.gateway import Gateway
from sandbox.network.login.uses import Secret, Use
from tests.sandbox.network.test_gateway_readers import asked
from tests.sandbox.network.tls_servers import TestAuthority

NAME = "code.example"
MIB = 1 << 20
FAIR = Limits(open=64, total=100_000, sent=1 << 40, received=1 << 40)
DIRECT, PASSED, CREDENTIAL = "direct", "passed on", "with a credential"


@dataclass(frozen=True, slots=True)
class Way:
    """How a client gets to the server."""

    name: str
    address: str
    port: int
    trust: ssl.SSLContext


@dataclass(frozen=True, slots=True)
class Cost:
    """What one way costs."""

    megabytes: float
    """In a second, of one long answer."""
    milliseconds: float
    """The median of a connection with a short request."""


def fetch(way: Way, size: int) -> float:
    """Fetch so many bytes over a connection of its own; return the seconds."""
    started = time.perf_counter()
    with (
        socket.create_connection((way.address, way.port)) as plain,
        way.trust.wrap_socket(plain, server_hostname=NAME) as one,
    ):
        one.sendall(f"GET /{size} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n".encode())
        buffer, count, head = memoryview(bytearray(1 << 18)), 0, b""
        while b"\r\n\r\n" not in head:
            head += one.recv(4096)
        count = len(head.partition(b"\r\n\r\n")[2])
        while count < size and (more := one.recv_into(buffer)):
            count += more
    assert count == size, f"{way.name}: {count} bytes came"
    return time.perf_counter() - started


def measure(way: Way, mib: int, connections: int) -> Cost:
    """Measure a way, once it is warm."""
    fetch(way, 1)
    long = min(fetch(way, mib * MIB) for _ in range(3))
    short = statistics.median(fetch(way, 1) for _ in range(connections))
    return Cost(mib * MIB / 1e6 / long, short * 1000)


@contextlib.asynccontextmanager
async def gateway(owner: TestAuthority, port: int, *uses: Use) -> AsyncIterator[Way]:
    """Give a way over a gateway of its own."""
    reaches = [Reach(NAME, (port,), address="127.0.0.1")]
    made = Gateway(reaches, FAIR, lambda: None, uses, lambda *_: Secret("s3cret-of-a-person", "me"))
    sockets, resolver = [], ("", 0)
    for kind, address, number in made.listeners:
        if kind == "udp":
            sockets.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            sockets[-1].bind(("127.0.0.1", 0))
            resolver = sockets[-1].getsockname()
        else:
            sockets.append(socket.create_server((address, number)))
    await made.start(sockets, owner.certificate)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.sendto(asked(NAME.encode()), resolver)
            address = socket.inet_ntoa((await asyncio.to_thread(one.recv, 512))[-4:])
        trust = ssl.create_default_context(cadata=made.certificate or owner.certificate)
        yield Way(CREDENTIAL if uses else PASSED, address, port, trust)
    finally:
        await made.end()
    assert bool(made.traffic.credentials) == bool(uses), "another way was measured"


def serve(certificate: str) -> None:
    """Answer `GET /N` with N bytes, each connection in a thread; say the port first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_answer, args=(context, connection), daemon=True).start()


def _answer(context: ssl.SSLContext, connection: socket.socket) -> None:
    piece = bytes(1 << 20)
    with contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as one:
        head = b""
        while b"\r\n\r\n" not in head:
            if not (more := one.recv(65_536)):
                return
            head += more
        left = int(head.split(b" ", 2)[1].strip(b"/"))
        one.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {left}\r\n\r\n".encode())
        while left > 0:
            one.sendall(piece[:left])
            left -= len(piece)


@contextlib.contextmanager
def server(folder: Path, owner: TestAuthority) -> Iterator[int]:
    """Give the port of a server in a process of its own."""
    owner.context(NAME)
    command = [sys.executable, "-m", "tests.bench.network", "--serve", str(folder / f"{NAME}.pem")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


async def costs(mib: int, connections: int) -> dict[str, Cost]:
    """Measure all ways."""
    with tempfile.TemporaryDirectory() as place:
        owner = TestAuthority(Path(place))
        with server(Path(place), owner) as port:
            trust = ssl.create_default_context(cadata=owner.certificate)
            direct = Way(DIRECT, "127.0.0.1", port, trust)
            found = {DIRECT: await asyncio.to_thread(measure, direct, mib, connections)}
            use = Use("code", (f"{NAME}:{port}",), "basic", "", ("GET",), (), ())
            for uses in ((), (use,)):
                async with gateway(owner, port, *uses) as way:
                    found[way.name] = await asyncio.to_thread(measure, way, mib, connections)
            return found


def lines(found: dict[str, Cost]) -> list[str]:
    """Return the table for people, each way beside the direct one."""
    direct = found[DIRECT]
    rows = [f"{'TLS on loopback':20}{'MB/s':>8}{'of direct':>11}{'ms each':>10}{'more':>8}"]
    for name, cost in found.items():
        share = cost.megabytes / direct.megabytes
        more = cost.milliseconds - direct.milliseconds
        rows.append(
            f"{name:20}{cost.megabytes:8.0f}{share:10.2f}x{cost.milliseconds:10.2f}{more:+8.2f}"
        )
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=128)
    parser.add_argument("--connections", type=int, default=100)
    parser.add_argument("--serve", metavar="PEM", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    print("\n".join(lines(asyncio.run(costs(options.mib, options.connections)))))


if __name__ == "__main__":
    main()
