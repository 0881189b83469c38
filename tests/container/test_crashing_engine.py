# SPDX-License-Identifier: Apache-2.0
"""Kill -9 of the container engine at every act that it does for us, with an engine of our own.

The engine of the machine serves others, so a second one is started, with folders and a socket of
its own, and given the keeper's image for both parts. It is killed in the middle of starting a cell,
of a call, and of ending; then it is started again, as an init system would.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import docker
import docker.errors
import psutil
import pytest

from sandbox.agents.declared import DEFAULT
from sandbox.cells.pair.keeper_side import KeeperSide
from sandbox.containers.endpoints import connect
from sandbox.containers.engine import Engine
from sandbox.containers.images import Images
from sandbox.errors import SandboxError, Unavailable
from tests.conftest import cannot_run
from tests.container import lab as labs
from tests.container.crashing import MOST_STEPS, Tree, look, nothing_left, transfer
from tests.container.dying import STEPS, Steps
from tests.container.lab import ME, Lab, leave, repository, wait_for

CHANGE = "echo more >> README.md; echo new > new.txt"


REAPER = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(36, 1)  # orphans of the engine become this process's, as they are init's
os.spawnvp(os.P_NOWAIT, sys.argv[1], sys.argv[1:])
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
"""
"""Starts an engine and reaps what it leaves when it dies, which not every init does: the engine
would take a dead helper that nobody has reaped for a living one."""


class OwnEngine:
    """A container engine of a test's own."""

    def __init__(self, root: Path) -> None:
        self.socket = root / "s"
        self._root = root
        self._log = (root / "log").open("wb")
        self._process: subprocess.Popen[bytes] | None = None
        (root / "settings.json").write_text("{}")

    @property
    def url(self) -> str:
        """Its address, as DOCKER_HOST takes it."""
        return f"unix://{self.socket}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        root = self._root
        # An engine without a bridge removes `docker0`, whoever made it: not the host's.
        self._process = subprocess.Popen(
            [
                *("unshare", "--net", sys.executable, "-c", REAPER, "dockerd"),
                *("--config-file", root / "settings.json", "--data-root", root / "data"),
                *("--exec-root", root / "exec", "--pidfile", root / "pid", "--host", self.url),
                *("--bridge", "none", "--iptables=false", "--ip-masq=false"),
            ],
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        wait_for(self._answers, "the engine answers")

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            cannot_run(f"no second engine starts: {(self._root / 'log').read_text()[-300:]}")
        with contextlib.suppress(docker.errors.DockerException, OSError):
            client = docker.DockerClient(self.url, timeout=5)
            client.close()
            return bool(client.ping())
        return False

    def kill(self) -> None:
        """Kill it as `kill -9` does; what it runs goes on."""
        os.kill(self._pid("pid"), signal.SIGKILL)
        helper = self._pid("exec/containerd/containerd.pid")  # its own, which dies with it
        wait_for(lambda: not psutil.pid_exists(helper), "the engine is gone")

    def _pid(self, name: str) -> int:
        return int((self._root / name).read_text())

    def stop(self) -> None:
        """End it and all that is its own."""
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(OSError, ValueError):
                os.kill(self._pid("pid"), signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(60)
        self._log.close()
        for mount in reversed(self._mounts()):
            subprocess.run(["umount", "-l", mount], check=False)
        shutil.rmtree(self._root, ignore_errors=True)

    def _mounts(self) -> list[str]:
        lines = Path("/proc/self/mounts").read_text().splitlines()
        return [p for p in (one.split()[1] for one in lines) if p.startswith(f"{self._root}/")]


@pytest.fixture
def engine(
    docker_client: docker.DockerClient, images: Images, monkeypatch: pytest.MonkeyPatch
) -> Iterator[OwnEngine]:
    """Return a second engine that runs and has the images; Lockgate uses it."""
    if ME != 0 or shutil.which("dockerd") is None:
        cannot_run("only root can start a second engine")
    one = OwnEngine(Path(tempfile.mkdtemp(prefix="lg-")))
    try:
        one.start()
        transfer(images.keeper, one.socket, images.cell)
        monkeypatch.setenv("DOCKER_HOST", one.url)
        monkeypatch.setattr("sandbox.gates.gate1.decide", labs.decide)
        monkeypatch.setattr("sandbox.gates.gate1.wants_second_opinion", lambda *_: False)
        yield one
    finally:
        one.stop()


def test_an_engine_that_is_killed_at_any_act(
    engine: OwnEngine, tmp_path: Path, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At any act of starting a cell, of a call and of ending.

    The supervisor that asserts that all is well after one round is the one that meets the next.
    """
    folder = repository(tmp_path / "work", 0)
    old = look(folder)
    left = old
    met: set[bool] = set()
    before = ""
    for at in itertools.count(1):
        assert at < MOST_STEPS
        killed: list[str] = []

        def kill(what: str, killed: list[str] = killed) -> None:
            killed.append(what)
            engine.kill()

        lab = Lab(connect(), tmp_path / "lab", (folder,), run_id)
        steps = Steps(kill, at)
        with monkeypatch.context() as patch:
            # the supervisor before was of this very process; as a process it would have ended
            patch.setattr("sandbox.calls.open_ends.lives", lambda _: False)
            steps.watch(patch.setattr, ENGINE_STEPS)
            try:
                pool = lab.run(lab.supervisor._live.connected())
                steps.armed = True
                lab.run(pool.get(DEFAULT, (str(folder),)))
                steps.armed = False
                if before:
                    met.add(_is_well(lab, before, old, left))
                before = f"k{at}"
                steps.armed = True
                lab.sh(CHANGE, call_id=before)
            except SandboxError:
                assert killed
            with contextlib.suppress(SandboxError):
                leave(lab)
            steps.armed = False
        left = look(folder)
        if not killed:
            break
        with pytest.raises(Unavailable):
            connect()  # the fault really happened
        engine.start()
    assert at > FEWEST
    lab = Lab(connect(), tmp_path / "lab", (folder,), run_id)
    assert _is_well(lab, before, old, left)
    assert met == {True, False}
    leave(lab)
    nothing_left(lab.dirs, folder)


def _is_well(lab: Lab, call: str, old: Tree, left: Tree) -> bool:
    """Assert that files are as they were left, and that the record agrees on the call; undo it.

    Returns whether it had landed.
    """
    landed = left != old
    assert lab.read("true").exit_status == 0
    assert look(lab.ws) == left
    if landed:
        assert (lab.text("new.txt"), lab.text("README.md")[-5:]) == ("new\n", "more\n")
    found = [entry for entry in lab.supervisor._record.store.calls() if entry.id == call]
    assert landed is any(entry.landed for entry in found)
    wait_for(lambda: len(lab.containers()) == 2, "others' containers are gone")
    assert list((lab.ws / ".lockgate/landing").glob("*")) == []
    if landed:
        lab.run(lab.supervisor.undo(call))
    assert look(lab.ws) == old
    return landed


ENGINE_STEPS = tuple((kind, name) for kind, name in STEPS if kind in (Engine, KeeperSide))
"""All that the engine does, and every answer of a keeper: between two of its acts."""
FEWEST = 10


def test_stale_files_of_an_engine_and_a_supervisor_keep_nothing_from_starting(
    engine: OwnEngine, tmp_path: Path, run_id: str
) -> None:
    engine.kill()
    assert engine.socket.exists()  # as a killed engine leaves them
    engine.start()
    folder = repository(tmp_path / "work", 0)
    lab = Lab(connect(), tmp_path / "lab", (folder,), run_id)
    lab.dirs.lock.write_text(f'{{"pid": {os.getpid()}, "socket": "{tmp_path}/gone"}}')
    (lab.dirs.runtime / "cells" / "1-1.00").mkdir(parents=True)
    assert lab.sh(CHANGE).landed
    leave(lab)
    nothing_left(lab.dirs, folder)
