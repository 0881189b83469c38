# SPDX-License-Identifier: Apache-2.0
"""What `/metrics` says, to whom, and what it says where its library is missing."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from sandbox.audit.events.reading import record_of
from sandbox.audit.store import Store
from sandbox.host.dirs import Dirs
from sandbox.web.metrics import BUCKETS, Durations
from sandbox.workspaces.registry import Registry
from tests.fakes import FakeSupervisor, served
from tests.http_served import HttpServed, http_served
from tests.page_served import question


@pytest.fixture
def http() -> Iterator[HttpServed]:
    with TemporaryDirectory(prefix="lg-") as folder:  # a short path: it holds a socket
        dirs = Dirs.under(Path(folder) / "own").create()
        (Path(folder) / "project").mkdir()
        Registry(dirs).add(Path(folder) / "project", approved=True)
        note(dirs, "decided", "c0", 0, verdict="deny")  # before anybody measures
        with served(dirs, FakeSupervisor()), http_served(dirs) as one:
            yield one


def note(dirs: Dirs, event: str, call: str, second: float, **fields: object) -> None:
    """Put a record of a call on record, so many seconds after the others."""
    stamp = f"2026-01-01T00:{int(second) // 60:02}:{second % 60:06.3f}+00:00"
    known = {"agent": 'a"b', "tool": "Bash"} if event == "decided" else {}
    record = {"event": event, "ts": stamp, "call": call, **known, **fields}
    Store(dirs).append(record_of(record), durable=False)


def measured(http: HttpServed) -> dict[tuple[str, ...], float]:
    """Return every sample, by its name and the values of its labels."""
    answer = http.ask("GET", "/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_what_is_on_record_waits_and_runs_is_measured(http: HttpServed) -> None:
    before = measured(http)
    assert before["lockgate_decisions_total", "deny"] == 1
    assert before["lockgate_questions",] == before["lockgate_held",] == 0
    assert before["lockgate_call_seconds_count", "whole"] == 0
    assert before["lockgate_cells",] == 1
    note(http.dirs, "decided", "c1", 0, verdict="ask")
    note(http.dirs, "asked", "c1", 1)
    note(http.dirs, "answered", "c1", 41, approved=True)
    note(http.dirs, "ended", "c1", 43, ending="ran", judgement="hold", landed=False)
    note(http.dirs, "decided", "c2", 50, verdict="deny")
    note(http.dirs, "ended", "c2", 50.01, ending="denied")
    note(http.dirs, "ended", "c0", 60, ending="ran")  # its beginning was not seen
    question(http, "rm asked")
    question(http, "rm asked")
    now = measured(http)
    assert [now["lockgate_decisions_total", one] for one in ("allow", "ask", "deny")] == [0, 1, 2]
    assert (now["lockgate_questions",], now["lockgate_held",]) == (1, 1)
    sums = {name: now["lockgate_call_seconds_sum", name] for name in ("question", "run", "whole")}
    assert {name: round(value, 2) for name, value in sums.items()} == {
        "question": 40, "run": 2, "whole": 43.01
    }  # fmt: skip
    assert now["lockgate_call_seconds_count", "whole"] == 2
    buckets = [now["lockgate_call_seconds_bucket", str(edge), "whole"] for edge in ("0.05", "60.0")]
    assert buckets == [1, 2]
    assert measured(http) == now  # nothing is counted twice


def test_whoever_may_read_may_read_it(http: HttpServed) -> None:
    with httpx2.Client(base_url=http.url) as client:
        assert client.get("/metrics").status_code == 401
    with http.over_loopback(origin="http://elsewhere") as client:
        assert client.get("/metrics").status_code == 403
    with http.on_socket(token=False) as client:
        assert client.get("/metrics").status_code == 200
    assert http.ask("POST", "/metrics").status_code == 405


def test_without_its_library_it_says_what_to_install(
    http: HttpServed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    answer = http.ask("GET", "/metrics")
    assert answer.status_code == 503
    assert "lockgate[metrics]" in answer.json()["instead"]


def test_a_duration_falls_into_its_bucket_and_all_above() -> None:
    durations = Durations()
    durations.add(time.time(), None)
    for seconds in (0.05, 0.06, 1000.0, -1.0):
        durations.add(10 + seconds, 10)
    counts = dict(durations.buckets())
    assert counts["0.1"] == counts[str(BUCKETS[-1])] == 3
    assert counts["+Inf"] == 4
