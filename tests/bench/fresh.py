# SPDX-License-Identifier: Apache-2.0
"""What a call in a disposable cell costs, with and without cells that stand ready.

    python -m tests.bench.fresh [--json]

With the engine's own runtime, and with gVisor where the engine has it. Between the calls of a warm
row its next cell is waited for, as it is where calls come seconds apart.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from policy.model import ActionPlan, Workspace
from sandbox.calls.supervisor import Supervisor
from sandbox.config.settings import Dirs, Lifetime, Settings
from sandbox.containers.endpoints import connect
from sandbox.containers.runtimes import missing
from sandbox.setup import gvisor

ROUNDS = 6
COMMANDS = {"reading": "true", "writing": "printf %s {n} > fresh.txt"}
READY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class FreshRow:
    """One way of having a cell; the times are those of whole calls."""

    cell: str
    runtime: str
    call: str
    median_ms: float
    slowest_ms: float
    runs: int


async def rows(root: Path, rounds: int) -> list[FreshRow]:
    """Measure every way, one after another."""
    info = connect().info()
    runtimes = ["runc", *([gvisor.NAME] if missing(gvisor.NAME, info) is None else [])]
    ways = [("resident", "runc", Settings(warm=0))]
    for name in runtimes:
        for title, warm in (("disposable", 0), ("disposable, ready", 1)):
            wanted = Settings(lifetime=Lifetime.DISPOSABLE, runtime=name, warm=warm)
            ways.append((title, name, wanted))
    found = []
    for number, (title, runtime, settings) in enumerate(ways):
        work = root / f"work{number}"
        subprocess.run(["git", "init", "-q", str(work)], check=True)
        for call, command in COMMANDS.items():
            times = await _times(root / f"{number}-{call}", work, settings, command, rounds)
            median, slowest = statistics.median(times), max(times)
            found.append(
                FreshRow(title, runtime, call, round(median, 1), round(slowest, 1), len(times))
            )
    return found


async def _times(
    root: Path, work: Path, settings: Settings, command: str, rounds: int
) -> list[float]:
    times = []
    async with Supervisor(
        Dirs.under(root), workspaces=[Workspace(str(work))], settings=settings
    ) as supervisor:
        for number in range(-1, rounds):
            await _ready(supervisor, settings.warm if number >= 0 else 0)
            plan = ActionPlan(
                tool="Bash",
                params={"command": command.replace("{n}", str(number))},  # type: ignore[arg-type]
                workspace=str(work),
            )
            started = time.perf_counter()
            result = await supervisor.call(plan)
            if number >= 0:  # the first one also reaches the engine
                times.append((time.perf_counter() - started) * 1000)
            if result.exit_status != 0:
                raise SystemExit(f"bench: `{command}`: {result.message} {result.stderr}")
    return times


async def _ready(supervisor: Supervisor, wanted: int) -> None:
    """Wait until cells stand ready, and those of earlier calls are gone."""
    deadline = time.monotonic() + READY_SECONDS
    while len([one for one in supervisor.cells() if not one["busy"]]) < wanted:
        if time.monotonic() > deadline:
            raise SystemExit("bench: no cell stood ready in time")
        await asyncio.sleep(0.02)
    if wanted:
        await asyncio.sleep(0.5)  # the engine is still removing the last one


def main() -> int:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.fresh", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="runs of each row")
    args = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="lockgate-bench-"))
    try:
        found = asyncio.run(rows(root, args.rounds))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    if args.json:
        print(json.dumps([asdict(row) for row in found]))
        return 0
    table = Table(title="calls in disposable cells")
    for column in ("cell", "runtime", "call", "median ms", "slowest ms", "runs"):
        table.add_column(
            column, justify="left" if column in ("cell", "runtime", "call") else "right"
        )
    for row in found:
        table.add_row(*(str(value) for value in asdict(row).values()))
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
