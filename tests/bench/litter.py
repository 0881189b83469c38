# SPDX-License-Identifier: Apache-2.0
"""What a supervisor that has ended must not leave: containers, volumes, sockets, half landings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sandbox.config.settings import Dirs
from sandbox.containers.endpoints import connect
from sandbox.containers.engine import Engine
from sandbox.containers.ledger import state_label


def litter(dirs: Dirs, *workspaces: Path) -> list[str]:
    """Return what is left of the supervisors of a state folder, one line each. Blocking."""
    client = connect()
    api: Any = client.api
    state = state_label(dirs)
    found = [
        f"container {(one['Names'] or [one['Id'][:12]])[0]} is left ({one['Status']})"
        for one in Engine(client, state).containers()
    ]
    volumes = api.volumes(filters={"name": f"lockgate-layers-{state}"})["Volumes"] or ()
    found += [f"volume {one['Name']} is left" for one in volumes]
    doors = dirs.runtime / "cells"
    found += [f"{path} is left" for path in doors.glob("*")]
    for workspace in workspaces:
        found += [f"{path} is left" for path in (workspace / ".lockgate/landing").glob("*")]
        found += [f"{path} is left" for path in (workspace / ".lockgate/undo").glob("*.stuck")]
    mounts = Path("/proc/self/mountinfo").read_text("utf-8").splitlines()
    roots = [str(workspace) for workspace in workspaces]
    found += [
        f"a mount is left at {line.split()[4]}" for line in mounts if line.split()[4] in roots
    ]
    return found
