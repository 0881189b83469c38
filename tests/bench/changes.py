# SPDX-License-Identifier: Apache-2.0
"""What it costs to list and to land what a call changed: 1, 100 and 10,000 files.

    python -m tests.bench.changes [--json]

In trees of 10 and of 100,000 files: the cost must follow the changes, not the tree. Each round
writes new content into the same files, so that the first creates them and the others replace them.
The keeper's own times are taken; the call around them is measured in `bench`.
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
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from policy.model import ActionPlan, Workspace
from sandbox.approvals.approver import yes
from sandbox.calls.supervisor import Supervisor
from sandbox.cells.cell import Cell
from sandbox.config.settings import Dirs

TREES = (10, 100_000)
CHANGED = (1, 100, 10_000)
ROUNDS = {1: 20, 100: 10, 10_000: 2}
"""Files changed -> how often that is measured."""


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """The cost of one number of changes in one tree; medians in milliseconds."""

    tree: int
    """Files of the workspace."""
    changed: int
    """Files that the call wrote."""
    walk_ms: float
    """Listing what changed (with its diff), after the call's processes have ended."""
    land_ms: float
    """Landing: staging, journal, exchange, before-images."""
    call_ms: float
    """The whole call, with the command's own time."""
    walk_us_per_file: float
    land_us_per_file: float
    runs: int


def tree(root: Path, files: int) -> Path:
    """Make a git repository with so many files, 100 to a folder."""
    folder = root / f"tree-{files}"
    folder.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    for number in range(files):
        if number % 100 == 0:
            (folder / f"d{number // 100}").mkdir()
        (folder / f"d{number // 100}" / f"f{number}.txt").write_text(f"{number}\n")
    return folder


class _Times:
    """Notes how long keepers take over what they are asked."""

    def __init__(self) -> None:
        self.of: dict[str, float] = {}
        self._real = Cell.ask

    def __enter__(self) -> _Times:
        times, real = self, self._real

        async def ask(
            cell: Cell, request: dict[str, object] | None = None, *, op: str
        ) -> dict[str, object]:
            started = time.perf_counter()
            answer = await real(cell, request, op=op)
            times.of[op] = (time.perf_counter() - started) * 1000
            return answer

        setattr(Cell, "ask", ask)  # noqa: B010 - put back below
        return self

    def __exit__(self, *_: object) -> None:
        setattr(Cell, "ask", self._real)  # noqa: B010


async def _row(supervisor: Supervisor, workspace: Path, files: int, changed: int) -> ChangeRow:
    rounds = ROUNDS[changed]
    walks, lands, calls = [], [], []
    script = (
        "import os, sys\n"
        f"for n in range({changed}):\n"
        f"    os.makedirs(f'changed-{changed}/{{n // 100}}', exist_ok=True)\n"
        f"    open(f'changed-{changed}/{{n // 100}}/{{n}}', 'w').write(sys.argv[1])\n"
    )
    with _Times() as times:
        for number in range(-1, rounds):
            plan = ActionPlan(
                tool="Bash",
                workspace=str(workspace),
                params={"command": f'python3 -c "{script}" {number}'},  # type: ignore[arg-type]
            )
            started = time.perf_counter()
            result = await supervisor.call(plan, approver=yes)
            if not result.landed:
                raise SystemExit(f"bench: {changed} changes did not land: {result.message}")
            if number >= 0:
                calls.append((time.perf_counter() - started) * 1000)
                walks.append(times.of["close"])
                lands.append(times.of["land"])
    walk, land = statistics.median(walks), statistics.median(lands)
    return ChangeRow(
        tree=files,
        changed=changed,
        walk_ms=round(walk, 2),
        land_ms=round(land, 2),
        call_ms=round(statistics.median(calls), 2),
        walk_us_per_file=round(walk * 1000 / changed, 1),
        land_us_per_file=round(land * 1000 / changed, 1),
        runs=rounds,
    )


async def run(root: Path) -> list[ChangeRow]:
    """Make the trees, change files in them, and return what that cost."""
    spaces = {files: tree(root, files) for files in TREES}
    workspaces = [Workspace(str(path)) for path in spaces.values()]
    rows = []
    async with Supervisor(Dirs.under(root / "changes"), workspaces=workspaces) as supervisor:
        for changed in CHANGED:
            for files, workspace in spaces.items():
                rows.append(await _row(supervisor, workspace, files, changed))
    return rows


def table(rows: Sequence[ChangeRow]) -> Table:
    """Return the rows for a terminal."""
    out = Table(title="listing and landing what a call changed")
    columns = (
        *("files of the tree", "files changed", "walk ms", "land ms", "call ms"),
        *("walk us/file", "land us/file", "runs"),
    )
    for column in columns:
        out.add_column(column, justify="right")
    for row in rows:
        out.add_row(*(f"{value:,}" for value in asdict(row).values()))
    return out


def main() -> int:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.changes", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    args = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="lockgate-changes-"))
    try:
        rows = asyncio.run(run(root))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    if args.json:
        print(json.dumps([asdict(row) for row in rows]))
    else:
        Console().print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
