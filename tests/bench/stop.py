# SPDX-License-Identifier: Apache-2.0
"""How long a stop takes, and whether anything survives it: cells and agents full of processes.

python -m tests.bench.stop [--rounds N]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from policy.model import ActionPlan, Params, Workspace
from sandbox.agents.registering import register
from sandbox.agents.registry import Registry
from sandbox.approvals.approver import yes
from sandbox.calls.supervisor import Supervisor
from sandbox.config.settings import Dirs
from sandbox.containers.ledger import ContainerNotes
from sandbox.host import relaunch as interpreter
from sandbox.processes.table import Host
from sandbox.results import CallResult

ROUNDS, CELLS, TREES, PROCESSES = 3, 20, 20, 50
READY_SECONDS = 120.0
_STOP = """
import sys, time
from pathlib import Path
import sandbox.audit.store, sandbox.cells.pool, sandbox.results
import sandbox.containers.endpoints, sandbox.containers.engine
from sandbox.host.dirs import Dirs
from sandbox.stopping.stop import stop_all
print("ready", flush=True)
sys.stdin.readline()
started, used = time.perf_counter(), time.process_time()
report = stop_all(Dirs.under(Path(sys.argv[1])), "a measurement")
wall, cpu = time.perf_counter() - started, time.process_time() - used
print(wall * 1000, cpu * 1000, len(report.left), flush=True)
"""


@dataclass(frozen=True, slots=True)
class StopRow:
    """Stops of the same kind, measured from the request to the answer."""

    cells: int
    trees: int
    processes: int
    """In each cell and in each tree."""
    median_ms: float
    worst_ms: float
    median_cpu_ms: float
    """What the stop itself computed; the rest of the time others had the processors."""
    survivors: int
    """Processes that ran when the stop had returned, in all rounds together."""
    runs: int

    def line(self) -> str:
        """Return the row for people."""
        return (
            f"stop of {self.cells} cells and {self.trees} agents with {self.processes} processes "
            f"each: median {self.median_ms:.0f} ms ({self.median_cpu_ms:.0f} ms of processor), "
            f"worst {self.worst_ms:.0f} ms, "
            f"{self.survivors} survivors in {self.runs} runs"
        )


def rows(
    *, rounds: int = ROUNDS, cells: int = CELLS, trees: int = TREES, processes: int = PROCESSES
) -> list[StopRow]:
    """Measure stops; needs an engine with the images. Takes about half a minute a round."""
    times: list[tuple[float, float]] = []
    survivors = 0
    for _ in range(rounds):
        root = Path(tempfile.mkdtemp(prefix="lgstop-"))
        try:
            took, left = asyncio.run(_round(root, cells, trees, processes))
        finally:
            shutil.rmtree(root, ignore_errors=True)
        times.append(took)
        survivors += left
    wall, cpu = zip(*times, strict=True)
    median, median_cpu = statistics.median(wall), statistics.median(cpu)
    return [StopRow(cells, trees, processes, median, max(wall), median_cpu, survivors, rounds)]


async def _round(
    root: Path, cells: int, trees: int, processes: int
) -> tuple[tuple[float, float], int]:
    """Fill cells and trees, stop all; return the times and how many processes survived."""
    dirs = Dirs.under(root / "lockgate").create()
    workspace = root / "work"
    workspace.mkdir()
    script = f"for i in $(seq {processes - 1}); do sleep 300 & done; wait"
    agents = [
        subprocess.Popen(["bash", "-c", script], start_new_session=True) for _ in range(trees)
    ]
    try:
        for number, one in enumerate(agents):
            register(dirs, one.pid, name=f"tree-{number}", source="bench")
        return await _measured(
            dirs, workspace, script, {one.pid for one in agents}, cells, processes
        )
    finally:
        for one in agents:  # what the stop has not ended: each leads a group of its own
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
            one.wait()


async def _measured(
    dirs: Dirs, workspace: Path, script: str, trees: Collection[int], cells: int, processes: int
) -> tuple[tuple[float, float], int]:
    async with Supervisor(dirs, workspaces=[Workspace(str(workspace))]) as supervisor:
        calls = []
        for number in range(cells):
            plan = ActionPlan(
                tool="Bash",
                params=Params(command=script),
                workspace=str(workspace),
                agent=f"cell-{number}",
            )
            calls.append(asyncio.create_task(supervisor.call(plan, approver=yes)))
        await _filled(dirs, cells, len(trees), processes, calls)
        identities = set(ContainerNotes(dirs).all())
        took, named = await asyncio.to_thread(_stopped, dirs)
        left = len(_inside(identities)) + len(_below(trees)) + named
        await asyncio.gather(*calls, return_exceptions=True)
    return took, left


def _stopped(dirs: Dirs) -> tuple[tuple[float, float], int]:
    """Stop from a process of its own, as a person does; return (ms, ms of processor time), and how
    much is left.

    The start of that process is not counted.
    """
    with subprocess.Popen(
        [sys.executable, "-P", "-c", _STOP, str(dirs.state.parent)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=interpreter.environment(os.environ),
    ) as stop:
        assert stop.stdin is not None
        assert stop.stdout is not None
        stop.stdout.readline()  # it is ready
        stop.stdin.write("go\n")
        stop.stdin.flush()
        wall, cpu, left = stop.stdout.readline().split()
    return (float(wall), float(cpu)), int(left)


async def _filled(
    dirs: Dirs,
    cells: int,
    trees: int,
    processes: int,
    calls: Sequence[asyncio.Task[CallResult]],
) -> None:
    """Wait until every cell and every tree has its processes."""
    deadline = time.monotonic() + READY_SECONDS
    registry = Registry(dirs)
    while True:
        inside = len(_inside(set(ContainerNotes(dirs).all())))
        outside = sum(map(len, registry.members_of(registry.all()).values()))
        if inside >= cells * processes and outside >= trees * processes:
            return
        for call in calls:
            if call.done():
                raise SystemExit(f"bench: a call has ended: {call.exception() or call.result()}")
        if time.monotonic() > deadline:
            raise SystemExit(f"bench: {inside} processes in cells and {outside} outside, no more")
        await asyncio.sleep(0.2)


def _inside(identities: Collection[str]) -> list[int]:
    """Return the processes that are in these containers."""
    host = Host()
    table = host.table()
    return [
        pid
        for pid, identity in host.containers(table).items()
        if identity in identities and not table[pid].ended
    ]


def _below(pids: Collection[int]) -> list[int]:
    """Return the processes in the sessions that these lead."""
    return [one.pid for one in Host().table().values() if one.session in pids and not one.ended]


def main() -> int:
    """Print the rows."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.stop", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    for row in rows(rounds=parser.parse_args().rounds):
        print(row.line())
    return 0


if __name__ == "__main__":
    sys.exit(main())
