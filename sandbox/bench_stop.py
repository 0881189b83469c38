# SPDX-License-Identifier: Apache-2.0
"""How long a stop takes, and whether anything survives it: cells and agents full of processes.

python -m sandbox.bench_stop [--rounds N]
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from policy.model import ActionPlan, Params, Workspace
from sandbox.agents import Registry, register
from sandbox.approvals import yes
from sandbox.config import Dirs
from sandbox.latch import Latch
from sandbox.stop import stop_all
from sandbox.supervisor import Supervisor
from sandbox.sweeping_notes import ContainerNotes
from sandbox.sweeping_table import Host

ROUNDS, CELLS, TREES, PROCESSES = 3, 20, 20, 50
READY_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class StopRow:
    """Stops of the same kind, measured from the request to the answer."""

    cells: int
    trees: int
    processes: int
    """In each cell and in each tree."""
    median_ms: float
    worst_ms: float
    survivors: int
    """Processes that ran when the stop had returned, in all rounds together."""
    runs: int

    def line(self) -> str:
        """Return the row for people."""
        return (
            f"stop of {self.cells} cells and {self.trees} agents with {self.processes} processes "
            f"each: median {self.median_ms:.0f} ms, worst {self.worst_ms:.0f} ms, "
            f"{self.survivors} survivors in {self.runs} runs"
        )


def rows(
    *, rounds: int = ROUNDS, cells: int = CELLS, trees: int = TREES, processes: int = PROCESSES
) -> list[StopRow]:
    """Measure stops; needs an engine with the images. Takes about half a minute a round."""
    times, survivors = [], 0
    for _ in range(rounds):
        root = Path(tempfile.mkdtemp(prefix="lgstop-"))
        try:
            took, left = asyncio.run(_round(root, cells, trees, processes))
        finally:
            shutil.rmtree(root, ignore_errors=True)
        times.append(took)
        survivors += left
    median, worst = statistics.median(times), max(times)
    return [StopRow(cells, trees, processes, median, worst, survivors, rounds)]


async def _round(root: Path, cells: int, trees: int, processes: int) -> tuple[float, int]:
    """Fill cells and trees, stop all; return milliseconds and how many processes survived."""
    dirs = Dirs.under(root / "lockgate").create()
    workspace = root / "work"
    workspace.mkdir()
    script = f"for i in $(seq {processes - 1}); do sleep 300 & done; wait"
    agents = [
        subprocess.Popen(["bash", "-c", script], start_new_session=True) for _ in range(trees)
    ]
    for number, one in enumerate(agents):
        register(dirs, one.pid, name=f"tree-{number}", source="bench")
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
        await _filled(dirs, cells, trees, processes)
        identities = set(ContainerNotes(dirs).all())
        started = time.perf_counter()
        report = await asyncio.to_thread(stop_all, dirs, "a measurement")
        took = (time.perf_counter() - started) * 1000
        left = (
            len(_inside(identities)) + len(_below({one.pid for one in agents})) + len(report.left)
        )
        await asyncio.gather(*calls, return_exceptions=True)
    for one in agents:
        one.wait()
    Latch(dirs).clear()
    return took, left


async def _filled(dirs: Dirs, cells: int, trees: int, processes: int) -> None:
    """Wait until every cell and every tree has its processes."""
    deadline = time.monotonic() + READY_SECONDS
    registry = Registry(dirs)
    while True:
        inside = len(_inside(set(ContainerNotes(dirs).all())))
        outside = sum(len(registry.members(one)) for one in registry.all())
        if inside >= cells * processes and outside >= trees * processes:
            return
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
    parser = argparse.ArgumentParser(prog="python -m sandbox.bench_stop", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    for row in rows(rounds=parser.parse_args().rounds):
        print(row.line())
    return 0


if __name__ == "__main__":
    sys.exit(main())
