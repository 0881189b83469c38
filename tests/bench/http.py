# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.bench.http`: fifty clients for a minute over HTTP, bad ones among them.

Forty make requests and five follow events; five are slow, broken or hostile: they send a byte now
and then, leave within a request, guess tokens, send what is no HTTP, and follow events without
reading them. Prints the times of the good ones, none of which may meet an error. No containers.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
from rich.console import Console
from rich.table import Table

from sandbox.audit.events.reading import record_of
from sandbox.audit.store import Store
from sandbox.host.dirs import Dirs
from sandbox.workspaces.registry import Registry
from tests.fakes import FakeSupervisor, served
from tests.http_served import HttpServed, http_served

ASKING, FOLLOWING, SECONDS = 40, 5, 60.0
PAUSE_SECONDS = 1.0
RECORD_SECONDS = 0.05
"""How often something is put on record."""
TOKEN = "LOCKGATE_BENCH_TOKEN"
Answers = dict[str, list[float]]


async def ask(client: httpx2.AsyncClient, place: str, until: float, found: Any) -> None:
    """Make one request after the other."""
    call = {"workspace": place, "command": "say hello"}
    requests: tuple[tuple[str, str, Any], ...] = (
        ("POST", "/v1/calls", call),
        ("GET", "/v1/calls?limit=20", None),
        ("GET", "/v1/calls?text=nothing+like+this", None),
        ("GET", "/v1/approvals", None),
        ("GET", "/v1/agents", None),
        ("GET", "/v1/sessions", None),
    )
    await asyncio.sleep(random.random() * PAUSE_SECONDS)
    while time.monotonic() < until:
        for method, path, body in requests:
            began = time.monotonic()
            name = f"{method} {path}"
            try:
                answer = await client.request(method, path, json=body)
                if answer.status_code != 200:
                    found["errors"].append(f"{name}: {answer.status_code} {answer.text[:200]}")
            except httpx2.HTTPError as error:
                found["errors"].append(f"{name}: {type(error).__name__}")
            found["times"].setdefault(name, []).append((time.monotonic() - began) * 1000)
            await asyncio.sleep(PAUSE_SECONDS)


async def follow(client: httpx2.AsyncClient, until: float, found: Any) -> None:
    """Follow events; none may be left out."""
    last, name = 0, "an event, until it is told"
    try:
        async with client.stream("GET", "/v1/events") as answer:
            async for line in answer.aiter_lines():
                if time.monotonic() > until:
                    break
                if not line.startswith("data: "):
                    continue
                record = json.loads(line.removeprefix("data: "))
                if last and record["n"] != last + 1:
                    found["errors"].append(f"event {record['n']} came after {last}")
                last = record["n"]
                if sent := record.get("intent"):
                    late = (time.time() - float(sent)) * 1000
                    found["times"].setdefault(name, []).append(late)
    except httpx2.HTTPError as error:
        found["errors"].append(f"events: {type(error).__name__}")
    if not last:
        found["errors"].append("no event was told")


async def be_good(url: str, place: str, seconds: float) -> dict[str, Any]:
    """Be all the good clients; return their times and errors."""
    found: dict[str, Any] = {"times": {}, "errors": []}
    until = time.monotonic() + seconds
    headers = {"authorization": f"Bearer {os.environ[TOKEN]}"}
    async with contextlib.AsyncExitStack() as stack:

        async def client() -> httpx2.AsyncClient:
            made = httpx2.AsyncClient(base_url=url, headers=headers, timeout=30)
            return await stack.enter_async_context(made)

        await asyncio.gather(
            *[ask(await client(), place, until, found) for _ in range(ASKING)],
            *[follow(await client(), until, found) for _ in range(FOLLOWING)],
        )
    return found


async def be_bad(port: int, seconds: float) -> None:
    """Be all the bad clients."""
    until = time.monotonic() + seconds
    token = os.environ[TOKEN]
    start = (
        f"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
    )
    whole = f"{start}\r\n".encode()

    async def slow() -> None:
        _, line = await asyncio.open_connection("127.0.0.1", port)
        for byte in whole:
            line.write(bytes([byte]))
            await line.drain()
            await asyncio.sleep(0.5)

    async def broken() -> None:
        _, line = await asyncio.open_connection("127.0.0.1", port)
        line.write(b"POST /v1/calls HTTP/1.1\r\nContent-Length: 9999\r\n\r\n{")
        await line.drain()
        await asyncio.sleep(0.1)
        line.transport.abort()

    async def guessing() -> None:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            said = {"authorization": f"Bearer {random.random()}"}
            await client.get("/v1/calls", headers=said)
            await client.get("/v1/calls", headers={**said, "origin": "http://elsewhere"})
            await client.post("/v1/calls", headers=said, content=b"x" * 5_000_000)

    async def garbage() -> None:
        _, line = await asyncio.open_connection("127.0.0.1", port)
        line.write(os.urandom(4096))
        await line.drain()
        await asyncio.sleep(0.1)
        line.close()

    async def deaf() -> None:
        _, line = await asyncio.open_connection("127.0.0.1", port)
        line.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.transport.pause_reading()  # type: ignore[attr-defined]
        line.write(whole)
        await asyncio.sleep(20)
        line.transport.abort()

    async def again(step: Callable[[], Awaitable[None]]) -> None:
        while time.monotonic() < until:
            with contextlib.suppress(OSError, httpx2.HTTPError, asyncio.TimeoutError):
                async with asyncio.timeout(max(0.1, until - time.monotonic())):
                    await step()
            await asyncio.sleep(0.2)

    await asyncio.gather(*map(again, (slow, broken, guessing, garbage, deaf)))


def measure(http: HttpServed, place: str, seconds: float) -> dict[str, Any]:
    """Let all clients ask for so long; return the times and errors of the good ones."""
    ended = threading.Event()
    store = Store(http.dirs)

    def write() -> None:
        number = 0
        while not ended.wait(RECORD_SECONDS):
            number += 1
            record = {
                "event": "decided", "call": f"b{number}", "agent": "main", "tool": "Bash",
                "verdict": "allow", "session": f"s{number // 50}", "intent": str(time.time()),
            }  # fmt: skip
            store.append(record_of(record), durable=False)

    writer = threading.Thread(target=write)
    writer.start()
    words = [sys.executable, "-m", "tests.bench.http", "--seconds", str(seconds), "--url", http.url]
    env = {**os.environ, TOKEN: http.token}
    try:
        with subprocess.Popen([*words, "--as", "bad"], env=env, stderr=subprocess.DEVNULL) as bad:
            good = subprocess.run(
                [*words, "--as", "good", "--place", place], env=env, stdout=subprocess.PIPE,
                check=True,
            )  # fmt: skip
            bad.wait(60)
    finally:
        ended.set()
        writer.join()
    found: dict[str, Any] = json.loads(good.stdout)
    return found


def show(times: Answers) -> None:
    """Print the times."""
    table = Table(title=f"{ASKING + FOLLOWING} good clients, 5 slow, broken and hostile ones")
    for column in ("what", "requests", "median ms", "p95 ms", "most ms"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for name, some in times.items():
        some.sort()
        at = [some[len(some) // 2], some[min(len(some) - 1, round(0.95 * len(some)))], some[-1]]
        table.add_row(name, str(len(some)), *(f"{one:.1f}" for one in at))
    Console().print(table)


def main() -> int:
    """Print the times, or JSON; fail where a good client met an error."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.http", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for how long")
    parser.add_argument("--as", dest="part", choices=("good", "bad"), help=argparse.SUPPRESS)
    parser.add_argument("--url", default="", help=argparse.SUPPRESS)
    parser.add_argument("--place", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.part == "bad":
        asyncio.run(be_bad(int(args.url.rpartition(":")[2]), args.seconds))
        return 0
    if args.part == "good":
        print(json.dumps(asyncio.run(be_good(args.url, args.place, args.seconds))))
        return 0
    with tempfile.TemporaryDirectory(prefix="lg-") as folder:
        dirs, place = Dirs.under(Path(folder) / "own").create(), Path(folder) / "project"
        place.mkdir()
        Registry(dirs).add(place, approved=True)
        with served(dirs, FakeSupervisor()), http_served(dirs) as http:
            found = measure(http, str(place), args.seconds)
    if args.json:
        print(json.dumps(found))
    else:
        show(found["times"])
        for error in found["errors"][:20]:
            print(f"error of a good client: {error}")
    return int(bool(found["errors"]))


if __name__ == "__main__":
    sys.exit(main())
