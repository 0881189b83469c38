# SPDX-License-Identifier: Apache-2.0
"""Have gVisor's `runsc` as a runtime of the engine: installed and registered where that is ours.

Only an engine that Lockgate installed or started is told of it, by its settings file and a reload,
under which containers go on. Of any other engine it is said what is missing.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import docker

from sandbox.containers import apt
from sandbox.containers.progress import Progress
from sandbox.containers.runtimes import missing, unenforced
from sandbox.errors import Unavailable

NAME = "runsc"
PACKAGE = "runsc"
ARGUMENTS = ("--network=none", "--oci-seccomp")
"""No network but a loopback; the engine's filter of system calls holds inside too."""
SYSTEMD_CGROUPS = "--systemd-cgroup"
"""For an engine that has systemd make its control groups."""
SETTINGS = Path("/etc/docker/daemon.json")
RELOAD_SECONDS = 60.0


def ensure(
    client: docker.DockerClient, pid: int | None, progress: Progress, settings: Path = SETTINGS
) -> None:
    """Have the runtime registered; `pid` is the engine's, if it is ours. Raises Unavailable."""
    info = client.info()
    if _serves(info):
        return
    program = _program(progress)
    entry = {"path": program, "runtimeArgs": list(arguments(info))}
    if pid is None:
        raise Unavailable(
            f"the engine has no such runtime `{NAME}`, and Lockgate did not start it: have "
            f'{{"runtimes": {json.dumps({NAME: entry})}}} in {settings} and reload it '
            "(`sudo systemctl reload docker`)"
        )
    progress.step(f"registering the runtime {NAME}")
    write(settings, entry)
    os.kill(pid, signal.SIGHUP)
    deadline = time.monotonic() + RELOAD_SECONDS
    while not _serves(client.info()):
        if time.monotonic() > deadline:
            raise Unavailable(f"the engine did not take the runtime `{NAME}` from {settings}")
        time.sleep(0.1)


def _serves(info: Mapping[str, Any]) -> bool:
    return missing(NAME, info) is None and not unenforced(NAME, info)


def arguments(info: Mapping[str, Any]) -> tuple[str, ...]:
    """Return how the runtime is to be called by an engine with this `info` answer."""
    systemd = info.get("CgroupDriver") == "systemd"
    return (*ARGUMENTS, *((SYSTEMD_CGROUPS,) if systemd else ()))


def write(settings: Path, entry: Mapping[str, Any]) -> None:
    """Add the runtime to an engine's settings; all else in them stays. Raises Unavailable."""
    found: Any = {}
    try:
        found = json.loads(settings.read_text(encoding="utf-8") or "{}")
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        raise Unavailable(f"the engine's settings {settings} cannot be read: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.setdefault("runtimes", {}), dict):
        raise Unavailable(f"the engine's settings {settings} are not what the engine reads")
    found["runtimes"][NAME] = dict(entry)
    draft = settings.with_suffix(".lockgate-new")
    try:
        settings.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
        with contextlib.suppress(FileNotFoundError):
            draft.chmod(settings.stat().st_mode & 0o777)
        draft.replace(settings)
    except OSError as error:
        raise Unavailable(f"{settings} cannot be written: {error.strerror}") from None


def _program(progress: Progress) -> str:
    path = apt.search_path()
    if (found := shutil.which(NAME, path=path)) is None:
        if not apt.can_install():
            raise Unavailable(f"gVisor is missing: run `sudo apt-get install {PACKAGE}`")
        apt.install([PACKAGE], progress)
        found = shutil.which(NAME, path=path)
    if found is None:
        raise Unavailable(f"the package `{PACKAGE}` brought no program `{NAME}`")
    return found
