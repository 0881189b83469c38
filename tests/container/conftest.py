# SPDX-License-Identifier: Apache-2.0
"""Labs: a supervisor, a workspace and cells for each test, or for all of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from sandbox.containers.images import Images
from sandbox.containers.plan import LABEL_TEST
from tests.container import lab as labs
from tests.container.lab import ME, Lab, repository

MakeLab = Callable[..., Lab]
CAPABILITIES = (
    *("NET_ADMIN", "NET_RAW", "SYS_ADMIN", "SYS_CHROOT", "SYS_MODULE", "SYS_NICE", "SYS_PTRACE"),
    *("SYSLOG", "SYS_TIME", "IPC_LOCK", "MKNOD"),
)
"""What an unprotected container gets. Not `privileged`: some engines lack a capability to give."""


@pytest.fixture
def owner() -> int:
    """Return who owns the workspace; tests that matter for both parametrise it."""
    return ME


@pytest.fixture
def make_lab(
    docker_client: docker.DockerClient,
    images: Images,
    run_id: str,
    tmp_path: Path,
    owner: int,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[MakeLab]:
    """Return a function that makes labs, over a fresh repository unless it is given workspaces."""
    monkeypatch.setattr("sandbox.gates.gate1.decide", labs.decide)
    monkeypatch.setattr("sandbox.gates.gate1.wants_second_opinion", lambda *_: False)
    made: list[Lab] = []

    def make(*workspaces: Path, **options: Any) -> Lab:
        number = len(made)
        if not workspaces:
            workspaces = (repository(tmp_path / f"work{number or ''}", owner),)
        root = options.pop("root", tmp_path / f"lab{number}")
        made.append(Lab(docker_client, root, workspaces, run_id, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def lab(make_lab: MakeLab) -> Lab:
    """Return a lab over a fresh git repository."""
    return make_lab()


@pytest.fixture(scope="module")
def labs_by_owner(docker_client: docker.DockerClient, images: Images) -> Iterator[dict[int, Lab]]:
    """Return the labs of a module that its tests share: see `shared_lab`. They end with it."""
    made: dict[int, Lab] = {}
    yield made
    for each in made.values():
        each.close()


@pytest.fixture
def shared_lab(
    labs_by_owner: dict[int, Lab],
    docker_client: docker.DockerClient,
    run_id: str,
    tmp_path_factory: pytest.TempPathFactory,
    owner: int,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Lab]:
    """Return a lab that the tests of a module share, over a workspace that is put back after each.

    For tests of what one call does: cells and their supervisor are as earlier calls left them, and
    the record holds those. Whoever counts, stops or sets up something makes a lab of its own.
    """
    monkeypatch.setattr("sandbox.gates.gate1.decide", labs.decide)
    monkeypatch.setattr("sandbox.gates.gate1.wants_second_opinion", lambda *_: False)
    if owner not in labs_by_owner:
        root = tmp_path_factory.mktemp("shared")
        ws = repository(root / "work", owner)
        labs_by_owner[owner] = Lab(docker_client, root / "lab0", (ws,), run_id)
    lab = labs_by_owner.pop(owner)
    yield lab
    try:
        labs.put_back(lab)
    except BaseException:
        lab.close()
        raise
    labs_by_owner[owner] = lab


@pytest.fixture
def weak(docker_client: docker.DockerClient, images: Images, run_id: str) -> Callable[[str], str]:
    """Return a function that runs a script in a container without any protection.

    The positive control of a probe: what is refused in a cell succeeds there.
    """

    def run(script: str) -> str:
        output = docker_client.containers.run(
            images.cell,
            ["-c", script],
            entrypoint="bash",
            user="0:0",
            cap_add=list(CAPABILITIES),
            devices=["/dev/null:/dev/lockgate-test"],
            network_mode="host",
            security_opt=["seccomp=unconfined", "apparmor=unconfined"],
            labels={LABEL_TEST: run_id},
            remove=True,
        )
        return bytes(output).decode("utf-8", "replace")

    return run
