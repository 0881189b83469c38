# SPDX-License-Identifier: Apache-2.0
"""P6: a container that differs from its plan never starts.

Real containers are created, never started, from a request that is weakened in one point at a
time; what the engine says of each is compared with the unweakened plan.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import docker.errors
import pytest

import sandbox.containers.engine
from sandbox.containers.engine import Engine
from sandbox.containers.images import Images
from sandbox.containers.plan import (
    LABEL_STATE,
    LABEL_TEST,
    ContainerPlan,
    Resources,
    body,
    cell_plan,
    keeper_plan,
)
from sandbox.containers.plan_gaps import gaps
from sandbox.containers.runtimes import missing
from sandbox.errors import ImageProblem, NotEnforced, Unavailable
from sandbox.setup import gvisor
from tests.conftest import cannot_run

Body = dict[str, Any]


@pytest.fixture
def engine(docker_client: docker.DockerClient, run_id: str) -> Iterator[Engine]:
    """Return an engine whose containers are this test's alone."""
    one = Engine(docker_client, f"gaps-{run_id}")
    yield one
    for left in one.containers():
        one.remove(left["Id"])


@pytest.fixture
def cell(engine: Engine, images: Images, run_id: str) -> ContainerPlan:
    """Return the plan of a cell."""
    return cell_plan(
        name=f"gaps-{run_id}",
        image=engine.image_id(images.cell),
        workspaces=("/home/someone/project",),
        uid=1000,
        gid=1000,
        labels={LABEL_TEST: run_id, LABEL_STATE: engine.state},
        resources=Resources(),
    )


@pytest.fixture
def keeper(
    engine: Engine, images: Images, run_id: str, cell: ContainerPlan, tmp_path: Path
) -> ContainerPlan:
    """Return the plan of the keeper beside the cell, which is created."""
    return keeper_plan(
        name=f"gaps-{run_id}-keeper",
        image=engine.image_id(images.keeper),
        workspaces=(str(tmp_path),),
        cell=engine.create(cell),
        volume=f"gaps-{run_id}",
        labels=dict(cell.labels),
        maps_owners=False,
    )


@pytest.fixture
def built(engine: Engine, run_id: str) -> Callable[[ContainerPlan, Body], Body]:
    """Return a function that creates a container from a request and says what the engine built."""

    def build(plan: ContainerPlan, request: Body) -> Body:
        api = engine._api
        identity = api.create_container_from_config(request, f"{plan.name}-weak")["Id"]
        try:
            seen: Body = api.inspect_container(identity)
        finally:
            api.remove_container(identity, force=True, v=True)
        assert seen["State"]["Status"] == "created"
        return seen

    return build


def host(**changes: Any) -> Callable[[Body], None]:
    """Return a change of the host's part of a request."""
    return lambda request: request["HostConfig"].update(changes)


def config(**changes: Any) -> Callable[[Body], None]:
    """Return a change of the rest of a request."""
    return lambda request: request.update(changes)


def without(key: str) -> Callable[[Body], None]:
    """Return a change that leaves a setting of the host's part out."""
    return lambda request: request["HostConfig"].pop(key)


def mount(**fields: Any) -> Callable[[Body], None]:
    """Return a change that adds a mount."""
    return lambda request: request["HostConfig"]["Mounts"].append(fields)


WEAKER: dict[str, tuple[Callable[[Body], None], str]] = {
    "it stays after its end": (host(AutoRemove=False), "HostConfig.AutoRemove"),
    "a capability is added": (host(CapAdd=["NET_RAW"]), "HostConfig.CapAdd"),
    "all capabilities are added": (host(CapAdd=["ALL"]), "HostConfig.CapAdd"),
    "capabilities are kept": (host(CapDrop=[]), "HostConfig.CapDrop"),
    "only some capabilities are dropped": (host(CapDrop=["NET_RAW"]), "HostConfig.CapDrop"),
    "it is privileged": (host(Privileged=True), "HostConfig.Privileged"),
    "its root can be written": (host(ReadonlyRootfs=False), "HostConfig.ReadonlyRootfs"),
    "it has a network": (host(NetworkMode="bridge"), "HostConfig.NetworkMode"),
    "it has the host's network": (host(NetworkMode="host"), "HostConfig.NetworkMode"),
    "it has the default network": (without("NetworkMode"), "HostConfig.NetworkMode"),
    "it publishes a port": (
        host(PortBindings={"80/tcp": [{"HostPort": ""}]}),
        "HostConfig.PortBindings",
    ),
    "it has a name in its hosts file": (host(ExtraHosts=["a:10.0.0.1"]), "HostConfig.ExtraHosts"),
    "it asks another name server": (host(Dns=["192.0.2.1"]), "HostConfig.Dns"),
    "it sees the host's processes": (host(PidMode="host"), "HostConfig.PidMode"),
    "it has the host's shared memory": (host(IpcMode="host"), "HostConfig.IpcMode"),
    "its shared memory can be joined": (host(IpcMode="shareable"), "HostConfig.IpcMode"),
    "it has the host's name": (host(UTSMode="host"), "HostConfig.UTSMode"),
    "it has the host's control groups": (host(CgroupnsMode="host"), "HostConfig.CgroupnsMode"),
    "it lies in another control group": (host(CgroupParent="/other"), "HostConfig.CgroupParent"),
    "privileges can be gained": (host(SecurityOpt=[]), "HostConfig.SecurityOpt"),
    "system calls are not filtered": (
        host(SecurityOpt=["no-new-privileges", "seccomp=unconfined"]),
        "HostConfig.SecurityOpt",
    ),
    "it has more memory": (host(Memory=2**40, MemorySwap=2**40), "HostConfig.Memory"),
    "its memory has no limit": (host(Memory=0, MemorySwap=0), "HostConfig.Memory"),
    "it may swap": (host(MemorySwap=-1), "HostConfig.MemorySwap"),
    "it may not be ended for want of memory": (
        host(OomKillDisable=True),
        "HostConfig.OomKillDisable",
    ),
    "others are ended before it": (host(OomScoreAdj=-500), "HostConfig.OomScoreAdj"),
    "it has more processors": (without("NanoCpus"), "HostConfig.NanoCpus"),
    "it may start any number of processes": (host(PidsLimit=-1), "HostConfig.PidsLimit"),
    "it may start more processes": (host(PidsLimit=100_000), "HostConfig.PidsLimit"),
    "a limit is missing": (
        host(Ulimits=[{"Name": "core", "Soft": 0, "Hard": 0}]),
        "HostConfig.Ulimits",
    ),
    "a limit is higher": (
        host(
            Ulimits=[
                {"Name": "core", "Soft": 0, "Hard": 0},
                {"Name": "nofile", "Soft": 16_384, "Hard": 19_000},
            ]
        ),
        "HostConfig.Ulimits",
    ),
    "there is more shared memory": (host(ShmSize=2**40), "HostConfig.ShmSize"),
    "a device is passed": (
        host(
            Devices=[
                {"PathOnHost": "/dev/null", "PathInContainer": "/dev/x", "CgroupPermissions": "rwm"}
            ]
        ),
        "HostConfig.Devices",
    ),
    "devices may be made": (host(DeviceCgroupRules=["c *:* rwm"]), "HostConfig.DeviceCgroupRules"),
    "a group is added": (host(GroupAdd=["0"]), "HostConfig.GroupAdd"),
    "a kernel setting is changed": (
        host(Sysctls={"net.ipv4.ip_unprivileged_port_start": "0"}),
        "HostConfig.Sysctls",
    ),
    "nothing in proc is masked": (host(MaskedPaths=[]), "HostConfig.MaskedPaths"),
    "nothing in proc is read-only": (host(ReadonlyPaths=[]), "HostConfig.ReadonlyPaths"),
    "one path in proc is not read-only": (
        host(ReadonlyPaths=["/proc/irq", "/proc/bus", "/proc/sysrq-trigger"]),
        "HostConfig.ReadonlyPaths",
    ),
    "its output is logged": (host(LogConfig={"Type": "json-file"}), "HostConfig.LogConfig"),
    "it starts again": (
        lambda request: request["HostConfig"].update(
            AutoRemove=False, RestartPolicy={"Name": "always"}
        ),
        "HostConfig.RestartPolicy",
    ),
    "an init process stands before the runner": (host(Init=True), "HostConfig.Init"),
    "a folder of the host is mounted": (
        mount(Type="bind", Source="/etc", Target="/mnt"),
        "Mounts",
    ),
    "a folder of the host is bound": (host(Binds=["/etc:/mnt:ro"]), "HostConfig.Binds"),
    "a volume is mounted": (mount(Type="volume", Target="/mnt"), "Mounts"),
    "a tmpfs is mounted": (mount(Type="tmpfs", Target="/mnt"), "HostConfig.Mounts"),
    "a tmpfs is missing": (host(Tmpfs={}), "HostConfig.Tmpfs"),
    "a tmpfs is larger": (
        lambda request: request["HostConfig"]["Tmpfs"].update({"/tmp": "rw"}),
        "HostConfig.Tmpfs",
    ),
    "a workspace's place can be written": (
        lambda request: request["HostConfig"]["Tmpfs"].update({"/home/someone/project": "rw"}),
        "HostConfig.Tmpfs",
    ),
    "it is root": (config(User="0:0"), "Config.User"),
    "it is whoever the image says": (config(User=""), "Config.User"),
    "another program is started": (config(Entrypoint=["sleep"]), "Config.Entrypoint"),
    "the program has arguments": (config(Cmd=["x"]), "Config.Cmd"),
    "it has a terminal": (config(Tty=True), "Config.Tty"),
    "its input stays open": (config(StdinOnce=False), "Config.StdinOnce"),
    "it has no input": (config(OpenStdin=False, StdinOnce=False), "Config.OpenStdin"),
    "it stands elsewhere": (config(WorkingDir="/tmp"), "Config.WorkingDir"),
    "a variable is missing": (config(Env=[]), "Config.Env"),
    "a variable is added": (
        lambda request: request["Env"].append("LD_PRELOAD=/tmp/x.so"),
        "Config.Env",
    ),
    "a label is missing": (config(Labels={}), "Config.Labels"),
    "a variable stands there twice": (
        lambda request: request["Env"].append("HOME=/tmp"),
        "Config.Env",
    ),
    "its health is checked by a program": (
        config(Healthcheck={"Test": ["CMD", "true"]}),
        "Config.Healthcheck",
    ),
}


def test_a_container_as_planned_has_no_gap(
    cell: ContainerPlan, keeper: ContainerPlan, built: Callable[[ContainerPlan, Body], Body]
) -> None:
    for plan in (cell, keeper):
        assert gaps(plan, built(plan, body(plan))) == ()


def weakened(plan: ContainerPlan, weaken: Callable[[Body], None]) -> Body:
    """Return the plan's request, weakened in one point."""
    request = copy.deepcopy(body(plan))
    weaken(request)
    return request


def test_each_weaker_point_of_a_cell_is_named(
    cell: ContainerPlan, built: Callable[[ContainerPlan, Body], Body]
) -> None:
    missed = {}
    for what, (weaken, name) in WEAKER.items():
        named = gaps(cell, built(cell, weakened(cell, weaken)))
        if name not in named:
            missed[what] = named
    assert missed == {}


def test_another_image_is_named(
    cell: ContainerPlan, images: Images, built: Callable[[ContainerPlan, Body], Body]
) -> None:
    assert "Image" in gaps(cell, built(cell, {**body(cell), "Image": images.keeper}))


def test_each_part_of_the_request_is_compared(cell: ContainerPlan) -> None:
    """Whatever is added to the request must be weakened here too."""
    names = {name for _, name in WEAKER.values()}
    parts = {f"HostConfig.{key}" for key in body(cell)["HostConfig"]}
    assert parts - names <= {"HostConfig.Runtime"}
    others = {f"Config.{key}" for key in body(cell)} - names
    attached = {"Config.AttachStdin", "Config.AttachStdout", "Config.AttachStderr"}
    assert others == {"Config.Image", "Config.HostConfig", *attached}


KEEPER: dict[str, tuple[Callable[[Body], None], str]] = {
    "a capability is added": (
        lambda request: request["HostConfig"]["CapAdd"].append("SYS_MODULE"),
        "HostConfig.CapAdd",
    ),
    "it has processes of its own": (host(PidMode=""), "HostConfig.PidMode"),
    "it has a network": (host(NetworkMode="bridge"), "HostConfig.NetworkMode"),
    "another folder is mounted": (
        lambda request: request["HostConfig"]["Mounts"][0].update(Source="/etc"),
        "Mounts",
    ),
    "the folder is mounted elsewhere": (
        lambda request: request["HostConfig"]["Mounts"][0].update(Target="/lower/1"),
        "Mounts",
    ),
    "the folder is read-only": (
        lambda request: request["HostConfig"]["Mounts"][0].update(ReadOnly=True),
        "HostConfig.Mounts",
    ),
    "mounts below the folder come along": (
        lambda request: request["HostConfig"]["Mounts"][0]["BindOptions"].update(
            NonRecursive=False
        ),
        "HostConfig.Mounts",
    ),
    "later mounts come along": (
        lambda request: request["HostConfig"]["Mounts"][0]["BindOptions"].update(
            Propagation="rslave"
        ),
        "HostConfig.Mounts",
    ),
    "the layers lie in another volume": (
        lambda request: request["HostConfig"]["Mounts"][1].update(Source="gaps-other"),
        "Mounts",
    ),
    "the system calls are not filtered": (
        host(SecurityOpt=["no-new-privileges", "apparmor=unconfined", "seccomp=unconfined"]),
        "HostConfig.SecurityOpt",
    ),
}


def test_each_weaker_point_of_a_keeper_is_named(
    keeper: ContainerPlan,
    built: Callable[[ContainerPlan, Body], Body],
    docker_client: docker.DockerClient,
) -> None:
    missed = {}
    for what, (weaken, name) in KEEPER.items():
        named = gaps(keeper, built(keeper, weakened(keeper, weaken)))
        if name not in named:
            missed[what] = named
    for volume in (keeper.volumes[0][0], "gaps-other"):
        docker_client.volumes.get(volume).remove()
    assert missed == {}


def first_mount(**changes: Any) -> Callable[[Body], None]:
    """Return a change of the request's first mount."""
    return lambda request: request["HostConfig"]["Mounts"][0].update(changes)


VIEW: dict[str, tuple[Callable[[Body], None], str]] = {
    "another folder is shown": (first_mount(Source="/etc"), "Mounts"),
    "it is shown elsewhere": (first_mount(Target="/mnt"), "Mounts"),
    "it can be written": (first_mount(ReadOnly=False), "Mounts"),
    "what the cell mounts appears on the host": (
        first_mount(BindOptions={"Propagation": "rshared", "NonRecursive": False}),
        "HostConfig.Mounts",
    ),
    "pinned files are left out": (
        first_mount(BindOptions={"Propagation": "rslave", "NonRecursive": True}),
        "HostConfig.Mounts",
    ),
    "a second folder is shown": (mount(Type="bind", Source="/etc", Target="/mnt"), "Mounts"),
    "it runs on the host's kernel": (without("Runtime"), "HostConfig.Runtime"),
}


def test_each_weaker_point_of_a_view_is_named(
    engine: Engine,
    images: Images,
    run_id: str,
    built: Callable[[ContainerPlan, Body], Body],
    docker_client: docker.DockerClient,
) -> None:
    if problem := missing(gvisor.NAME, docker_client.info()):
        cannot_run(problem)
    name = f"gaps-{run_id}-views"
    views = engine.make_views(name, {LABEL_TEST: run_id, LABEL_STATE: engine.state})
    plan = cell_plan(
        name=f"gaps-{run_id}",
        image=engine.image_id(images.cell),
        workspaces=("/home/someone/project",),
        uid=1000,
        gid=1000,
        labels={LABEL_TEST: run_id, LABEL_STATE: engine.state},
        resources=Resources(),
        runtime=gvisor.NAME,
        views=(views,),
    )
    keeper = keeper_plan(
        name=f"gaps-{run_id}-keeper",
        image=engine.image_id(images.keeper),
        workspaces=("/etc",),
        cell=None,
        volume=f"gaps-{run_id}",
        labels={LABEL_TEST: run_id, LABEL_STATE: engine.state},
        maps_owners=True,
        views=(name, views),
    )
    private = {"Propagation": "rprivate", "NonRecursive": True}
    unshared: Callable[[Body], None] = lambda request: request["HostConfig"]["Mounts"][1].update(  # noqa: E731
        BindOptions=private, Source="/etc"
    )
    try:
        assert gaps(plan, built(plan, body(plan))) == ()
        assert gaps(keeper, built(keeper, body(keeper))) == ()
        assert {"Mounts", "HostConfig.Mounts"} <= set(
            gaps(keeper, built(keeper, weakened(keeper, unshared)))
        )
        missed = {}
        for what, (weaken, key) in VIEW.items():
            named = gaps(plan, built(plan, weakened(plan, weaken)))
            if key not in named:
                missed[what] = named
        assert missed == {}
    finally:
        for volume in (name, f"gaps-{run_id}"):
            engine.remove_volume(volume)


def test_a_container_that_differs_is_removed_unstarted(
    engine: Engine, cell: ContainerPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    weaker = host(ReadonlyRootfs=False, PidsLimit=-1)
    monkeypatch.setattr(sandbox.containers.engine, "body", lambda plan: weakened(plan, weaker))
    with pytest.raises(NotEnforced) as caught:
        engine.create(cell)
    assert str(caught.value) == (
        f"container `{cell.name}` differs from its plan, removed: "
        "HostConfig.PidsLimit, HostConfig.ReadonlyRootfs"
    )
    assert engine.containers() == []
    monkeypatch.undo()
    identity = engine.create(cell)  # the control: as planned it stays
    assert [one["Id"] for one in engine.containers()] == [identity]


def test_a_container_that_cannot_be_inspected_is_removed(
    engine: Engine, cell: ContainerPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_identity: str) -> Body:
        raise docker.errors.APIError("the engine broke")

    monkeypatch.setattr(engine._api, "inspect_container", broken)
    with pytest.raises((Unavailable, docker.errors.APIError), match="the engine broke"):
        engine.create(cell)
    monkeypatch.undo()
    assert engine.containers() == []


def test_a_missing_image_is_one_clear_line(engine: Engine, cell: ContainerPlan) -> None:
    from dataclasses import replace

    with pytest.raises(ImageProblem, match=r"^image `lockgate/none:0` is missing$"):
        engine.create(replace(cell, image="lockgate/none:0"))
    with pytest.raises(ImageProblem, match=r"^image `lockgate/none:0` is missing; run"):
        engine.image_id("lockgate/none:0")
