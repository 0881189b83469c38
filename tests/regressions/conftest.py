# SPDX-License-Identifier: Apache-2.0
"""Labs with real cells for regressions, and the command line over a state folder of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.stopping.stop import stop_all
from tests.container.conftest import lab, labs_by_owner, make_lab, owner, shared_lab, weak
from tests.sandbox.shells import Shell

__all__ = ["lab", "labs_by_owner", "make_lab", "owner", "shared_lab", "weak"]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    (tmp_path / "home").mkdir()
    shell.dirs.create()
    yield shell
    stop_all(shell.dirs, "the test has ended")  # whatever a failed test leaves
