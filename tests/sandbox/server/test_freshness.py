# SPDX-License-Identifier: Apache-2.0
"""Which changes of the settings a supervisor that is busy may go on with."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.host.dirs import Dirs
from sandbox.server.freshness import Freshness

COLLECTOR = "telemetry: {endpoint: 'http://127.0.0.1:4318'}"
GOES_ON = {
    "longer deliveries": (COLLECTOR, COLLECTOR.replace("}", ", seconds: 9}")),
    "a first collector": ("", COLLECTOR),
    "fewer files": ("audit: {keep: 9}", "audit: {keep: 3}"),
    "fewer than all": ("", "audit: {keep: 3, rotate_mib: 1}"),
}
MUST_NOT = {
    "no collector any more": (COLLECTOR, "", "telemetry"),
    "another collector": (COLLECTOR, COLLECTOR.replace("4318", "4319"), "telemetry"),
    "more files": ("audit: {keep: 3}", "audit: {keep: 9}", "audit"),
    "all files": ("audit: {keep: 3}", "", "audit"),
    "larger files": ("audit: {keep: 3}", "audit: {keep: 3, rotate_mib: 999}", "audit"),
}


def lag_behind(folder: Path, began: str, wanted: str) -> str:
    """Return why a supervisor that began with some settings must not go on with others."""
    dirs = Dirs.under(folder)
    dirs.config.mkdir(parents=True)
    dirs.settings.write_text(began + "\n")
    freshness = Freshness(dirs)
    dirs.settings.write_text(wanted + "\n")
    lag = freshness.lag()
    assert lag.changed
    return lag.why_not


@pytest.mark.parametrize("began, wanted", GOES_ON.values(), ids=GOES_ON)
def test_what_loosens_nothing_lets_it_go_on(tmp_path: Path, began: str, wanted: str) -> None:
    assert lag_behind(tmp_path, began, wanted) == ""


@pytest.mark.parametrize("began, wanted, name", MUST_NOT.values(), ids=MUST_NOT)
def test_what_may_be_stricter_does_not(tmp_path: Path, began: str, wanted: str, name: str) -> None:
    assert lag_behind(tmp_path, began, wanted) == f"`{name}` may be stricter now in the settings"
