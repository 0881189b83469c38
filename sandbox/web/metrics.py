# SPDX-License-Identifier: Apache-2.0
"""What Prometheus may be told: counts of the record, what waits and runs now, how long phases take.

It needs the extra `metrics`. No label holds a word of an agent, so that none can make more of them.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from sandbox.approvals.store.database import count_questions
from sandbox.audit.events.calls import AnsweredRecord, AskedRecord, DecidedRecord, EndedRecord
from sandbox.audit.events.reading import read
from sandbox.audit.events.record import AuditRecord
from sandbox.audit.query import Query, seconds_of
from sandbox.audit.reader import Audit
from sandbox.audit.segments import LogPlace, Segments
from sandbox.client.blocking import running_now
from sandbox.errors import SandboxError
from sandbox.host.dirs import Dirs
from sandbox.web.problems import HttpRefusal

if TYPE_CHECKING:
    from prometheus_client import Metric

BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Seconds."""
PHASES = {
    "question": "from a question to its answer",
    "run": "from the go-ahead to the end",
    "whole": "from the decision to the end",
}
MOST_OPEN = 10_000
"""Calls of which the end is waited for; of more the oldest are forgotten."""


class Meters:
    """Measures one state folder's record; phases from when it is made on."""

    def __init__(self, dirs: Dirs) -> None:
        """Begin at the end of the record."""
        self._dirs = dirs
        self._segments = Segments(dirs.state / "audit.jsonl")
        self._place = self._segments.end()
        self._open: OrderedDict[str, dict[str, float]] = OrderedDict()
        self._phases = {name: Durations() for name in PHASES}
        self._lock = threading.Lock()

    def text(self) -> tuple[bytes, str]:
        """Return what is measured now, and of which type the text is. Raises HttpRefusal."""
        try:
            from prometheus_client import CollectorRegistry, generate_latest
            from prometheus_client.exposition import CONTENT_TYPE_LATEST
        except ImportError:
            raise HttpRefusal(
                503, "Unavailable", "metrics need a library that is not installed",
                "`pip install 'lockgate[metrics]'`, and serve again",
            ) from None  # fmt: skip
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        with self._lock:
            self._read_on()
            return generate_latest(registry), CONTENT_TYPE_LATEST

    def collect(self) -> Iterator[Metric]:
        """Yield what is measured now, as the library asks for it."""
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        audit = Audit(self._dirs)
        decided = CounterMetricFamily(
            "lockgate_decisions", "Decisions on record, by gate 1's answer.", labels=["verdict"]
        )
        counts = audit.stats(Query()).verdicts
        for verdict in ("allow", "report", "ask", "deny"):
            decided.add_metric([verdict], counts.get(verdict, 0))
        yield decided
        waiting = count_questions(self._dirs, time.time())
        yield GaugeMetricFamily("lockgate_questions", "Questions that wait.", value=waiting)
        held = len(audit.held())
        yield GaugeMetricFamily("lockgate_held", "Calls of which changes are held.", value=held)
        yield from self._running()
        phases = HistogramMetricFamily(
            "lockgate_call_seconds",
            f"How long phases of calls took: {', '.join(f'{k} ({v})' for k, v in PHASES.items())}.",
            labels=["phase"],
        )
        for name, durations in self._phases.items():
            phases.add_metric([name], durations.buckets(), durations.total)
        yield phases

    def _running(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        try:
            now = running_now(self._dirs)
        except SandboxError:
            now = {"running": [], "cells": []}
        cells, calls = len(now["cells"]), len(now["running"])
        yield GaugeMetricFamily("lockgate_cells", "Cells that there are.", value=cells)
        yield GaugeMetricFamily("lockgate_calls", "Calls that go on.", value=calls)

    def _read_on(self) -> None:
        if not self._segments.reaches(self._place):  # another record stands there now
            self._place = self._segments.end()
        for place, raw in self._segments.from_place(self._place):
            self._place = LogPlace(place.segment, place.offset + len(raw))
            try:
                record = read(raw)
            except ValueError:
                continue  # `verify` names it
            self._take(record)

    def _take(self, record: AuditRecord) -> None:
        call, at = record.call, seconds_of(record.ts or "")
        if call is None:
            return
        match record:
            case DecidedRecord():
                known = self._open.setdefault(call, {"decided": at})
                known["going"] = at
                if len(self._open) > MOST_OPEN:
                    self._open.popitem(last=False)
            case AskedRecord(event="asked"):
                self._open.setdefault(call, {})["asked"] = at
            case AnsweredRecord():
                known = self._open.get(call, {})
                self._phases["question"].add(at, known.pop("asked", None))
                known["going"] = at
            case EndedRecord():
                known = self._open.pop(call, {})
                self._phases["whole"].add(at, known.get("decided"))
                if record.ending not in ("denied", "not-approved"):
                    self._phases["run"].add(at, known.get("going"))


class Durations:
    """How long something took, by buckets."""

    def __init__(self) -> None:
        self.total = 0.0
        """Seconds, all together."""
        self._counts = [0] * (len(BUCKETS) + 1)

    def add(self, until: float, since: float | None) -> None:
        """Count one that is over; None: its beginning is not known, and it counts as none."""
        if since is not None:
            seconds = max(0.0, until - since)
            self.total += seconds
            self._counts[bisect_left(BUCKETS, seconds)] += 1

    def buckets(self) -> list[tuple[str, float]]:
        """Return how many took at most so long, bucket by bucket."""
        return list(zip([*map(str, BUCKETS), "+Inf"], accumulate(self._counts), strict=True))
