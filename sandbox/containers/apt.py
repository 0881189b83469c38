# SPDX-License-Identifier: Apache-2.0
"""Debian's package manager, asked through its own programs and its own configuration.

No address of a mirror is known here: where packages come from is what apt says.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from pathlib import Path

from sandbox.containers.progress import Progress
from sandbox.errors import Unavailable

COMMAND_SECONDS = 900.0
"""Any one command of a package manager must end within this time."""
QUERY_SECONDS = 30.0


def release() -> dict[str, str]:
    """Return what /etc/os-release says, such as ID and VERSION_CODENAME; empty elsewhere."""
    try:
        text = Path("/etc/os-release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip().strip("\"'") for key, value in pairs}


def search_path() -> str:
    """Return PATH with the folders of the system's own programs, which `su` leaves out."""
    return os.pathsep.join(
        (os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin")
    )


def can_install() -> bool:
    """Whether this process may install Debian packages."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def install(packages: list[str], progress: Progress) -> None:
    """Install packages without what they only recommend. Raises Unavailable."""
    progress.step(f"installing {' '.join(packages)}")
    command = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    try:
        run(command, progress)
    except Unavailable:
        # Lists that are missing or out of date name packages that are not there.
        refresh_lists(progress)
        run(command, progress)


def refresh_lists(progress: Progress) -> None:
    """Fetch apt's lists of packages. Raises Unavailable."""
    progress.step("refreshing the lists of packages")
    run(["apt-get", "update"], progress)


def sources() -> list[str]:
    """Return the sources of the system's own release, as lines of a sources.list.

    Other vendors' sources are left out. Empty when apt has no lists yet.
    """
    system = release()
    suite = system.get("VERSION_CODENAME", "")
    suites = {suite, f"{suite}-updates", f"{suite}-security", f"{suite}/updates"}
    shown = "$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(ORIGIN)"
    found: dict[tuple[str, str], set[str]] = {}
    command = ["apt-get", "indextargets", "--format", shown, "Created-By: Packages"]
    for line in _answer(command).splitlines():
        address, name, component, origin = line.split("|")
        official = origin.lower() == system.get("ID")
        if official and name in suites and component in ("main", "universe"):
            found.setdefault((address, name), set()).add(component)
    return [
        f"deb {address} {name} {' '.join(sorted(components))}"
        for (address, name), components in found.items()
    ]


def date_options() -> list[str]:
    """Return the host's settings on lists that are out of date, as lines of an apt.conf.

    A mirror that is a snapshot has such lists on purpose.
    """
    wanted = ("Acquire::Check-Valid-Until ", "Acquire::Check-Date ")
    return [
        line for line in _answer(["apt-config", "dump"]).splitlines() if line.startswith(wanted)
    ]


def run(command: list[str], progress: Progress) -> None:
    """Run a program and show its lines. Raises Unavailable with its last complaint."""
    complaint = last = ""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "PATH": search_path()},
    ) as process:
        timer = threading.Timer(COMMAND_SECONDS, process.kill)
        timer.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                last = line.strip() or last
                if line.startswith("E: "):
                    complaint = line[3:].strip()
                progress.detail(line)
        finally:
            timer.cancel()
    if process.returncode != 0:
        raise Unavailable(f"`{' '.join(command[:2])}` failed: {complaint or last or 'no output'}")


def _answer(command: list[str]) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=QUERY_SECONDS
    )
    return done.stdout
