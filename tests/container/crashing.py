# SPDX-License-Identifier: Apache-2.0
"""What the walks over crashes share: a call that changes every kind of thing, and what to check.

A walk repeats one action and kills a process at the first, the second, the third step, until the
action comes to its end: so no step is left out, and none is named here.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sandbox.config.settings import Dirs
from sandbox.containers.ledger import state_label
from sandbox.containers.plan import LABEL_CELL
from sandbox.host.process_owner import owner_label
from tests.bench.litter import litter
from tests.container.lab import Lab, repository, snapshot, wait_for

CHANGE = (
    "echo more >> README.md; echo new > new.txt; rm tool.sh; mkdir made; echo in > made/in;"
    " mv src source; chmod 600 keep.txt; git add new.txt"
)
"""Modifies, creates, deletes, moves a folder, sets a mode, and changes git's index."""
FEWER = "echo more >> README.md; rm tool.sh; echo new > new.txt; chmod 600 keep.txt"
"""One change for each kind of operation in a journal."""
OBEYED = "mkdir .vscode; echo '{}' > .vscode/tasks.json"
"""What a person must look at."""
MOST_STEPS = 400
Tree = dict[str, tuple[Any, ...]]


def workspace(folder: Path, owner: int) -> Path:
    """Make a repository in which CHANGE has something to change."""
    repository(folder, owner)
    (folder / "keep.txt").write_text("keep\n")
    (folder / "src" / "more.txt").write_text("more\n")
    for path in (folder / "keep.txt", folder / "src" / "more.txt"):
        if os.geteuid() == 0:
            os.chown(path, owner, owner)
    return folder


def look(folder: Path) -> Tree:
    """Return what a workspace holds, without times and without what git makes of them."""
    return {
        path: tuple(value for at, value in enumerate(found) if at != 2 or len(found) < 4)
        for path, found in snapshot(folder).items()
        if not path.startswith(".git/")
    }


def layers(lab: Lab) -> set[str]:
    """Return the folders of private layers in the keepers' volume: one per living cell."""
    volume = f"lockgate-layers-{state_label(lab.dirs)}"
    output = lab.client.containers.run(
        lab.keeper.attrs["Image"],
        ["-c", "import os; print('\\n'.join(os.listdir('/tx/live')))"],
        entrypoint="python3",
        volumes={volume: {"bind": "/tx", "mode": "ro"}},
        labels=lab.keeper.labels,
        network_mode="none",
        remove=True,
    )
    return set(bytes(output).decode().split())


def is_clean(lab: Lab) -> None:
    """Assert that of all that died nothing is left but what belongs to the living cells."""
    mine = {one.labels[LABEL_CELL] for one in lab.containers("cell")}
    wait_for(lambda: len(lab.containers()) == 2 * len(mine), "containers of dead cells are gone")
    assert layers(lab) == mine
    assert list((lab.ws / ".lockgate/landing").glob("*")) == []
    assert lab.supervisor._record.store.verify() is None


def is_alone(lab: Lab) -> None:
    """Assert that of supervisors that died nothing is left but what belongs to the living one."""
    mine = sorted(2 * [cell["name"] for cell in lab.supervisor.cells()])
    assert sorted(one.labels[LABEL_CELL] for one in lab.containers()) == mine
    doors = [path.name for path in (lab.dirs.runtime / "cells").iterdir()]
    assert doors == [owner_label().replace(":", "-")]
    assert list((lab.ws / ".lockgate/landing").glob("*")) == []


def nothing_left(dirs: Dirs, folder: Path) -> None:
    """Assert that a supervisor that has ended left nothing behind."""
    with contextlib.suppress(AssertionError):  # the engine may be removing something yet
        wait_for(lambda: not litter(dirs, folder), "nothing is left")
    left = litter(dirs, folder)
    assert left == [], left


def no_process(arguments: Sequence[str]) -> None:
    """Assert that no process of this host was started with these arguments."""
    wanted = b"\0".join(word.encode() for word in arguments) + b"\0"

    def running() -> bool:
        found = False
        for one in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                found = found or one.read_bytes() == wanted
        return found

    wait_for(lambda: not running(), f"{arguments} has ended")


def pid_outside(container: Any) -> int:
    """Return the pid, on the host, of a container's first process."""
    container.reload()
    return int(container.attrs["State"]["Pid"])


def transfer(image: str, socket: Path, tag: str) -> None:
    """Give another engine an image of this one, under a second tag too."""
    other = ["docker", "-H", f"unix://{socket}"]
    with subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE) as saved:
        subprocess.run([*other, "load"], stdin=saved.stdout, check=True, capture_output=True)
    subprocess.run([*other, "tag", image, tag], check=True)
