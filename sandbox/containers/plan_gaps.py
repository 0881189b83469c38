# SPDX-License-Identifier: Apache-2.0
"""Which settings of a container differ from its plan: what the daemon does not enforce. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.containers.plan import ContainerPlan, body

_EMPTY_HOST = (
    "Binds",
    "CgroupParent",
    "Devices",
    "DeviceCgroupRules",
    "DeviceRequests",
    "DnsOptions",
    "DnsSearch",
    "ExtraHosts",
    "GroupAdd",
    "Init",
    "Links",
    "OomKillDisable",
    "OomScoreAdj",
    "PortBindings",
    "Sysctls",
    "VolumesFrom",
    "UsernsMode",
    "UTSMode",
)
"""Settings of the engine that no plan uses: each must be empty."""

_CONFIG = ("Entrypoint", "Healthcheck", "User", "WorkingDir", "Tty", "OpenStdin", "StdinOnce")

_MASKED = ("/proc/kcore", "/proc/keys", "/proc/timer_list")

_READONLY = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus")


def gaps(plan: ContainerPlan, seen: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a container (the engine's inspect answer) lacks of its plan; empty is equal."""
    wanted = body(plan)
    host, config = seen.get("HostConfig") or {}, seen.get("Config") or {}
    out = [
        f"HostConfig.{key}"
        for key, value in wanted["HostConfig"].items()
        if not _same(key, value, host.get(key))
    ]
    out += [f"HostConfig.{key}" for key in _EMPTY_HOST if host.get(key)]
    if plan.runtime is None and host.get("Runtime") not in (None, "", "runc", "crun"):
        out.append("HostConfig.Runtime")
    if (host.get("RestartPolicy") or {}).get("Name") not in (None, "", "no"):
        out.append("HostConfig.RestartPolicy")
    for key in _CONFIG:
        if config.get(key) != wanted[key]:
            out.append(f"Config.{key}")
    if config.get("Cmd"):
        out.append("Config.Cmd")
    if config.get("Volumes"):
        out.append("Config.Volumes")
    if not _same_variables(wanted["Env"], config.get("Env") or ()):
        out.append("Config.Env")
    if not set(plan.labels) <= set((config.get("Labels") or {}).items()):
        out.append("Config.Labels")
    if seen.get("Image") != plan.image:
        out.append("Image")
    for key, paths in (("MaskedPaths", _MASKED), ("ReadonlyPaths", _READONLY)):
        if not set(paths) <= set(host.get(key) or ()):
            out.append(f"HostConfig.{key}")
    binds = {(bind.source, bind.target, not bind.read_only) for bind in plan.binds}
    if _mounts(seen) != binds | {(*volume, True) for volume in plan.volumes}:
        out.append("Mounts")
    return tuple(dict.fromkeys(out))


def _same(key: str, wanted: Any, found: Any) -> bool:
    """Compare one setting; lists whose order means nothing are compared as sets."""
    if key in ("CapAdd", "CapDrop"):
        return {c.removeprefix("CAP_") for c in found or ()} == set(wanted)
    if key == "SecurityOpt":
        return sorted(found or ()) == sorted(wanted)
    if key == "Ulimits":
        plain = [{k: u.get(k) for k in ("Name", "Soft", "Hard")} for u in found or ()]
        return bool(sorted(plain, key=lambda u: str(u["Name"])) == wanted)
    if key == "Mounts":
        return _by_target(found or ()) == _by_target(wanted)
    if key == "LogConfig":
        return bool(found) and found.get("Type") == wanted["Type"]
    if wanted in ("", [], {}):
        return not found
    return bool(found == wanted)


def _same_variables(wanted: Sequence[str], found: Sequence[str]) -> bool:
    """Compare variables. An image may bring its own, but none that loads code into programs."""
    names = {one.partition("=")[0] for one in wanted}
    added = [one.partition("=")[0] for one in found if one not in wanted]
    return set(wanted) <= set(found) and not any(n in names or n[:3] == "LD_" for n in added)


def _by_target(mounts: Any) -> list[tuple[Any, ...]]:
    return sorted(
        (
            m.get("Target"),
            m.get("Type"),
            m.get("Source"),
            bool(m.get("ReadOnly")),
            (m.get("BindOptions") or {}).get("Propagation"),
            bool((m.get("BindOptions") or {}).get("NonRecursive")),
        )
        for m in mounts
    )


def _mounts(seen: Mapping[str, Any]) -> set[tuple[str, str, bool]]:
    """Return (source, target, whether it can be written) of every mount that is no tmpfs."""
    out = set()
    for mount in seen.get("Mounts") or ():
        if mount.get("Type") == "tmpfs":
            continue
        source = mount.get("Name") if mount.get("Type") == "volume" else mount.get("Source")
        out.add((str(source), str(mount.get("Destination")), bool(mount.get("RW"))))
    return out
