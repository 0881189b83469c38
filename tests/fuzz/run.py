# SPDX-License-Identifier: Apache-2.0
"""Give random inputs to every target for some time, and keep those that break a promise.

A target must answer every input, without an exception, within `SLOW_MS` of processor time. Inputs
that fail are kept as files; the one that is being read is on disk as well, for the case that it
ends the process.
"""

from __future__ import annotations

import hashlib
import random
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.targets import TARGETS

SLOW_MS = 100.0
WEIGHTS = {"decide": 6, "policy-file": 1, "judge": 1, "git-config": 1, "bash": 1}
SLICE_SECONDS = 0.25
"""Time for one target before the next one has its turn."""


@dataclass
class Report:
    """What one run found."""

    seed: int
    runs: dict[str, int] = field(default_factory=dict)
    slowest_ms: dict[str, float] = field(default_factory=dict)
    failures: list[tuple[str, str, str]] = field(default_factory=list)
    """Target, what went wrong, and the input."""

    def lines(self) -> Iterator[str]:
        """Yield what a person wants to know."""
        for name, count in self.runs.items():
            yield f"{name:12} {count:9,} inputs, slowest {self.slowest_ms[name]:7.1f} ms"
        crashes = sum(not wrong.startswith("slow") for _, wrong, _ in self.failures)
        yield (
            f"seed {self.seed}: {sum(self.runs.values()):,} inputs, {crashes} crashes, "
            f"{len(self.failures) - crashes} answers over the limit"
        )


def run(seconds: float, seed: int, *, slow_ms: float = SLOW_MS, kept: Path | None = None) -> Report:
    """Fuzz every target for a share of `seconds`; failing inputs go into the folder `kept`."""
    rng = random.Random(seed)
    report = Report(seed)
    for name in TARGETS:
        report.runs[name], report.slowest_ms[name] = 0, 0.0
    end = time.monotonic() + seconds
    weights = [WEIGHTS[name] for name in TARGETS]
    current = kept / "current" if kept is not None else None
    while time.monotonic() < end:
        name = rng.choices(tuple(TARGETS), weights)[0]
        until = min(end, time.monotonic() + SLICE_SECONDS)
        while time.monotonic() < until:
            text = TARGETS[name].make(rng)
            if current is not None:
                current.write_bytes(f"{name}\n{text}".encode("utf-8", "surrogatepass"))
            wrong = _once(report, name, text, slow_ms)
            if wrong is not None:
                report.failures.append((name, wrong, text))
                if kept is not None:
                    keep(kept, name, wrong, text)
    if current is not None:
        current.unlink(missing_ok=True)
    return report


def _once(report: Report, name: str, text: str, slow_ms: float) -> str | None:
    report.runs[name] += 1
    began = time.process_time()
    try:
        TARGETS[name].run(text)
    except Exception:  # whatever it is, it is a finding
        return traceback.format_exc(limit=-3)
    took = (time.process_time() - began) * 1000
    report.slowest_ms[name] = max(report.slowest_ms[name], took)
    return f"slow: {took:.0f} ms" if took > slow_ms else None


def keep(folder: Path, name: str, wrong: str, text: str) -> None:
    """Write a failing input and what went wrong with it."""
    raw = text.encode("utf-8", "surrogatepass")
    stem = f"{name}-{hashlib.sha256(raw).hexdigest()[:12]}"
    (folder / f"{stem}.input").write_bytes(raw)
    (folder / f"{stem}.txt").write_text(wrong, "utf-8")
