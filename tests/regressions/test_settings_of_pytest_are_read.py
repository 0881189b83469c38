# SPDX-License-Identifier: Apache-2.0
"""Found: what a setting given on pytest's command line writes was read in one spelling alone."""

from __future__ import annotations

import pytest

from policy.model import Verdict
from tests.policy.asking import bash

WORKFLOW = ".github/workflows/x.yml"
GIVEN = (
    "pytest -o log_file={}",
    "pytest -olog_file={}",
    "pytest --override-ini=log_file={}",
    "pytest --override-ini log_file={}",
    "py.test -o log_file={}",
    "python3 -m pytest -o log_file={}",
    "pytest -o 'addopts=-q --log-file={}'",
)


@pytest.mark.parametrize("command", GIVEN)
def test_what_a_setting_writes_is_judged(command: str) -> None:
    asked = bash(command.format(WORKFLOW))
    assert asked.verdict is Verdict.ASK
    assert "executed-files" in asked.rules
    assert bash(command.format("out.log")).verdict is Verdict.REPORT  # the control


@pytest.mark.parametrize("setting", ["log_file=", "cache_dir= ", "addopts=", "addopts=-x 'a"])
def test_a_setting_that_is_unset_writes_nothing(setting: str) -> None:
    assert bash(f'pytest -o "{setting}"').rules == bash("pytest").rules
