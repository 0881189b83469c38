# SPDX-License-Identifier: Apache-2.0
"""A process that ran tests and died left the run waiting for ever, or was not missed at all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.__main__ import AT_ONCE, ROOT

CONFTEST = """
import os
from tests.conftest import (
    pytest_configure, pytest_sessionfinish, pytest_terminal_summary, pytest_testnodedown,
)

def pytest_runtest_logfinish(nodeid):
    if os.environ.get("PYTEST_XDIST_WORKER") and os.path.exists(nodeid.partition("::")[2]):
        os._exit(7)
"""
TESTS = """
import os, pytest

@pytest.mark.xdist_group(__name__)
@pytest.mark.parametrize("number", range(4))
def test_one(number):
    if os.path.exists(f"in-{__name__}-{number}"):
        os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("when", ["in-test_b-2", "test_one[2]", ""])
def test_a_run_in_which_a_process_dies_ends_and_fails(tmp_path: Path, when: str) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name in "abcdef":
        (tmp_path / f"test_{name}.py").write_text(TESTS)
    if when:
        (tmp_path / when).touch()
    plain = ("-p", "no:cacheprovider", "-p", "xdist")  # other plugins take seconds to import
    words = [sys.executable, "-m", "pytest", *plain, *AT_ONCE[1:], "-n", "2"]
    env = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == (3 if when else 0), done.stdout + done.stderr
    assert ("died: not all tests were run" in done.stdout) is bool(when)
