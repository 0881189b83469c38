# SPDX-License-Identifier: Apache-2.0
"""What `lockgate run` and the hook cost as whole processes, beside bare bash: the thin programs and
the whole one, in turn.

Processor time of the process counts (user and system): on a machine that others use as well,
clocks say little. Run it as `python -m tests.bench.programs`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from sandbox.host.relaunch import program
from sandbox.host.self_test import SELF_TEST
from tests.bench.mcp import Place, place

RUNS = 40
_OPEN_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


@dataclass(frozen=True, slots=True)
class ProgramRow:
    """One program, measured from its start to its end."""

    name: str
    wall_ms: float
    cpu_ms: float
    times_bash: float
    """By the clock."""
    times_bash_cpu: float
    runs: int


class _Program:
    def __init__(self, name: str, words: Sequence[str], given: bytes = b"") -> None:
        self.name, self.words, self.given = name, list(words), given
        self.walls: list[float] = []
        self.cpus: list[float] = []

    def run(self, at: Place, folder: Path) -> None:
        """Run it once, and note what it took."""
        (folder / "in").write_bytes(self.given)
        streams = [
            (
                os.POSIX_SPAWN_OPEN,
                0,
                str(folder / "in") if self.given else os.devnull,
                os.O_RDONLY,
                0,
            ),
            (os.POSIX_SPAWN_OPEN, 1, str(folder / "out"), _OPEN_NEW, 0o600),
            (os.POSIX_SPAWN_OPEN, 2, str(folder / "err"), _OPEN_NEW, 0o600),
        ]
        started = time.perf_counter()
        pid = os.posix_spawnp(self.words[0], self.words, at.env, file_actions=streams)
        _, status, used = os.wait4(pid, 0)
        self.walls.append((time.perf_counter() - started) * 1000)
        self.cpus.append((used.ru_utime + used.ru_stime) * 1000)
        if status:
            raise SystemExit(f"bench: {self.name}: {(folder / 'err').read_text()[-300:]}")


def measure(at: Place, folder: Path, runs: int) -> list[ProgramRow]:
    """Run all programs in turn, after one round that counts for nothing."""
    ours = program()
    event = {
        "session_id": SELF_TEST,
        "cwd": str(at.work),
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "true"},
        "tool_use_id": "t",
    }
    words = ["run", "-w", str(at.work), "--", "true"]
    programs = [
        _Program("bash", ["bash", "-c", "true"]),
        _Program("python -I -S", [sys.executable, "-I", "-S", "-c", "pass"]),
        _Program("lockgate run", [*ours, *words]),
        _Program("lockgate run, whole program", [sys.executable, "-m", "sandbox.cli.main", *words]),
        _Program("lockgate hook", [*ours, "hook", "claude-code"], json.dumps(event).encode()),
    ]  # fmt: skip
    for number in range(-1, runs):
        for one in programs:
            one.run(at, folder)
            if number < 0:
                one.walls.clear()
                one.cpus.clear()
    middle = statistics.median
    bare = programs[0]
    return [
        ProgramRow(
            one.name,
            round(middle(one.walls), 1),
            round(middle(one.cpus), 1),
            round(middle(one.walls) / middle(bare.walls), 1),
            round(middle(one.cpus) / middle(bare.cpus), 1),
            runs,
        )
        for one in programs
    ]


def main() -> int:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.programs", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each program")
    args = parser.parse_args()
    with place() as at, tempfile.TemporaryDirectory(prefix="lg-programs-") as folder:
        rows = measure(at, Path(folder), args.runs)
    if args.json:
        print(json.dumps([asdict(one) for one in rows]))
        return 0
    table = Table()
    for column in ("program", "ms", "processor ms", "x bash", "x bash (processor)", "runs"):
        table.add_column(column, justify="left" if column == "program" else "right")
    for one in rows:
        table.add_row(*(str(value) for value in asdict(one).values()))
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
