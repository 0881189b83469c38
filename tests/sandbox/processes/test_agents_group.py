# SPDX-License-Identifier: Apache-2.0
"""Control groups of agents: made where allowed, and removed when they are empty."""

from __future__ import annotations

import os
import secrets
import subprocess
from pathlib import Path

import pytest

from sandbox.processes.cgroup import OLD_SECONDS, ControlGroup, _tidy
from tests.conftest import cannot_run


@pytest.fixture
def group() -> ControlGroup:
    """Return a group of our own."""
    one = ControlGroup.make(f"test{secrets.token_hex(8)}", "a")
    if one is None:
        cannot_run("no control group can be made here")
    return one


def test_what_is_in_it_stays_in_it_and_is_frozen_with_it(group: ControlGroup) -> None:
    process = subprocess.Popen(["bash", "-c", "sleep 60 & setsid sleep 60 & wait"])
    try:
        assert group.add(process.pid)
        assert process.pid in group.members()
        group.freeze()
        group.thaw()
        assert not group.remove()  # a process is in it
    finally:
        for pid in group.members():
            os.kill(pid, 9)
        process.wait()
    for _ in range(200):
        if group.remove():
            break
    assert not group.path.exists()


def test_where_none_can_be_made_there_is_none(tmp_path: Path) -> None:
    assert ControlGroup.make("token", "a", root=tmp_path) is None


def test_old_empty_groups_go_and_others_stay(tmp_path: Path) -> None:
    for name in ("old", "fresh", "full"):
        (tmp_path / name).mkdir()
    (tmp_path / "full" / "child").mkdir()
    for name in ("old", "full"):
        os.utime(tmp_path / name, (1, tmp_path.stat().st_mtime - 2 * OLD_SECONDS))
    _tidy(tmp_path)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["fresh", "full"]
