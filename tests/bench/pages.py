# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.bench.pages`: how long a page takes over a record of 100,000 calls.

Makes a record in a folder of its own, serves the page, and loads each page some times in a row: the
median and the 95th percentile of the whole answer. No engine, no containers.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from sandbox.audit.events.reading import record_of
from sandbox.audit.reader import Audit
from sandbox.audit.store import Store
from sandbox.host.dirs import Dirs
from sandbox.workspaces.registry import Registry
from tests.fakes import FakeSupervisor, served
from tests.http_served import http_served
from tests.page_served import PageClient, let_in, question

CALLS = 100_000
PER_SESSION = 200
QUESTIONS = 20
ROUNDS = 20
AIM_MS = 150
TEXT = "x" * 200
"""What makes a command about as long as an everyday one with its options."""
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
PAGES = {
    "now": "/",
    "what waits, on every page": "/alert?part=alert",
    "approvals": "/approvals",
    "history": "/history",
    "history of one verdict": "/history?verdict=deny",
    "a search with hits": "/history?text=pytest+-q+tests/7",
    "a search with one hit, far back": "/history?text=pytest+-q+tests/17/",
    "a search without a hit": "/history?text=nothing+like+this",
    "sessions": "/sessions",
    "a session": "/session?id=s000003",
    "a call": "/calls/c000042",
    "held": "/held",
    "policy": "/policy",
    "record": "/record",
    "record of one call": "/record?call=c000042",
}


@dataclass(frozen=True, slots=True)
class PageTime:
    """How long one page takes."""

    page: str
    median_ms: float
    p95_ms: float
    most_ms: float


def fill(dirs: Dirs, calls: int) -> float:
    """Make a record of so many calls; return the milliseconds that a call's records took."""
    store = Store(dirs)
    began = time.monotonic()
    for number in range(calls):
        call, session = f"c{number:06}", f"s{number // PER_SESSION:06}"
        at = (BEGAN + timedelta(seconds=number)).isoformat()
        decided = {
            "event": "decided", "ts": at, "call": call, "agent": f"agent{number % 5}",
            "tool": "Bash", "workspace": f"/home/me/project{number % 3}", "session": session,
            "params": {"command": f"pytest -q tests/{number}/ {TEXT}"},
            "verdict": "deny" if number % 50 == 0 else "allow", "rules": ["pytest"],
        }  # fmt: skip
        ended = {
            "event": "ended", "call": call, "ending": "ran", "exit_status": 0, "ms": 120.0,
            "judgement": "land", "landed": True, "changes": [{"kind": "modify", "path": "a.py"}],
        }  # fmt: skip
        store.append(record_of(decided), durable=False)
        store.append(record_of(ended), durable=False)
    return (time.monotonic() - began) * 1000 / max(calls, 1)


def load(client: PageClient, rounds: int) -> list[PageTime]:
    """Load every page so many times."""
    return [_row(name, partial(_get, client, path), rounds) for name, path in PAGES.items()]


def _get(client: PageClient, path: str) -> None:
    answer = client.client.get(path)
    if answer.status_code not in (200, 204):
        raise SystemExit(f"bench: `{path}` answers {answer.status_code}")


def _row(name: str, step: Callable[[], object], rounds: int) -> PageTime:
    times = []
    step()
    for _ in range(rounds):
        began = time.monotonic()
        step()
        times.append((time.monotonic() - began) * 1000)
    times.sort()
    p95 = times[min(len(times) - 1, round(0.95 * len(times)))]
    return PageTime(name, *(round(one, 1) for one in (times[len(times) // 2], p95, times[-1])))


def main() -> int:
    """Print the table, or JSON; fail where a page takes longer than the aim."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.pages", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--calls", type=int, default=CALLS, help="calls of the record")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often a page is loaded")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lg-") as folder:
        dirs = Dirs.under(Path(folder) / "own").create()
        (Path(folder) / "project").mkdir()
        Registry(dirs).add(Path(folder) / "project", approved=True)
        append = fill(dirs, args.calls)
        began = time.monotonic()
        Audit(dirs).refresh()
        index = time.monotonic() - began
        with served(dirs, FakeSupervisor()), http_served(dirs) as http:
            for number in range(QUESTIONS):
                question(http, f"rm {TEXT} {number}")
            rows = load(let_in(http), args.rounds)
    if args.json:
        print(json.dumps({"append_ms": append, "index_s": index, "pages": list(map(asdict, rows))}))
        return 0
    table = Table(title=f"pages over a record of {args.calls} calls (aim: p95 below {AIM_MS} ms)")
    for column in ("page", "median ms", "p95 ms", "most ms"):
        table.add_column(column, justify="left" if column == "page" else "right")
    for row in rows:
        table.add_row(*(str(value) for value in asdict(row).values()))
    Console().print(table)
    print(f"a call's two records: {append:.3f} ms to append; the index of all: {index:.1f} s")
    return int(any(row.p95_ms > AIM_MS for row in rows))


if __name__ == "__main__":
    sys.exit(main())
