# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of the command line: a shell, and a fake supervisor behind the socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from sandbox.workspaces.registry import Registry
from tests.fakes import Served, served
from tests.sandbox.shells import Shell


@pytest.fixture
def shell() -> Iterator[Shell]:
    with TemporaryDirectory(prefix="lg-") as folder:
        yield Shell(Path(folder))


@pytest.fixture
def running(shell: Shell) -> Iterator[Served]:
    Registry(shell.dirs).add(shell.workspace, approved=True)
    with served(shell.dirs) as one:
        yield one
