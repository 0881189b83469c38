# SPDX-License-Identifier: Apache-2.0
"""A Lockgate of a test's own with a real supervisor process, as front doors find it."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker.errors

from sandbox.client.blocking import BlockingClient
from sandbox.client.connect import connect
from sandbox.containers.ledger import state_label
from sandbox.containers.plan import LABEL_STATE
from sandbox.errors import SandboxError
from tests.container.lab import remove_layers
from tests.sandbox.shells import ROOT, Shell

LOCKGATE = ROOT / ".venv" / "bin" / "lockgate"
WAIT_SECONDS = 120.0


@contextlib.contextmanager
def served(client: Any, *, register: bool = True) -> Iterator[Shell]:
    """Yield a shell with folders and a workspace of its own; ends its supervisor afterwards."""
    root = Path(tempfile.mkdtemp(prefix="lg-"))  # short, for the socket's path
    made = Shell(root)
    made.workspace = root / "home" / "work"
    made.workspace.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(made.workspace)], check=True)
    if register:
        assert made("init")[0] == 0
    try:
        yield made
    finally:
        end(client, made)
        shutil.rmtree(root, ignore_errors=True)


def end(client: Any, shell: Shell) -> None:
    """End the supervisor of a shell, and what is left of its containers."""
    with contextlib.suppress(SandboxError), BlockingClient(shell.dirs) as one:
        one.shutdown(force=True)
    until = time.monotonic() + WAIT_SECONDS
    while connect(shell.dirs) is not None and time.monotonic() < until:
        time.sleep(0.05)
    label = f"{LABEL_STATE}={state_label(shell.dirs)}"
    while time.monotonic() < until:
        left = client.containers.list(all=True, ignore_removed=True, filters={"label": label})
        for one in left:
            with contextlib.suppress(docker.errors.APIError):
                one.remove(force=True)
        try:
            remove_layers(client, shell.dirs)
            return
        except docker.errors.APIError:
            time.sleep(0.1)
