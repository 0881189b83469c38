# SPDX-License-Identifier: Apache-2.0
"""What the front doors of agents cost: the hook's whole process, and many MCP clients at once.

    python -m tests.bench.mcp --seconds 60 --clients 50 [--stdio]

Uses its own state folder and workspace and removes both. The hook's row counts the process from its
start to its end; the clients' row counts calls as clients see them, without a pause between calls.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import docker.errors
import httpx2
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from rich.console import Console
from rich.table import Table

from sandbox.client.blocking import BlockingClient
from sandbox.containers.endpoints import connect
from sandbox.containers.ledger import state_label
from sandbox.errors import SandboxError
from sandbox.host.dirs import Dirs
from sandbox.host.relaunch import program
from sandbox.host.self_test import SELF_TEST
from sandbox.workspaces.registry import Registry

SECONDS, CLIENTS = 8.0, 50
HOOKS = 40
WRITES_EVERY = 10
"""One call in so many writes; the others read."""
START_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class DoorRow:
    """One measured front door."""

    name: str
    median_ms: float
    p95_ms: float
    runs: int
    errors: int
    first_error: str = ""


class Place:
    """Folders, a workspace and a supervisor process of its own."""

    def __init__(self, root: Path) -> None:
        self.work = root / "work"
        self.work.mkdir()
        (self.work / "README.md").write_text("a workspace\n")
        subprocess.run(["git", "init", "-q", str(self.work)], check=True)
        self.dirs = Dirs(root / "s" / "lockgate", root / "c" / "lockgate", root / "lockgate")
        self.env = {
            **os.environ,
            "XDG_STATE_HOME": str(root / "s"),
            "XDG_CONFIG_HOME": str(root / "c"),
            "XDG_RUNTIME_DIR": str(root),
        }
        Registry(self.dirs).add(str(self.work), approved=True)
        with BlockingClient(self.dirs) as one:
            one.exchange({"op": "warm", "workspace": str(self.work)})

    def close(self) -> None:
        """End the supervisor and what it made."""
        with contextlib.suppress(SandboxError), BlockingClient(self.dirs) as one:
            one.shutdown(force=True)
        client = connect()
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:  # the engine takes its time with the containers
            try:
                client.volumes.get(f"lockgate-layers-{state_label(self.dirs)}").remove()
            except docker.errors.NotFound:
                return
            except docker.errors.APIError:
                time.sleep(0.2)


@contextlib.contextmanager
def place() -> Iterator[Place]:
    """Yield a place, and remove it afterwards."""
    root = Path(tempfile.mkdtemp(prefix="lg-bench-"))
    try:
        made = Place(root)
        try:
            yield made
        finally:
            made.close()
    finally:
        shutil.rmtree(root, ignore_errors=True)


def hook_row(at: Place, runs: int = HOOKS) -> DoorRow:
    """Measure `lockgate hook` from start to end, warm."""
    event = {
        "session_id": SELF_TEST,
        "cwd": str(at.work),
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "ls -la"},
        "tool_use_id": "t",
    }
    said = json.dumps(event).encode()
    times, errors, first = [], 0, ""
    for number in range(-2, runs):
        started = time.perf_counter()
        words = [*program(), "hook", "claude-code"]
        done = subprocess.run(words, input=said, capture_output=True, env=at.env, check=False)
        if done.returncode or b'"allow"' not in done.stdout:
            errors, first = errors + 1, first or done.stderr.decode()[-200:]
        elif number >= 0:
            times.append((time.perf_counter() - started) * 1000)
    return _row("hook (whole process)", times, errors, first)


async def clients_row(at: Place, *, seconds: float, clients: int, stdio: bool) -> DoorRow:
    """Let many clients call `bash` at once for so many seconds."""
    times: list[float] = []
    failed: list[str] = []

    async def one(number: int, transport: Any, ready: asyncio.Barrier) -> None:
        async with Client(transport) as client:
            await client.call_tool("bash", {"command": "true"})
            await ready.wait()
            ends = time.perf_counter() + seconds
            count = 0
            while time.perf_counter() < ends:
                count += 1
                write = count % WRITES_EVERY == 0
                command = f"echo {count} > client-{number}.txt" if write else "cat README.md"
                started = time.perf_counter()
                result = await client.call_tool("bash", {"command": command})
                times.append((time.perf_counter() - started) * 1000)
                if result.is_error:
                    failed.append(" ".join(getattr(part, "text", "") for part in result.content))

    async with _transports(at, clients, stdio=stdio) as transports:
        ready = asyncio.Barrier(clients)
        async with asyncio.timeout(seconds + START_SECONDS):
            done = await asyncio.gather(
                *(one(number, each, ready) for number, each in enumerate(transports)),
                return_exceptions=True,
            )
    failed += [f"{type(each).__name__}: {each}" for each in done if isinstance(each, Exception)]
    how = "standard input" if stdio else "HTTP"
    first = failed[0] if failed else ""
    return _row(f"{clients} MCP clients over {how}", times, len(failed), first)


@contextlib.asynccontextmanager
async def _transports(at: Place, clients: int, *, stdio: bool) -> AsyncIterator[list[Any]]:
    if stdio:
        start: list[str] = [*program(), "mcp", "-w", str(at.work)]
        parameters = StdioServerParameters(command=start[0], args=start[1:], env=at.env)
        yield [parameters] * clients
        return
    words = [*program(), "mcp", "-w", str(at.work), "--http", "--port", "0"]
    server = subprocess.Popen(words, env=at.env, stderr=subprocess.PIPE)
    try:
        assert server.stderr is not None
        line = (await asyncio.to_thread(server.stderr.readline)).decode()
        url = re.search(r"http://\S+/mcp", line)
        if url is None:
            raise SystemExit(f"bench: the server does not start: {line}")
        token = (at.dirs.state / "mcp.token").read_text("ascii").strip()
        async with contextlib.AsyncExitStack() as stack:
            made = []
            for _ in range(clients):
                headers = {"authorization": f"Bearer {token}"}
                http = httpx2.AsyncClient(headers=headers, timeout=START_SECONDS)
                await stack.enter_async_context(http)
                made.append(streamable_http_client(url[0], http_client=http))
            yield made
    finally:
        server.terminate()
        server.wait()


def rows(seconds: float = SECONDS, clients: int = CLIENTS, *, stdio: bool = False) -> list[DoorRow]:
    """Return all rows, measured one after another."""
    with place() as at:
        return [
            hook_row(at),
            asyncio.run(clients_row(at, seconds=seconds, clients=clients, stdio=stdio)),
        ]


def _row(name: str, times: list[float], errors: int, first: str) -> DoorRow:
    if not times:
        return DoorRow(name, 0.0, 0.0, 0, errors, first)
    p95 = sorted(times)[max(0, int(len(times) * 0.95) - 1)]
    return DoorRow(
        name, round(statistics.median(times), 1), round(p95, 1), len(times), errors, first
    )


def main() -> int:
    """Print the rows; the status is 1 when a call failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.mcp", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--stdio", action="store_true", help="a server process for each client")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = rows(args.seconds, args.clients, stdio=args.stdio)
    if args.json:
        print(json.dumps([asdict(one) for one in found]))
        return int(any(one.errors for one in found))
    table = Table("front door", "median ms", "p95 ms", "runs", "errors")
    for one in found:
        cells = (one.median_ms, one.p95_ms, one.runs, one.errors)
        table.add_row(one.name, *map(str, cells))
    Console().print(table)
    for one in found:
        if one.first_error:
            print(f"{one.name}: {one.first_error}", file=sys.stderr)
    return int(any(one.errors for one in found))


if __name__ == "__main__":
    sys.exit(main())
