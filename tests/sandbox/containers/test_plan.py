# SPDX-License-Identifier: Apache-2.0
"""Plans of cells and keepers, compared whole, and what is read from the engine's answers."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from sandbox.containers.plan import (
    IDMAP_CAPS,
    KEEPER_CAPS,
    ContainerPlan,
    Resources,
    body,
    cell_plan,
    keeper_plan,
)
from sandbox.containers.plan_gaps import gaps

CELL = cell_plan(
    name="lockgate-1",
    image="sha256:cell",
    workspaces=("/home/a/b c", "/srv/w"),
    uid=1000,
    gid=100,
    labels={"org.lockgate.state": "s"},
    resources=Resources(memory=1 << 30, cpus=1.5, pids=100, files=2048, tmp=11, home=22, shm=33),
)
KEEPER = keeper_plan(
    name="lockgate-1-keeper",
    image="sha256:keeper",
    workspaces=("/home/a/b c", "/srv/w"),
    cell="0123",
    volume="layers",
    labels={"org.lockgate.state": "s"},
    maps_owners=False,
)


def test_a_cell_has_nothing_that_its_commands_could_use() -> None:
    assert body(CELL) == {
        "Image": "sha256:cell",
        "Entrypoint": [
            "python3",
            "-I",
            "-B",
            "-c",
            "import sys; sys.path.insert(0, '/'); from cell.run.runner import main; main()",
        ],
        "Healthcheck": {"Test": ["NONE"]},
        "Cmd": [],
        "User": "1000:100",
        "Env": ["HOME=/home/agent", "LANG=C.UTF-8", "LOCKGATE_SANDBOX=1"],
        "Labels": {"org.lockgate.role": "cell", "org.lockgate.state": "s"},
        "WorkingDir": "/",
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": False,
        "HostConfig": {
            "AutoRemove": True,
            "CapAdd": [],
            "CapDrop": ["ALL"],
            "CgroupnsMode": "private",
            "Dns": ["127.0.0.1"],
            "IpcMode": "private",
            "LogConfig": {"Type": "none", "Config": {}},
            "Memory": 1 << 30,
            "MemorySwap": 1 << 30,
            "Mounts": [],
            "NanoCpus": 1_500_000_000,
            "NetworkMode": "none",
            "PidMode": "",
            "PidsLimit": 100,
            "Privileged": False,
            "ReadonlyRootfs": True,
            "SecurityOpt": ["no-new-privileges"],
            "ShmSize": 33,
            "Tmpfs": {
                "/home/a/b c": "ro,nosuid,nodev,noexec,size=4k,mode=0555",
                "/home/agent": "rw,exec,nosuid,nodev,size=22,mode=0700,uid=1000,gid=100",
                "/home/reading": "rw,nosuid,nodev,noexec,size=1m,mode=0555",
                "/srv/w": "ro,nosuid,nodev,noexec,size=4k,mode=0555",
                "/tmp": "rw,exec,nosuid,nodev,size=11,mode=1777",
            },
            "Ulimits": [
                {"Name": "core", "Soft": 0, "Hard": 0},
                {"Name": "nofile", "Soft": 2048, "Hard": 2048},
            ],
        },
    }


def test_a_keeper_has_the_workspaces_and_the_layers_and_few_capabilities() -> None:
    host = body(KEEPER)["HostConfig"]
    options = {"Propagation": "rprivate", "NonRecursive": True}
    assert host["Mounts"] == [
        {"Type": "bind", "Source": "/home/a/b c", "Target": "/lower/0", "BindOptions": options},
        {"Type": "bind", "Source": "/srv/w", "Target": "/lower/1", "BindOptions": options},
        {"Type": "volume", "Source": "layers", "Target": "/tx"},
    ]
    assert host["CapAdd"] == sorted(KEEPER_CAPS)
    assert (host["CapDrop"], host["NetworkMode"]) == (["ALL"], "none")
    assert host["PidMode"] == "container:0123"
    assert host["ReadonlyRootfs"] is True
    assert body(KEEPER)["User"] == "0:0"


def test_only_a_keeper_that_maps_owners_may_change_its_user() -> None:
    plan = keeper_plan(
        name="k", image="i", workspaces=("/w",), cell="c", volume="v", labels={}, maps_owners=True
    )
    assert set(plan.caps) - set(KEEPER_CAPS) == set(IDMAP_CAPS)
    assert not set(KEEPER.caps) & set(IDMAP_CAPS)


def test_a_cell_runs_under_the_runtime_of_the_settings() -> None:
    plan = cell_plan(
        name="n",
        image="i",
        workspaces=(),
        uid=1,
        gid=1,
        labels={},
        resources=Resources(),
        runtime="runsc",
    )
    assert body(plan)["HostConfig"]["Runtime"] == "runsc"
    assert "Runtime" not in body(CELL)["HostConfig"]


def view_of(*, writes: bool) -> ContainerPlan:
    """Return the plan of a cell over two views."""
    return cell_plan(
        name="lockgate-1",
        image="sha256:cell",
        workspaces=("/home/a/b c", "/srv/w"),
        uid=1000,
        gid=100,
        labels={"org.lockgate.state": "s"},
        resources=Resources(),
        runtime="runsc",
        views=("/engine/v/0", "/engine/v/1"),
        writes=writes,
    )


VIEW_KEEPER = keeper_plan(
    name="lockgate-1-keeper",
    image="sha256:keeper",
    workspaces=("/home/a/b c", "/srv/w"),
    cell=None,
    volume="layers",
    labels={"org.lockgate.state": "s"},
    maps_owners=True,
    views=("views", "/engine/v"),
)


def test_a_cell_over_views_has_those_and_no_other_mount() -> None:
    options = {"Propagation": "rslave", "NonRecursive": False}
    shown = [
        {"Type": "bind", "Source": "/engine/v/0", "Target": "/home/a/b c", "BindOptions": options},
        {"Type": "bind", "Source": "/engine/v/1", "Target": "/srv/w", "BindOptions": options},
    ]
    writing, reading = (body(view_of(writes=writes))["HostConfig"] for writes in (True, False))
    assert writing["Mounts"] == shown
    assert reading["Mounts"] == [{**one, "ReadOnly": True} for one in shown]
    assert sorted(writing["Tmpfs"]) == ["/home/agent", "/home/reading", "/tmp"]
    assert (writing["Runtime"], writing["NetworkMode"], writing["CapAdd"]) == ("runsc", "none", [])


def test_a_keeper_of_views_enters_no_cell_and_shares_one_folder() -> None:
    host = body(VIEW_KEEPER)["HostConfig"]
    assert host["PidMode"] == ""
    assert set(KEEPER_CAPS) - set(host["CapAdd"]) == {"SYS_CHROOT", "SYS_PTRACE"}
    shared = [
        m for m in host["Mounts"] if m.get("BindOptions", {}).get("Propagation") != "rprivate"
    ]
    assert shared == [
        {
            "Type": "bind",
            "Source": "/engine/v",
            "Target": "/views",
            "BindOptions": {"Propagation": "rshared", "NonRecursive": True},
        },
        {"Type": "volume", "Source": "layers", "Target": "/tx"},
        {"Type": "volume", "Source": "views", "Target": "/anchor"},
    ]


def answer(plan: ContainerPlan) -> dict[str, Any]:
    """Return what an engine says of a container that is exactly as planned."""
    request = copy.deepcopy(body(plan))
    host = request.pop("HostConfig")
    host["Ulimits"] = [
        {"Name": u["Name"], "Hard": u["Hard"], "Soft": u["Soft"]} for u in host["Ulimits"]
    ]
    host.update(
        MaskedPaths=["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/more"],
        ReadonlyPaths=["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus"],
        Runtime=plan.runtime or "runc",
        RestartPolicy={"Name": "no", "MaximumRetryCount": 0},
    )
    mounts = [
        {"Type": "bind", "Source": b.source, "Destination": b.target, "RW": not b.read_only}
        for b in plan.binds
    ] + [
        {"Type": "volume", "Name": s, "Source": "/var/lib/x", "Destination": t, "RW": True}
        for s, t in plan.volumes
    ]
    request["Env"] = [*request["Env"], "PATH=/usr/bin"]
    request["Cmd"] = None
    return {"Image": plan.image, "Config": request, "HostConfig": host, "Mounts": mounts}


PLANS = {
    "cell": CELL,
    "keeper": KEEPER,
    "cell over views": view_of(writes=True),
    "cell over views to read": view_of(writes=False),
    "keeper of views": VIEW_KEEPER,
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_container_as_planned_has_no_gaps(plan: ContainerPlan) -> None:
    assert gaps(plan, answer(plan)) == ()


def test_capabilities_may_be_spelled_with_their_prefix() -> None:
    seen = answer(KEEPER)
    seen["HostConfig"]["CapAdd"] = [f"CAP_{name}" for name in reversed(KEEPER.caps)]
    assert gaps(KEEPER, seen) == ()


def test_a_view_that_can_be_written_is_no_view_to_read() -> None:
    reading, writing = view_of(writes=False), view_of(writes=True)
    assert gaps(reading, answer(writing)) == ("HostConfig.Mounts", "Mounts")
    assert gaps(writing, answer(reading)) == ("HostConfig.Mounts", "Mounts")


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_every_setting_that_is_missing_is_named(plan: ContainerPlan) -> None:
    for key, value in body(plan)["HostConfig"].items():
        if value in ("", [], {}, False):
            continue
        seen = answer(plan)
        del seen["HostConfig"][key]
        assert f"HostConfig.{key}" in gaps(plan, seen)


def test_an_empty_answer_is_all_gaps() -> None:
    named = gaps(CELL, {})
    assert {"Image", "Config.User", "Config.Env", "HostConfig.CapDrop"} <= set(named)
    assert {"HostConfig.MaskedPaths", "HostConfig.ReadonlyPaths", "HostConfig.Tmpfs"} <= set(named)


def test_another_runtime_is_named_unless_it_was_planned() -> None:
    seen = answer(CELL)
    seen["HostConfig"]["Runtime"] = "other"
    assert gaps(CELL, seen) == ("HostConfig.Runtime",)
