# SPDX-License-Identifier: Apache-2.0
"""Mount control groups where nobody did: small systems without systemd leave that to us.

An engine refuses to start without them. What is mounted already stays as it is.
"""

from __future__ import annotations

from pathlib import Path

from sandbox.containers import apt
from sandbox.containers.progress import Progress
from sandbox.errors import Unavailable

ROOT = Path("/sys/fs/cgroup")
NEEDED = ("memory", "pids")
"""Controllers without which a cell's limits do not hold."""


def mounted(mounts: str) -> bool:
    """Whether the text of /proc/mounts names any hierarchy of control groups."""
    kinds = (fields[2] for line in mounts.splitlines() if len(fields := line.split()) > 2)
    return any(kind in ("cgroup", "cgroup2") for kind in kinds)


def controllers(table: str) -> tuple[str, ...]:
    """Return the controllers that /proc/cgroups says are enabled."""
    rows = (line.split() for line in table.splitlines() if not line.startswith("#"))
    return tuple(row[0] for row in rows if len(row) == 4 and row[3] == "1")


def named(own: str) -> tuple[str, ...]:
    """Return the named hierarchies of the text of /proc/self/cgroup, such as `name=systemd`."""
    rows = (line.split(":") for line in own.splitlines())
    return tuple(row[1] for row in rows if len(row) > 2 and row[1].startswith("name="))


def can_limit() -> bool:
    """Whether what is mounted offers the needed controllers, in either version."""
    unified = ROOT / "cgroup.controllers"
    if unified.is_file():
        offered = unified.read_text(encoding="ascii").split()
        return all(name in offered for name in NEEDED)
    return all((ROOT / name / "cgroup.procs").is_file() for name in NEEDED)


def ensure(progress: Progress) -> None:
    """Mount control groups if none are. Needs root. Raises Unavailable."""
    if mounted(Path("/proc/mounts").read_text(encoding="utf-8")):
        return
    if not ROOT.is_dir():
        raise Unavailable(f"`{ROOT}` does not exist: the kernel has no control groups")
    progress.note("mounting control groups")
    _mount("cgroup2", ROOT, progress)
    if can_limit():
        return
    # The kernel gives its controllers to version 1, one hierarchy each.
    apt.run(["umount", str(ROOT)], progress)
    _mount("tmpfs", ROOT, progress)
    for name in controllers(Path("/proc/cgroups").read_text(encoding="ascii")):
        (ROOT / name).mkdir(exist_ok=True)
        _mount("cgroup", ROOT / name, progress, option=name)
    # Where one exists, an engine wants to see it, or it hears of no process killed for memory.
    for option in named(Path("/proc/self/cgroup").read_text(encoding="utf-8")):
        name = option.removeprefix("name=")
        (ROOT / name).mkdir(exist_ok=True)
        _mount("cgroup", ROOT / name, progress, option=f"none,{option}")


def _mount(kind: str, where: Path, progress: Progress, option: str = "mode=0755") -> None:
    options = [] if kind == "cgroup2" else ["-o", option]
    apt.run(["mount", "-t", kind, *options, f"lockgate-{kind}", str(where)], progress)
