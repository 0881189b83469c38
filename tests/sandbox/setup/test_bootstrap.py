# SPDX-License-Identifier: Apache-2.0
"""Which engine is used, how one is started and stopped, and what is said where that is not ours."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sandbox.containers import apt
from sandbox.containers.endpoints import (
    EndpointAnswer,
    api_problem,
    chosen,
    endpoints,
    how_to_get,
    knock,
)
from sandbox.containers.progress import SilentProgress
from sandbox.errors import Unavailable
from sandbox.setup import bootstrap, cgroups
from sandbox.setup.bootstrap import Place, clear_stale, start, stop
from tests.conftest import cannot_run

FAKE = Path(__file__).parents[1] / "fake_engine.py"
GONE = 2**22 + 1
"""No process has this id: it is above the kernel's largest."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="lockgate-") as name:
        yield Path(name)


def a_place(folder: Path, *command: str) -> Place:
    return Place(
        socket=folder / "docker.sock",
        pid_file=folder / "docker.pid",
        exec_root=folder / "exec",
        command=command or (sys.executable, str(FAKE)),
        state=folder / "state",
    )


def listening(path: Path) -> socket.socket:
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()
    return server


def run_module(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sandbox.setup.bootstrap", *arguments],
        env={**os.environ, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


# Which engine


def test_an_engine_that_was_chosen_is_the_only_one_looked_at() -> None:
    found = endpoints({"DOCKER_HOST": "unix:///some/where.sock"}, Path("/home/x"), 1000)
    assert [(one.url, one.chosen_by) for one in found] == [
        ("unix:///some/where.sock", "DOCKER_HOST")
    ]


def test_the_usual_places_are_tried_in_order() -> None:
    environ = {"DOCKER_CONTEXT": "default"}
    assert [one.url for one in endpoints(environ, Path("/home/x"), 1000)] == [
        "unix:///var/run/docker.sock",
        "unix:///run/user/1000/docker.sock",
        "unix:///home/x/.docker/run/docker.sock",
        "unix:///home/x/.docker/desktop/docker.sock",
    ]
    environ["XDG_RUNTIME_DIR"] = "/run/mine"
    assert endpoints(environ, Path("/home/x"), 1000)[1].url == "unix:///run/mine/docker.sock"


def test_a_context_that_does_not_exist_is_named() -> None:
    with pytest.raises(Unavailable, match="docker context `none-such` does not exist"):
        chosen({"DOCKER_CONTEXT": "none-such"})


def test_the_current_context_is_respected(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"currentContext": "away"}))
    meta = folder / "contexts/meta" / hashlib.sha256(b"away").hexdigest()
    meta.mkdir(parents=True)
    host = f"unix://{folder}/away.sock"
    endpoint = {"docker": {"Host": host, "SkipTLSVerify": False}}
    context = {"Name": "away", "Metadata": {}, "Endpoints": endpoint}
    (meta / "meta.json").write_text(json.dumps(context))
    done = run_module("engine", DOCKER_CONFIG=str(folder), DOCKER_HOST="", DOCKER_CONTEXT="")
    assert done.stderr == (
        f"lockgate: docker context `away` names `{host}`, which does not exist: "
        "start that engine or choose another\n"
    )
    assert done.returncode == 1


def test_a_chosen_engine_is_never_replaced(folder: Path) -> None:
    done = run_module("engine", DOCKER_HOST=f"unix://{folder}/none.sock")
    assert done.stderr == (
        f"lockgate: DOCKER_HOST names `unix://{folder}/none.sock`, which does not exist: "
        "start that engine or choose another\n"
    )
    assert done.returncode == 1


def test_knocking_tells_a_server_from_what_it_left(folder: Path) -> None:
    path = folder / "a.sock"
    assert knock(path) is EndpointAnswer.ABSENT
    server = listening(path)
    assert knock(path) is EndpointAnswer.ACCEPTS
    server.close()
    assert knock(path) is EndpointAnswer.REFUSES


VERSIONS = {
    "docker 20.10": ("1.41", None),
    "docker 29": ("1.52", None),
    "the next major": ("2.0", None),
    "docker 19.03": (
        "1.40",
        "the engine's API is 1.40; 1.41 (Docker 20.10) or newer is needed",
    ),
    "1.9 is not 1.90": (
        "1.9",
        "the engine's API is 1.9; 1.41 (Docker 20.10) or newer is needed",
    ),
    "nothing": ("", "the engine's API is unknown; 1.41 (Docker 20.10) or newer is needed"),
}


@pytest.mark.parametrize(("version", "problem"), VERSIONS.values(), ids=VERSIONS)
def test_engines_that_are_too_old_are_refused(version: str, problem: str | None) -> None:
    assert api_problem(version) == problem


def test_how_to_get_an_engine_is_one_line_everywhere() -> None:
    assert "Docker Desktop" in how_to_get("darwin")
    for platform in ("darwin", "linux"):
        assert "\n" not in how_to_get(platform)


def test_a_wrong_argument_shows_the_usage() -> None:
    done = run_module("dance")
    assert (done.returncode, done.stderr.startswith("usage: ")) == (2, True)


# An engine of ours, played by a small program


def test_an_engine_is_started_once_and_stopped_by_its_process(folder: Path) -> None:
    place = a_place(folder)
    client = start(place, SilentProgress())
    pid = json.loads(place.note.read_text())["pid"]
    assert client.version()["Version"] == "fake"
    assert os.getsid(pid) == pid  # lives on when this program ends
    start(place, SilentProgress())
    assert json.loads(place.note.read_text())["pid"] == pid
    assert stop(place) == pid
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    assert stop(place) is None


def test_an_engine_may_open_as_many_files_as_this_host_permits(folder: Path) -> None:
    place = a_place(folder)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = min(int(Path("/proc/sys/fs/nr_open").read_text()), bootstrap.OPEN_FILES)
    raising = f"import resource; resource.setrlimit(7, ({highest}, {highest}))"
    permitted = subprocess.run([sys.executable, "-c", raising], capture_output=True, check=False)
    start(place, SilentProgress())
    try:
        found = resource.prlimit(_pid(place), resource.RLIMIT_NOFILE)[1]
        assert found == (max(highest, before[1]) if permitted.returncode == 0 else before[1])
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
    finally:
        stop(place)


def test_an_engine_that_was_not_started_here_is_not_stopped(folder: Path) -> None:
    place = a_place(folder)
    place.state.mkdir()
    me = psutil.Process()
    place.note.write_text(json.dumps({"pid": me.pid, "created": me.create_time() - 100}))
    assert stop(place) is None


def test_an_engine_that_ends_is_quoted(folder: Path) -> None:
    place = a_place(folder, sys.executable, str(FAKE), "--die=no space left")
    with pytest.raises(Unavailable) as caught:
        start(place, SilentProgress())
    assert str(caught.value) == (
        f"the Docker engine ended with 1: no space left (log: {place.log})"
    )


def test_an_engine_without_iptables_is_started_without_networks(folder: Path) -> None:
    place = a_place(folder, sys.executable, str(FAKE), "--no-iptables")
    start(place, SilentProgress())
    try:
        assert "--bridge=none" in psutil.Process(_pid(place)).cmdline()
    finally:
        stop(place)


def test_an_engine_that_is_too_old_is_refused(folder: Path) -> None:
    place = a_place(folder, sys.executable, str(FAKE), "--api=1.40")
    try:
        with pytest.raises(Unavailable, match=r"the engine's API is 1\.40; .*: upgrade the engine"):
            start(place, SilentProgress())
    finally:
        stop(place)


STALE = {
    "a process that is gone": GONE,
    "a process of another program": os.getpid(),
}


@pytest.mark.parametrize("pid", STALE.values(), ids=STALE)
def test_a_stale_pid_file_is_no_obstacle(folder: Path, pid: int) -> None:
    place = a_place(folder)
    containerd = place.exec_root / "containerd"
    containerd.mkdir(parents=True)
    for path in (place.pid_file, containerd / "containerd.pid"):
        path.write_text(str(pid))
    listening(place.socket).close()
    start(place, SilentProgress())
    stop(place)
    assert not (containerd / "containerd.pid").exists()


def test_what_lives_is_not_cleared_away(folder: Path) -> None:
    place = a_place(folder)
    place.exec_root.mkdir()
    containerd = place.exec_root / "containerd"
    containerd.mkdir()
    server = listening(place.socket)
    # The name of a process is that of its program, so a copy of `sleep` plays containerd.
    program = folder / "containerd"
    shutil.copy(shutil.which("sleep") or "", program)
    with subprocess.Popen([program, "60"]) as process:
        try:
            (containerd / "containerd.pid").write_text(str(process.pid))
            clear_stale(place, SilentProgress())
            assert (containerd / "containerd.pid").exists()
            assert place.socket.exists()
        finally:
            process.kill()
            server.close()


# A real engine beside the one that runs


@pytest.fixture
def second(folder: Path) -> Iterator[Place]:
    """Return a place for a real engine with files and a network namespace of its own."""
    if os.geteuid() != 0 or sys.platform != "linux":
        pytest.skip("only root on Linux may start an engine")
    if shutil.which("dockerd", path=apt.search_path()) is None:
        cannot_run("no dockerd on this host")
    place = a_place(folder, "unshare", "--net", "dockerd", f"--data-root={folder}/data")
    yield place
    stop(place)
    for process in _processes_below(folder):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    mounts = Path("/proc/mounts").read_text().splitlines()
    for line in reversed(mounts):
        if line.split()[1].startswith(f"{folder}/"):
            subprocess.run(["umount", "--lazy", line.split()[1]], check=False)


@pytest.mark.docker
def test_a_real_engine_starts_after_everything_was_killed(second: Place) -> None:
    assert start(second, SilentProgress()).ping()
    killed = _processes_below(second.exec_root.parent)
    assert {"dockerd", "containerd"} <= {process.name() for process in killed}
    for process in killed:
        with contextlib.suppress(psutil.NoSuchProcess):  # it ended with its parent
            process.send_signal(signal.SIGKILL)
    psutil.wait_procs(killed, timeout=120)
    for left in (second.pid_file, second.exec_root / "containerd/containerd.pid"):
        left.write_text(str(os.getpid()))  # the ids were given to others
    assert knock(second.socket) is EndpointAnswer.REFUSES
    assert start(second, SilentProgress()).ping()
    assert stop(second) is not None
    assert knock(second.socket) is not EndpointAnswer.ACCEPTS


@pytest.mark.docker
def test_control_groups_are_mounted_where_nobody_did() -> None:
    if os.geteuid() != 0 or sys.platform != "linux":
        pytest.skip("only root on Linux may mount")
    code = (
        "import subprocess\n"
        "from pathlib import Path\n"
        "from sandbox.setup import cgroups\n"
        "from sandbox.containers.progress import SilentProgress\n"
        "read = lambda: Path('/proc/mounts').read_text()\n"
        "while cgroups.mounted(read()):\n"
        "    subprocess.run(['umount', '--recursive', '--lazy', '/sys/fs/cgroup'], check=True)\n"
        "cgroups.ensure(SilentProgress())\n"
        "print(cgroups.mounted(read()), cgroups.can_limit())\n"
    )
    done = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.stdout, done.returncode) == ("True True\n", 0), done.stderr


MOUNTS = {
    "version 1": ("tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /x cgroup rw,memory 0 0\n", True),
    "version 2": ("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", True),
    "an empty folder": ("tmpfs /sys/fs/cgroup tmpfs rw 0 0\n", False),
    "a device of that name": ("cgroup /mnt ext4 rw 0 0\n", False),
}


@pytest.mark.parametrize(("text", "found"), MOUNTS.values(), ids=MOUNTS)
def test_mounted_control_groups_are_seen(text: str, found: bool) -> None:
    assert cgroups.mounted(text) is found


def test_only_enabled_controllers_are_mounted() -> None:
    table = "#subsys_name\thierarchy\tnum_cgroups\tenabled\nmemory\t1\t1\t1\nrdma\t0\t1\t0\n"
    assert cgroups.controllers(table) == ("memory",)


def test_named_hierarchies_are_mounted_too() -> None:
    own = "13:pids:/\n1:name=systemd:/user\n0::/\n"
    assert cgroups.named(own) == ("name=systemd",)


def _pid(place: Place) -> int:
    return int(json.loads(place.note.read_text())["pid"])


def _processes_below(folder: Path) -> list[psutil.Process]:
    """Return the processes whose command line names a path below a folder."""
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if any(f"{folder}/" in word for word in words) and process.pid != os.getpid():
            found.append(process)
    return found
