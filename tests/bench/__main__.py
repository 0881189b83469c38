# SPDX-License-Identifier: Apache-2.0
"""`make bench`: what a call costs, beside bare bash, bwrap, docker exec and docker run.

Also what listing and landing changes costs (changes.py), and many agents at once (agents.py).

All rows are measured in one run, in turn, on the same machine; medians and ratios count, single
times do not. Uses its own state folder and workspaces and removes both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from policy.model import ActionPlan, Workspace
from sandbox.calls.supervisor import Supervisor
from sandbox.config.settings import Dirs
from sandbox.containers.images import names
from tests.bench import agents as bench_agents
from tests.bench import changes as bench_changes
from tests.bench import stop as bench_stop
from tests.bench.decide_times import MORE_RULES, decide_times

SMALL, LARGE = 10, 100_000
AGENTS_SECONDS = 20.0
ROUNDS, SLOW_ROUNDS = 60, 8
WRITE = "printf %s {n} > bench.txt"
NESTED = "printf %s {n} > src/a/b/bench.txt"
"""A write below folders, as most are."""
EVERYDAY = "(commands of every day)"
SAME = "printf same > same.txt"
"""Writes what is there already: a private layer is made and looked at, and nothing lands."""


@dataclass(frozen=True, slots=True)
class Row:
    """One measured way of running a command."""

    name: str
    command: str
    files: int
    median_ms: float
    p95_ms: float
    times_bash: float
    runs: int


Step = Callable[[int], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Way:
    """A way of running a command, to be measured."""

    name: str
    command: str
    files: int
    step: Step
    rounds: int


def _process(argv: Sequence[str], cwd: Path, env: dict[str, str] | None = None) -> Step:
    async def step(number: int) -> None:
        words = [word.replace("{n}", str(number)) for word in argv]
        done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, check=False)
        if done.returncode:
            raise SystemExit(f"bench: `{' '.join(words)}` failed: {done.stderr.decode()[-300:]}")

    return step


def _call(supervisor: Supervisor, workspace: Path, command: str) -> Step:
    async def step(number: int) -> None:
        plan = ActionPlan(
            tool="Bash",
            params={"command": command.replace("{n}", str(number))},  # type: ignore[arg-type]
            workspace=str(workspace),
        )
        result = await supervisor.call(plan)
        if result.exit_status != 0:
            raise SystemExit(f"bench: `{command}`: {result.message} {result.stderr}")

    return step


async def measure(ways: Sequence[Way]) -> list[Row]:
    """Run all ways in turn, round by round, and return their rows."""
    times: dict[int, list[float]] = {index: [] for index in range(len(ways))}
    for way in ways:
        await way.step(-1)
    for number in range(max(way.rounds for way in ways)):
        for index, way in enumerate(ways):
            if number < way.rounds:
                started = time.perf_counter()
                await way.step(number)
                times[index].append((time.perf_counter() - started) * 1000)
    bare = {w.command: statistics.median(times[i]) for i, w in enumerate(ways) if w.name == "bash"}
    return [
        Row(
            way.name,
            way.command,
            way.files,
            round(statistics.median(times[index]), 2),
            round(sorted(times[index])[int(len(times[index]) * 0.95) - 1], 2),
            round(statistics.median(times[index]) / bare[way.command], 1),
            len(times[index]),
        )
        for index, way in enumerate(ways)
    ]


def _bwrap(workspace: Path, command: str) -> list[str]:
    shared = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/root"]
    return [
        "bwrap",
        *shared,
        "--bind",
        str(workspace),
        str(workspace),
        "--unshare-all",
        "--die-with-parent",
        "bash",
        "-c",
        command,
    ]


async def run(root: Path, rounds: int) -> list[Row]:
    """Set up, measure, clean up."""
    dirs = Dirs.under(root / "lockgate")
    spaces = {files: bench_changes.tree(root / "calls", files) for files in (SMALL, LARGE)}
    small = spaces[SMALL]
    for space in spaces.values():
        (space / "src/a/b").mkdir(parents=True)
    container = f"lockgate-bench-{os.getpid()}"
    image = names().cell
    mounted = ["-v", f"{small}:{small}", "-w", str(small), "--network", "none"]
    subprocess.run(
        ["docker", "run", "-d", "--rm", "--name", container, *mounted, image, "sleep", "3600"],
        check=True,
        capture_output=True,
    )
    env = {
        **os.environ,
        "XDG_STATE_HOME": str(root / "xdg-state"),
        "XDG_CONFIG_HOME": str(root / "xdg-config"),
        "XDG_RUNTIME_DIR": str(root / "xdg-run"),
    }
    (root / "xdg-run").mkdir(mode=0o700)
    lockgate = [sys.executable, "-m", "sandbox.cli.main"]
    program = Path(sys.executable).with_name("lockgate")
    if program.exists():
        lockgate = [str(program)]
    ways: list[Way] = []
    try:
        subprocess.run(
            [*lockgate, "workspace", "add", "--yes", str(small)],
            env=env,
            check=True,
            capture_output=True,
        )
        workspaces = [Workspace(str(path)) for path in spaces.values()]
        async with Supervisor(dirs, workspaces=workspaces) as supervisor:
            for command in ("true", WRITE, NESTED):
                slow = min(rounds, SLOW_ROUNDS)
                inside = ["bash", "-c", command]
                ways += [
                    Way("bash", command, SMALL, _process(inside, small), rounds),
                    Way("docker exec", command, SMALL,
                        _process(["docker", "exec", container, *inside], small), slow),
                    Way("docker run", command, SMALL,
                        _process(["docker", "run", "--rm", *mounted, image, *inside], small), slow),
                    Way("lockgate run (command line)", command, SMALL,
                        _process([*lockgate, "run", "-w", str(small), "--", command], small, env),
                        slow * 2),
                ]  # fmt: skip
                if shutil.which("bwrap"):
                    step = _process(_bwrap(small, command), small)
                    ways.append(Way("bwrap", command, SMALL, step, rounds))
                kind = "reading" if command == "true" else "writing"
                ways += [
                    Way(f"lockgate, {kind} call", command, files,
                        _call(supervisor, spaces[files], command), rounds)
                    for files in (SMALL, LARGE)
                ]  # fmt: skip
            ways += [
                Way("bash", SAME, SMALL, _process(["bash", "-c", SAME], small), rounds),
                Way("lockgate, writing call", SAME, SMALL, _call(supervisor, small, SAME), rounds),
            ]
            return await measure(ways)
    finally:
        subprocess.run(["docker", "kill", container], capture_output=True, check=False)
        subprocess.run([*lockgate, "shutdown"], env=env, capture_output=True, check=False)


def decide_rows(bare_ms: float) -> list[Row]:
    """Measure gate 1 alone, beside bash's `true` of `bare_ms` milliseconds."""
    times = decide_times()
    named = {
        "gate 1": times.alone,
        "gate 1, paths never seen before": times.fresh,
        "gate 1, both readings": times.second,
        f"gate 1, {MORE_RULES} more rules": times.more_rules,
    }
    return [
        Row(
            name,
            EVERYDAY,
            0,
            round(cost.median / 1000, 3),
            round(cost.p95 / 1000, 3),
            round(cost.median / 1000 / bare_ms, 2),
            cost.answers,
        )
        for name, cost in named.items()
    ]


def machine() -> str:
    """Return the machine's kind in one line."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3
    return (
        f"{os.cpu_count()} processors, {memory:.0f} GiB, Linux {platform.release().split('-')[0]}, "
        f"Python {platform.python_version()}"
    )


def main() -> int:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="runs of each fast row")
    parser.add_argument(
        "--seconds", type=float, default=AGENTS_SECONDS, help="how long many agents work at once"
    )
    args = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="lockgate-bench-"))
    try:
        rows = asyncio.run(run(root, args.rounds))
        changes = asyncio.run(bench_changes.run(root))
        agents = asyncio.run(bench_agents.run(root / "agents", seconds=args.seconds))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    bare = next(row.median_ms for row in rows if (row.name, row.command) == ("bash", "true"))
    rows += decide_rows(bare)
    rows.sort(key=lambda row: (row.command != "true", row.command == EVERYDAY, row.median_ms))
    stops = bench_stop.rows()
    if args.json:
        told = {
            "machine": machine(),
            "rows": [asdict(row) for row in rows],
            "changes": [asdict(row) for row in changes],
            "agents": asdict(agents),
            "stops": [asdict(one) for one in stops],
        }
        print(json.dumps(told))
        return 1 if agents.problems else 0
    table = Table(title=f"{time.strftime('%Y-%m-%d')}, {machine()}")
    for column in ("way", "command", "files", "median ms", "p95 ms", "x bash", "runs"):
        table.add_column(column, justify="left" if column in ("way", "command") else "right")
    for row in rows:
        table.add_row(*(str(value) for value in asdict(row).values()))
    Console().print(table)
    Console().print(bench_changes.table(changes))
    print(bench_agents.said(agents))
    for one in stops:
        print(one.line())
    return 1 if agents.problems else 0


if __name__ == "__main__":
    sys.exit(main())
