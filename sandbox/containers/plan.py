# SPDX-License-Identifier: Apache-2.0
"""What a cell and a keeper container must be: pure plans, and what a real container lacks of them.

Plans are data; `body` gives the engine's create request, `gaps` compares a plan with what the
engine says that it built. INVARIANT (P5, P6): everything that isolates a cell is said here, and
every part of it is compared before the container starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

AGENT_ID = 10_000
"""Owner of a cell's processes where root owns the workspace (seen through an idmapped mount)."""
HOME = "/home/agent"
"""The home of commands that may write."""
READING_HOME = "/home/reading"
"""The home of commands that only read: as the image and the keeper made it, and nobody's to write.
What earlier calls left in theirs (settings that programs obey, programs) does not count there."""
RESOLVER = "127.0.0.1"
"""Where a cell asks for names."""
DOOR = "/door"
"""Where the keeper finds the folder with the supervisor's socket."""
ANCHOR, VIEWS = "/anchor", "/views"
"""Where the keeper finds the volume of its views, and that volume's folder, shared with the host:
what it mounts there, a cell can be created over."""
VIEWS_OPTIONS = {"type": "tmpfs", "device": "tmpfs", "o": "shared,size=1m,mode=0700"}
"""A volume of views: a small file system of its own, so that the engine takes every mount in it
away when its keeper ends, however that happened."""
START = "import sys; sys.path.insert(0, '/'); from cell.{0} import main; main()"
KEEPER_CAPS = (
    "CHOWN",  # new files get the workspace's owner
    "DAC_OVERRIDE",  # the workspace may belong to anybody
    "FOWNER",  # modes and times of files of others
    "FSETID",  # folders of other groups keep passing their group on
    "MKNOD",  # whiteouts of the mask layer
    "SYS_ADMIN",  # overlay mounts, the cell's mount namespace, trusted.* attributes
    "SYS_CHROOT",  # setns into a mount namespace
    "SYS_PTRACE",  # /proc/1/ns/mnt of the non-dumpable runner
)
IN_CELL_CAPS = ("SYS_CHROOT", "SYS_PTRACE")
"""Those of them that only a keeper needs which enters its cell's mount namespace."""
IDMAP_CAPS = ("SETGID", "SETUID")  # the owner map of a workspace that belongs to root

LABEL_STATE = "org.lockgate.state"
LABEL_OWNER = "org.lockgate.owner"
LABEL_ROLE = "org.lockgate.role"
LABEL_CELL = "org.lockgate.cell"
LABEL_AGENT = "org.lockgate.agent"
LABEL_TEST = "org.lockgate.test"


@dataclass(frozen=True, slots=True)
class Resources:
    """Limits of one container."""

    memory: int = 4 * 1024**3
    """Bytes; swap is not given on top."""
    cpus: float = 2.0
    pids: int = 1024
    files: int = 16_384
    shm: int = 1024**3
    """Bytes of /dev/shm; its pages count as memory, as those of /tmp do."""
    tmp: int = 1024**3
    home: int = 2 * 1024**3


class Bind(NamedTuple):
    """A folder of the host, or of the engine, in a container."""

    source: str
    target: str
    propagation: str = "rprivate"
    """`rshared`: what the container mounts there appears at the source too; `rslave`: what is
    mounted and detached at the source follows here."""
    recursive: bool = False
    """Whether what is mounted below the source comes along."""
    read_only: bool = False


class Toolchain(NamedTuple):
    """A folder of the host with a language's programs, which a cell sees and cannot write."""

    path: str
    source: str
    """The same without links."""
    hidden_files: tuple[str, ...] = ()
    """Files below `path` whose content the cell does not see."""
    hidden_folders: tuple[str, ...] = ()


_EMPTY = "ro,nosuid,nodev,noexec,size=4k,mode=0555"
"""A place for a mount, or over what is not to be seen."""


@dataclass(frozen=True, slots=True)
class ContainerPlan:
    """One container, whole."""

    name: str
    image: str
    program: str
    """`runner` or `keeper`."""
    user: str
    labels: tuple[tuple[str, str], ...]
    env: tuple[str, ...]
    caps: tuple[str, ...]
    tmpfs: tuple[tuple[str, str], ...]
    binds: tuple[Bind, ...]
    volumes: tuple[tuple[str, str], ...]
    network: str
    pid: str
    security: tuple[str, ...]
    resources: Resources
    runtime: str | None = None
    dns: tuple[str, ...] = ()


def cell_plan(
    *,
    name: str,
    image: str,
    workspaces: tuple[str, ...],
    uid: int,
    gid: int,
    labels: Mapping[str, str],
    resources: Resources,
    network: str = "none",
    runtime: str | None = None,
    views: Sequence[str] = (),
    writes: bool = False,
    time_zone: str | None = None,
    toolchains: Sequence[Toolchain] = (),
) -> ContainerPlan:
    """Return the plan of a cell: no capability, no network, no host mount (design section 3), but
    for the toolchains that a person has agreed to show, which are read-only.

    `views` are the engine's paths of the workspaces' views, where they are mounted before the cell
    starts; without them the cell starts with empty places that its keeper moves mounts onto.
    Its clock is that of `time_zone` (`Europe/Berlin`), or UTC.
    """
    private = "rw,exec,nosuid,nodev"
    tmpfs = {
        "/tmp": f"{private},size={resources.tmp},mode=1777",  # noqa: S108 - a mount of the cell
        HOME: f"{private},size={resources.home},mode=0700,uid={uid},gid={gid}",
        # Its keeper writes the files of this one; where none enters the cell, nobody was here yet.
        READING_HOME: "rw,nosuid,nodev,noexec,size=1m,"
        + (f"mode=0700,uid={uid},gid={gid}" if views else "mode=0555"),
    }
    if not views:
        tmpfs |= dict.fromkeys(workspaces, _EMPTY)
    tmpfs |= {folder: _EMPTY for toolchain in toolchains for folder in toolchain.hidden_folders}
    shown = zip(views, workspaces, strict=True) if views else ()
    return ContainerPlan(
        name=name,
        image=image,
        program="run.runner",
        user=f"{uid}:{gid}",
        labels=tuple(sorted({**labels, LABEL_ROLE: "cell"}.items())),
        env=(
            f"HOME={HOME}",
            "LANG=C.UTF-8",
            "LOCKGATE_SANDBOX=1",
            *([f"TZ={time_zone}"] if time_zone else []),
        ),
        caps=(),
        tmpfs=tuple(sorted(tmpfs.items())),
        # With the pinned files below it. When its keeper detaches a view, the cell loses it too.
        binds=(
            *(Bind(view, path, "rslave", True, not writes) for view, path in shown),
            *(Bind(toolchain.source, toolchain.path, read_only=True) for toolchain in toolchains),
            *(
                Bind("/dev/null", file, read_only=True)
                for toolchain in toolchains
                for file in toolchain.hidden_files
            ),
        ),
        volumes=(),
        network=network,
        pid="",
        security=("no-new-privileges",),
        resources=resources,
        runtime=runtime,
        # Where names are asked for: nobody answers there but the gateway of a call with rights.
        # Who shares another cell's network shares its resolver too, and can be given none.
        dns=(RESOLVER,) if network == "none" else (),
    )


def keeper_plan(
    *,
    name: str,
    image: str,
    workspaces: tuple[str, ...],
    cell: str | None,
    volume: str,
    labels: Mapping[str, str],
    maps_owners: bool,
    door: str | None = None,
    views: tuple[str, str] | None = None,
) -> ContainerPlan:
    """Return the plan of a keeper.

    `cell` is the id of the cell that it places workspaces in; None where it enters none. `views` is
    the name and the engine's path of the volume in which it shows them instead.
    """
    caps = {*KEEPER_CAPS, *(IDMAP_CAPS if maps_owners else ())}
    if cell is None:
        caps -= set(IN_CELL_CAPS)
    return ContainerPlan(
        name=name,
        image=image,
        program="keeper.main",
        user="0:0",
        labels=tuple(sorted({**labels, LABEL_ROLE: "keeper"}.items())),
        env=("LANG=C.UTF-8",),
        caps=tuple(sorted(caps)),
        tmpfs=(("/mask", "rw,nosuid,noexec,size=64m,mode=0755"),),
        binds=(
            *(Bind(path, f"/lower/{index}") for index, path in enumerate(workspaces)),
            *((Bind(door, DOOR),) if door else ()),
            *((Bind(views[1], VIEWS, propagation="rshared"),) if views else ()),
        ),
        volumes=((volume, "/tx"), *(((views[0], ANCHOR),) if views else ())),
        network="none",
        pid=f"container:{cell}" if cell else "",
        # A stock AppArmor profile forbids mounting, which is what a keeper is for.
        security=("no-new-privileges", "apparmor=unconfined"),
        resources=Resources(memory=1024**3, cpus=1.0, pids=64, files=16_384),
    )


def body(plan: ContainerPlan) -> dict[str, Any]:
    """Return the engine's create request (API 1.41)."""
    r = plan.resources
    host: dict[str, Any] = {
        "AutoRemove": True,
        "CapAdd": list(plan.caps),
        "CapDrop": ["ALL"],
        "CgroupnsMode": "private",
        "Dns": list(plan.dns),
        "IpcMode": "private",
        "LogConfig": {"Type": "none", "Config": {}},
        "Memory": r.memory,
        "MemorySwap": r.memory,
        "Mounts": [*_binds(plan), *_volumes(plan)],
        "NanoCpus": int(r.cpus * 1e9),
        "NetworkMode": plan.network,
        "PidMode": plan.pid,
        "PidsLimit": r.pids,
        "Privileged": False,
        "ReadonlyRootfs": True,
        "SecurityOpt": list(plan.security),
        "ShmSize": r.shm,
        "Tmpfs": dict(plan.tmpfs),
        "Ulimits": [
            {"Name": "core", "Soft": 0, "Hard": 0},
            {"Name": "nofile", "Soft": r.files, "Hard": r.files},
        ],
    }
    if plan.runtime:
        host["Runtime"] = plan.runtime
    return {
        "Image": plan.image,
        "Entrypoint": ["python3", "-I", "-B", "-c", START.format(plan.program)],
        "Healthcheck": {"Test": ["NONE"]},
        "Cmd": [],
        "User": plan.user,
        "Env": list(plan.env),
        "Labels": dict(plan.labels),
        "WorkingDir": "/",
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": False,
        "HostConfig": host,
    }


def _binds(plan: ContainerPlan) -> list[dict[str, Any]]:
    return [
        {
            "Type": "bind",
            "Source": bind.source,
            "Target": bind.target,
            "BindOptions": {"Propagation": bind.propagation, "NonRecursive": not bind.recursive},
            **({"ReadOnly": True} if bind.read_only else {}),
        }
        for bind in plan.binds
    ]


def _volumes(plan: ContainerPlan) -> list[dict[str, Any]]:
    return [
        {"Type": "volume", "Source": source, "Target": target} for source, target in plan.volumes
    ]
