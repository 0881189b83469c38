# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.bench.growth`: what does not grow with what was done before, in processor time.

Asks a record of 10 to 10,000 calls what landed last, what waits and what it lists, and undoes the
last two of 10 to 1,000 landings in a workspace. No engine, no containers; uses a folder of its own.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from sandbox.audit.events.reading import record_of
from sandbox.audit.query import Query
from sandbox.audit.store import Store
from sandbox.cell.landing import land as landing
from sandbox.cell.overlay.walk import walk
from sandbox.config.settings import Dirs

CALLS = (10, 100, 1_000, 10_000)
LANDINGS = (10, 100, 1_000)
ROUNDS = 5
TEXT = "x" * 600
"""What makes a record about as long as that of an everyday call."""


@dataclass(frozen=True, slots=True)
class Growth:
    """What one question costs after so many calls."""

    what: str
    calls: int
    median_ms: float
    runs: int


def _cost(step: Callable[[], object]) -> float:
    started = time.process_time()
    step()
    return (time.process_time() - started) * 1000


def _row(what: str, calls: int, times: list[float]) -> Growth:
    return Growth(what, calls, round(statistics.median(times), 2), len(times))


def of_the_record(root: Path) -> list[Growth]:
    """Ask records of growing length."""
    store = Store(Dirs.under(root).create())
    rows: list[Growth] = []
    done = 0
    for calls in CALLS:
        for number in range(done, calls):
            call = f"c{number:06}"
            decided = {"event": "decided", "call": call, "agent": "main", "tool": "Bash"}
            decided["session"] = f"s{number // 50:04}"
            more = {"workspace": "/w", "params": {"command": TEXT}, "rules": ["safe"]}
            ended = {"event": "ended", "call": call, "judgement": "land", "landed": True}
            store.append(record_of({**decided, **more}), durable=False)
            store.append(record_of({**ended, "changes": [{"path": TEXT}]}), durable=False)
        done = calls
        store.index_ahead()
        questions: dict[str, Callable[[], object]] = {
            "what landed last": lambda: store.landed(1),
            "the last 20 in a workspace": lambda: store.landed(20, "/w"),
            "what waits": store.held,
            "the newest 20": lambda: store.calls(limit=20),
            "the newest 20 of an agent": lambda: store.search(Query(agent="main", limit=20)),
            "the newest 20 of the first session": lambda: store.search(
                Query(session="s0000", limit=20)
            ),
        }
        for what, question in questions.items():
            rows.append(_row(what, calls, [_cost(question) for _ in range(ROUNDS)]))
    return rows


def of_landings(root: Path) -> list[Growth]:
    """Undo the last two landings of growing many, one after the other."""
    rows: list[Growth] = []
    done = 0
    workspace = root / "workspace"
    workspace.mkdir()
    (workspace / "file").write_text("0")

    def land(call: str) -> None:
        upper = root / "layers" / call
        upper.mkdir(parents=True)
        (upper / "file").write_text(call)
        walked = walk(str(upper), str(workspace))
        result = landing.land(str(workspace), str(upper), walked, call, durable=False)
        if result.state != "landed":
            raise SystemExit(f"bench: `{call}` did not land: {result.message}")

    def undo(call: str, name: str) -> None:
        result = landing.undo(str(workspace), call, name, durable=False)
        if result.state != "undone":
            raise SystemExit(f"bench: `{call}` was not undone: {result.message}")

    for count in LANDINGS:
        for number in range(done, count):
            land(f"c{number}")
        done = count
        times = []
        for number in range(ROUNDS):
            one, other = f"a{count}.{number}", f"b{count}.{number}"
            land(one)
            land(other)
            times.append(
                _cost(partial(undo, other, f"u{other}")) + _cost(partial(undo, one, f"u{one}"))
            )
        rows.append(_row("undo of the last two landings", count, times))
    return rows


def main() -> int:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.growth", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lockgate-bench-") as folder:
        record, landings = Path(folder, "record"), Path(folder, "landings")
        landings.mkdir()
        rows = of_the_record(record) + of_landings(landings)
    if args.json:
        print(json.dumps([asdict(row) for row in rows]))
        return 0
    table = Table(title="with what was done before, processor time")
    for column in ("what", "calls before", "median ms", "runs"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for row in rows:
        table.add_row(*(str(value) for value in asdict(row).values()))
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
