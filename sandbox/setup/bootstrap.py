# SPDX-License-Identifier: Apache-2.0
"""Have a Docker engine: the one that runs, or one that is installed and started here.

Only root on Debian gets an engine installed and started, and only when none was chosen. What this
module started it can stop again, and nothing else.

    python -m sandbox.setup.bootstrap engine|images|runtimes|clean|stop
    python -m sandbox.setup.bootstrap program NAME PACKAGE
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import docker
import psutil

from sandbox.containers import apt
from sandbox.containers.endpoints import (
    Endpoint,
    EndpointAnswer,
    chosen,
    client_of,
    connect,
    how_to_get,
    knock,
)
from sandbox.containers.images import ensure_images, remove_images
from sandbox.containers.progress import Progress, on_stderr
from sandbox.errors import SandboxError, Unavailable
from sandbox.host.dirs import Dirs
from sandbox.setup import cgroups, gvisor

START_SECONDS = 180.0
"""A started engine answers within this time."""
STOP_SECONDS = 30.0
"""A stopped engine ends within this time, or is killed."""

OPEN_FILES = 1_048_576
"""Open files of an engine, as its own packages set it."""
BRIDGE_PACKET = 1500
"""Bytes of a packet on a bridge, if nobody says otherwise."""

USAGE = (
    "usage: python -m sandbox.setup.bootstrap engine|images|runtimes|clean|stop "
    "| program NAME PACKAGE"
)

PACKAGES = ("docker.io", "iptables")


@dataclass(frozen=True, slots=True)
class Place:
    """Where an engine of ours lives."""

    socket: Path = Path("/var/run/docker.sock")
    pid_file: Path = Path("/var/run/docker.pid")
    exec_root: Path = Path("/var/run/docker")
    command: tuple[str, ...] = ("dockerd",)
    """How the engine is called; its addresses are added."""
    state: Path = field(default_factory=lambda: Dirs.default().state)
    """Where the log and the note on what was started are kept."""

    @property
    def log(self) -> Path:
        """Return the file that dockerd's output goes to."""
        return self.state / "engine.log"

    @property
    def note(self) -> Path:
        """Return the file that names the process that was started."""
        return self.state / "engine.json"

    @property
    def installed(self) -> Path:
        """Return the file that says that the engine's packages were installed from here."""
        return self.state / "engine-installed"


def ensure_engine(progress: Progress) -> docker.DockerClient:
    """Return a client of an engine, installed and started first where that is ours to do.

    Takes milliseconds when one runs. Raises Unavailable with what is missing and how to get it.
    """
    try:
        return connect()
    except Unavailable:
        if chosen(os.environ) or os.geteuid() != 0 or sys.platform != "linux":
            raise
    if shutil.which("dockerd", path=apt.search_path()) is None:
        if not apt.can_install():
            raise Unavailable(how_to_get(sys.platform))
        apt.install(list(PACKAGES), progress)
        place = Place()
        place.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.installed.touch()
    return start(Place(), progress)


# An engine of ours


def start(place: Place, progress: Progress) -> docker.DockerClient:
    """Start an engine and return its client. Raises Unavailable with the engine's own last words.

    Files of an engine that is gone do not keep a new one from starting.
    """
    place.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _lock(place.state / "engine.lock"):
        if knock(place.socket) is not EndpointAnswer.ACCEPTS:  # nobody started it while we waited
            progress.step("starting the Docker engine")
            _begin(place, progress)
        return client_of(Endpoint(f"unix://{place.socket}"))


def _begin(place: Place, progress: Progress) -> None:
    if place == Place() and Path("/run/systemd/system").is_dir():
        apt.run(["systemctl", "start", "docker"], progress)
        return _wait(place, lambda: None)
    if _runs(place.pid_file, "dockerd"):
        return _wait(place, lambda: None)  # it is still starting
    clear_stale(place, progress)
    cgroups.ensure(progress)
    try:
        return _spawn(place, (*place.command, *_packet_size()))
    except Unavailable as error:
        if not re.search("iptables|nat table|bridge|network controller", str(error)):
            raise
        # Cells have no network, so an engine without one serves as well.
        progress.note(f"starting the engine without networks, since {error}")
    clear_stale(place, progress)
    return _spawn(place, (*place.command, "--bridge=none", "--iptables=false"))


def own_engine(place: Place) -> int | None:
    """Return the process id of an engine that was started or installed from here, or None."""
    if (process := _started(place)) is not None:
        return process.pid
    if place.installed.exists() and _runs(place.pid_file, "dockerd"):
        return int(place.pid_file.read_text(encoding="ascii"))
    return None


def stop(place: Place) -> int | None:
    """Stop the engine that `start` started, and return its process id, or None if there is none."""
    process = _started(place)
    place.note.unlink(missing_ok=True)
    if process is None:
        return None
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except psutil.TimeoutExpired:
            process.kill()
            process.wait(STOP_SECONDS)
    return process.pid


def clear_stale(place: Place, progress: Progress) -> None:
    """Remove pid files whose process is gone or is another program, and sockets nobody serves."""
    containerd = place.exec_root / "containerd"
    for pid_file, program in (
        (place.pid_file, "dockerd"),
        (containerd / "containerd.pid", "containerd"),
    ):
        if pid_file.exists() and not _runs(pid_file, program):
            progress.note(f"removing `{pid_file}`, left by an engine that is gone")
            pid_file.unlink(missing_ok=True)
    # dockerd takes the bare existence of the system's socket for a running containerd.
    served = (place.socket, containerd / "containerd.sock", Path("/run/containerd/containerd.sock"))
    for path in served:
        if path.is_socket() and knock(path) is EndpointAnswer.REFUSES:
            path.unlink(missing_ok=True)


def _spawn(place: Place, command: tuple[str, ...]) -> None:
    addresses = (
        f"--host=unix://{place.socket}",
        f"--pidfile={place.pid_file}",
        f"--exec-root={place.exec_root}",
    )
    with place.log.open("wb") as log, _many_open_files():
        process = subprocess.Popen(
            [*command, *addresses],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env={**os.environ, "PATH": apt.search_path()},
            start_new_session=True,  # lives on when this program ends
        )
    note = {"pid": process.pid, "created": psutil.Process(process.pid).create_time()}
    place.note.write_text(json.dumps(note), encoding="utf-8")

    def ended() -> str | None:
        code = process.poll()
        return None if code is None else f"ended with {code}"

    _wait(place, ended)


@contextlib.contextmanager
def _many_open_files() -> Iterator[None]:
    """Let what is started meanwhile open many files: containers can get no more than the engine."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        highest = int(Path("/proc/sys/fs/nr_open").read_text(encoding="ascii"))
        wanted = max(before[1], min(OPEN_FILES, highest))
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
    except (OSError, ValueError):
        yield  # not permitted: the engine has what we have
        return
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def _packet_size() -> tuple[str, ...]:
    """Return dockerd's option for a host whose way out takes smaller packets than a bridge's 1500.

    Without it, what a build downloads through the engine's bridge may get stuck.
    """
    try:
        rows = [line.split() for line in Path("/proc/net/route").read_text().splitlines()[1:]]
        ways_out = [row[0] for row in rows if row[1] == "00000000"]
        sizes = [int(Path(f"/sys/class/net/{name}/mtu").read_text()) for name in ways_out]
    except (OSError, ValueError, IndexError):
        return ()
    return (f"--mtu={min(sizes)}",) if sizes and min(sizes) < BRIDGE_PACKET else ()


def _wait(place: Place, ended: Callable[[], str | None]) -> None:
    """Return once the engine answers. Raises Unavailable when it ended or takes too long."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if knock(place.socket) is EndpointAnswer.ACCEPTS:
            return
        if reason := ended():
            raise Unavailable(f"the Docker engine {reason}: {_last_words(place.log)}")
        time.sleep(0.1)
    raise Unavailable(
        f"the Docker engine does not answer after {START_SECONDS:.0f} s: {_last_words(place.log)}"
    )


def _last_words(log: Path) -> str:
    """Return the last complaint of dockerd's log and where to read on."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "see its own log"
    serious = [line for line in lines if "level=fatal" in line or not line.startswith("time=")]
    words = (serious or lines or ["it said nothing"])[-1]
    if said := re.search(r'msg="((?:[^"\\]|\\.)*)"', words):
        words = said[1]
    return f"{words.strip()} (log: {log})"


def _started(place: Place) -> psutil.Process | None:
    """Return the process that `start` noted, unless its id belongs to another one by now."""
    try:
        note = json.loads(place.note.read_text(encoding="utf-8"))
        process = psutil.Process(int(note["pid"]))
        same = abs(process.create_time() - float(note["created"])) < 1.0
    except (OSError, ValueError, KeyError, psutil.NoSuchProcess):
        return None
    return process if same else None


def _runs(pid_file: Path, program: str) -> bool:
    """Whether the process of a pid file lives and is that program."""
    try:
        process = psutil.Process(int(pid_file.read_text(encoding="ascii")))
        return process.name() == program and process.status() != psutil.STATUS_ZOMBIE
    except (OSError, ValueError, psutil.NoSuchProcess):
        return False


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _have_program(name: str, package: str) -> None:
    """Install a program that is useful but not needed, or say what goes without it."""
    if shutil.which(name, path=apt.search_path()):
        return
    try:
        if not apt.can_install():
            raise Unavailable(f"run `sudo apt-get install {package}`")
        with on_stderr() as progress:
            apt.install([package], progress)
    except Unavailable as error:
        print(f"lockgate: going on without {name}: {error}", file=sys.stderr)


def main(arguments: list[str]) -> int:
    """Set up the engine and the images from a Makefile. Returns an exit status."""
    match arguments:
        case ["engine" | "images" | "runtimes" | "clean" as what]:
            try:
                with on_stderr() as progress:
                    client = ensure_engine(progress) if what != "clean" else connect()
                    if what == "images":
                        ensure_images(client, progress)
                    if what == "runtimes":
                        gvisor.ensure(client, own_engine(Place()), progress)
                    if what == "clean":
                        remove_images(client, old_only=True)
            except SandboxError as error:
                print(f"lockgate: {error}", file=sys.stderr)
                return 1
        case ["stop"]:
            stop(Place())
        case ["program", name, package]:
            _have_program(name, package)
        case _:
            print(USAGE, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
