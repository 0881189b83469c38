# SPDX-License-Identifier: Apache-2.0
"""What package managers and editors run by themselves stood in files that no list named."""

from __future__ import annotations

import pytest

from policy.model import Change, FileType, Kind
from tests.regressions.test_what_programs_obey_is_held import change, outcome

RUSH = '{"rushVersion": "5.1.0" /* x */}'
HOOKS = '{"rushVersion": "5.1.0", "eventHooks": {"preRushInstall": ["touch x"]}}'
DART = "analyzer:\n  plugins:\n    - custom_lint\n"
EVIL = "plugins:\n  evil:\n    path: ./evil\n"


@pytest.mark.parametrize(
    ("path", "before", "after", "expected"),
    [
        ("rush.json", RUSH, HOOKS, "hold"),
        ("rush.json", RUSH, RUSH.replace("1.0", "2.0"), "land"),
        ("analysis_options.yaml", DART, DART + EVIL, "hold"),
        ("analysis_options.yaml", None, DART, "land"),
    ],
)
def test_what_runs_by_itself_is_held(
    path: str, before: str | None, after: str, expected: str
) -> None:
    assert outcome(change(path, before, after)) == expected


@pytest.mark.parametrize(
    "path", ["dub.sdl", "common/config/rush/command-line.json", "rebar.config.script", ".yardopts"]
)
def test_programs_of_package_managers_are_held(path: str) -> None:
    assert outcome(Change(path, Kind.CREATED, FileType.FILE)) == "hold"
    beside = path.replace("dub", "sub").replace("command", "other").replace("script", "md")
    beside = beside.replace(".yardopts", "yardopts.md")
    assert outcome(Change(beside, Kind.CREATED, FileType.FILE)) == "land"
