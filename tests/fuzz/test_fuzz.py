# SPDX-License-Identifier: Apache-2.0
"""A short run of the fuzzer, the same each time; `make fuzz` runs it for long and by chance."""

from __future__ import annotations

import os
from pathlib import Path

from tests.fuzz.run import keep, run
from tests.fuzz.targets import TARGETS
from tests.fuzz.truth import MARKERS, harmless, lab, miss, misses, ran

SECONDS = 5.0
SEED = int(os.environ.get("FUZZ_SEED", "20"))
GENEROUS_MS = 2_000.0
"""Of processor time; the machine may be slow, and what is measured in earnest is `make fuzz`."""


def test_a_short_run_finds_no_crash(tmp_path: Path) -> None:
    report = run(SECONDS, SEED, slow_ms=GENEROUS_MS, kept=tmp_path)
    assert report.failures == []
    assert set(report.runs) == set(TARGETS)
    assert sum(report.runs.values()) > 100
    assert list(tmp_path.iterdir()) == []


def test_a_failing_input_is_kept_as_it_was(tmp_path: Path) -> None:
    keep(tmp_path, "decide", "slow: 1 ms", "ls \udcff\n")
    kept = next(tmp_path.glob("*.input"))
    assert kept.read_bytes().decode("utf-8", "surrogatepass") == "ls \udcff\n"
    assert kept.with_suffix(".txt").read_text() == "slow: 1 ms"


def test_the_reading_finds_what_bash_runs() -> None:
    compared, found = misses(150, SEED)
    assert compared > 40
    assert found == []


def test_what_bash_runs_is_seen_at_all(tmp_path: Path) -> None:
    """The control: markers leave their marks, and a reading that overlooks one is caught."""
    lab(tmp_path)
    assert ran("mk1 $(mk2); if false; then mk3; fi", tmp_path) == ("mk2", "mk1")
    assert miss("mk1; mk2", tmp_path) is None
    assert not harmless("cat /etc/passwd")
    assert len(MARKERS) == 9
