# SPDX-License-Identifier: Apache-2.0
"""Check what the engine says of itself: its version, its kernel, what it filters and limits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sandbox.config.settings import Lifetime, Settings
from sandbox.containers.endpoints import api_problem
from sandbox.containers.plan import LABEL_OWNER
from sandbox.containers.runtimes import default_of, missing, moves_mounts, unenforced, unfiltered
from sandbox.doctor.check import CheckStatus, HostCheck

KERNEL_FLOOR = (5, 2)
"""fsopen, fsmount and move_mount, with which the keeper places a workspace."""


KERNEL_WISHED = (5, 12)
"""mount_setattr: workspaces that belong to root, and pins, need it."""


def check_engine(version: Mapping[str, Any], info: Mapping[str, Any]) -> HostCheck:
    """Check that the engine is new enough and runs Linux containers."""
    api = str(version.get("ApiVersion", ""))
    if problem := api_problem(api):
        return HostCheck("engine", CheckStatus.FAIL, problem, "upgrade the engine")
    if info.get("OSType", "linux") != "linux":
        fix = "switch the engine to Linux containers"
        return HostCheck("engine", CheckStatus.FAIL, "it runs containers of another system", fix)
    return HostCheck("engine", CheckStatus.OK, f"Docker {version.get('Version', '?')}, API {api}")


def check_place(info: Mapping[str, Any], kernel_here: str) -> HostCheck:
    """Check whether the engine shares this host's kernel, and so its files."""
    if info.get("KernelVersion") == kernel_here:
        return HostCheck("place", CheckStatus.OK, "the engine runs on this host")
    detail = f"the engine runs on another kernel ({info.get('OperatingSystem', 'unknown')})"
    return HostCheck(
        "place", CheckStatus.WARN, detail, "only folders that it shares can be workspaces"
    )


def check_kernel(release: str) -> HostCheck:
    """Check for the system calls with which a workspace is placed into a cell."""
    found = tuple(int(part) for part in re.findall(r"\d+", release)[:2])
    if found < KERNEL_FLOOR:
        detail = f"Linux {release or 'unknown'} has no fsopen and move_mount"
        return HostCheck("kernel", CheckStatus.FAIL, detail, "boot Linux 5.12 or newer")
    if found < KERNEL_WISHED:
        detail = f"Linux {release} has no idmapped mounts: workspaces of root are refused"
        return HostCheck("kernel", CheckStatus.WARN, detail, "boot Linux 5.12 or newer")
    return HostCheck("kernel", CheckStatus.OK, f"Linux {release}")


def check_seccomp(info: Mapping[str, Any]) -> HostCheck:
    """Check that the engine filters system calls."""
    options = _options(info)
    if "seccomp" not in options:
        fix = "use a kernel and an engine with seccomp"
        return HostCheck(
            "seccomp", CheckStatus.FAIL, "not enforced: system calls are not filtered", fix
        )
    if options["seccomp"] == "unconfined":
        fix = "remove `seccomp-profile` from the engine's settings"
        return HostCheck(
            "seccomp", CheckStatus.FAIL, "not enforced: the default profile is off", fix
        )
    return HostCheck("seccomp", CheckStatus.OK, f"profile {options['seccomp'] or 'default'}")


def check_mandatory_access(info: Mapping[str, Any]) -> HostCheck:
    """Check for AppArmor or SELinux: a further layer, not one that a promise rests on."""
    found = [name for name in ("apparmor", "selinux") if name in _options(info)]
    if found:
        return HostCheck("access control", CheckStatus.OK, " and ".join(found))
    return HostCheck(
        "access control", CheckStatus.WARN, "not enforced: neither AppArmor nor SELinux"
    )


def check_user_namespace(info: Mapping[str, Any]) -> HostCheck:
    """Say whose root the root of a container is."""
    options = _options(info)
    if "rootless" in options:
        return HostCheck("user namespace", CheckStatus.OK, "rootless: the engine is not root")
    if "userns" in options:
        return HostCheck(
            "user namespace", CheckStatus.OK, "root in containers is nobody on this host"
        )
    return HostCheck(
        "user namespace", CheckStatus.OK, "none: cells run as a plain user without capability"
    )


def check_limits(info: Mapping[str, Any]) -> Iterator[HostCheck]:
    """Check which limits of a cell the kernel's control groups hold."""
    version = f"cgroup v{info.get('CgroupVersion', '?')}, {info.get('CgroupDriver', '?')}"
    delegate = (
        "give the engine that controller (cgroup v2 delegation, or the kernel's command line)"
    )
    for name, key in (
        ("memory limit", "MemoryLimit"),
        ("process limit", "PidsLimit"),
        ("cpu limit", "CpuCfsQuota"),
    ):
        if info.get(key):
            yield HostCheck(name, CheckStatus.OK, version)
        else:
            yield HostCheck(name, CheckStatus.FAIL, f"not enforced ({version})", delegate)
    if info.get("SwapLimit"):
        yield HostCheck("swap limit", CheckStatus.OK, version)
    else:
        fix = "boot with `swapaccount=1 cgroup_enable=memory`"
        yield HostCheck(
            "swap limit", CheckStatus.FAIL, "not enforced: memory could be swapped out", fix
        )


def check_runtimes(info: Mapping[str, Any]) -> HostCheck:
    """Name the runtimes that cells could use."""
    default = default_of(info)
    others = sorted(name for name in info.get("Runtimes") or {} if not name.startswith("io."))
    detail = f"{default} by default; has {', '.join(others) or 'no other'}"
    return HostCheck("runtime", CheckStatus.OK, detail)


def check_wanted_runtime(info: Mapping[str, Any], settings: Settings) -> Iterator[HostCheck]:
    """Check the runtime and the life-time of cells that the settings name; none is fine."""
    name = settings.runtime or default_of(info)
    apart = not moves_mounts(name)
    if problem := missing(name, info):
        what, _, fix = problem.partition(": ")
        yield HostCheck("runtime of cells", CheckStatus.FAIL, what, fix)
        return
    if lacks := unenforced(name, info):
        fix = "register it without that option, and reload the engine"
        detail = f"`{name}` does not enforce {' and '.join(lacks)}"
        yield HostCheck("runtime of cells", CheckStatus.FAIL, detail, fix)
    elif apart and settings.lifetime is Lifetime.RESIDENT:
        detail = f"`{name}` does not see mounts that are moved into a running cell"
        fix = "set `lifetime: disposable` too, or leave the runtime out"
        yield HostCheck("runtime of cells", CheckStatus.FAIL, detail, fix)
    elif apart and (weaker := unfiltered(name, info)):
        yield HostCheck("runtime of cells", CheckStatus.WARN, f"`{name}`: {weaker[0]}", weaker[1])
    elif settings.runtime is not None or settings.lifetime is not Lifetime.RESIDENT:
        detail = f"`{name}`, {settings.lifetime.value}"
        yield HostCheck("runtime of cells", CheckStatus.OK, detail)


def check_storage(info: Mapping[str, Any]) -> HostCheck:
    """Check how the engine keeps images: some ways copy whole images for each container."""
    driver = str(info.get("Driver", "?"))
    if driver == "vfs":
        fix = "use a file system on which overlay2 works"
        return HostCheck("storage", CheckStatus.WARN, "vfs: each cell copies its whole image", fix)
    return HostCheck("storage", CheckStatus.OK, driver)


def check_leftovers(containers: list[Any], lives: Callable[[str], bool]) -> HostCheck:
    """Check for containers whose supervisor is gone."""
    gone = [
        container for container in containers if not lives(container.labels.get(LABEL_OWNER, ""))
    ]
    if gone:
        detail = f"{len(gone)} containers of supervisors that are gone"
        return HostCheck(
            "leftovers", CheckStatus.WARN, detail, "run `lockgate stop`, then `lockgate resume`"
        )
    return HostCheck("leftovers", CheckStatus.OK, f"none; {len(containers)} containers in use")


def _options(info: Mapping[str, Any]) -> dict[str, str]:
    """Return the engine's security options as {name: profile}."""
    out = {}
    for text in info.get("SecurityOptions") or ():
        parts = dict(part.split("=", 1) for part in str(text).split(",") if "=" in part)
        if "name" in parts:
            out[parts["name"]] = parts.get("profile", "")
    return out
