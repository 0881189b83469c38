# SPDX-License-Identifier: Apache-2.0
"""A process in which an agent program failed to start hears its signals as before."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from sandbox.agents.run import run
from sandbox.errors import BadInput
from sandbox.host.dirs import Dirs


def test_no_signal_stays_blocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox.agents.run._become_subreaper", lambda: None)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    dirs = Dirs(config=tmp_path / "config", state=tmp_path / "state", runtime=tmp_path / "run")
    with pytest.raises(BadInput):
        run(dirs, ["true"], name="a name that is none")
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
