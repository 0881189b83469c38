# SPDX-License-Identifier: Apache-2.0
"""Say what this host enforces and what it does not.

A failed check is one below the floor: calls are refused until it is mended. A warning is a layer
that is missing or a limit that will be met some day. Nothing is changed on the host; one
short-lived container proves that the keeper's mounts really work.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

import docker
import docker.errors
import requests

from policy.autonomy.levels import Levels
from policy.sources.precedence import Layer
from policy.values.strict_yaml import PolicyError
from sandbox.config.settings import Lifetime, Settings, load_settings
from sandbox.containers.endpoints import api_problem, connect
from sandbox.containers.images import Images, check_image, names
from sandbox.containers.plan import LABEL_OWNER, LABEL_STATE
from sandbox.containers.probe import prove_mounts
from sandbox.containers.runtimes import default_of, missing, moves_mounts, unenforced, unfiltered
from sandbox.containers.trial import programs_in
from sandbox.errors import BadInput, SandboxError, Unavailable
from sandbox.host.dirs import Dirs
from sandbox.host.process_owner import lives
from sandbox.operations.requests import PsRequest
from sandbox.text.terminal import safe_line

KERNEL_FLOOR = (5, 2)
"""fsopen, fsmount and move_mount, with which the keeper places a workspace."""
KERNEL_WISHED = (5, 12)
"""mount_setattr: workspaces that belong to root, and pins, need it."""
WATCHES_WISHED = 65_536
INSTANCES_WISHED = 128
WATCHERS_MOST = 0.8
"""Part of what a user may have from which on a warning is due."""
_MOST_NAMED = 5
"""Changed files of which a line names the path."""
DISK_WISHED = 2 * 1024**3
"""Bytes free for images, layers and before-images."""


class CheckStatus(str, Enum):
    """How a check came out."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class HostCheck:
    """One thing that was looked at."""

    name: str
    status: CheckStatus
    detail: str
    fix: str = ""
    """One line that says what to do; empty when there is nothing to do."""

    def as_dict(self) -> dict[str, str]:
        """Return the check for JSON output."""
        return {
            "name": self.name,
            "status": self.status.value,
            "detail": self.detail,
            "fix": self.fix,
        }


def diagnose(client: docker.DockerClient | None, dirs: Dirs | None = None) -> list[HostCheck]:
    """Return every check of this host, the engine's first. Never raises for what it finds.

    Without a client, one is looked for.
    """
    if client is None:
        try:
            client = connect()
        except Unavailable as error:
            what, _, fix = str(error).partition(": ")
            return [HostCheck("engine", CheckStatus.FAIL, what, fix), *_host_checks(dirs)]
    try:
        return [*_engine_checks(client, dirs), *_host_checks(dirs)]
    except (docker.errors.DockerException, requests.RequestException) as error:
        reason = " ".join(str(error).split())
        failed = HostCheck(
            "engine", CheckStatus.FAIL, f"stopped answering: {reason}", "restart the engine"
        )
        return [failed, *_host_checks(dirs)]


def exit_status(checks: list[HostCheck]) -> int:
    """Return 1 if the host is below the floor; an empty list is."""
    return int(not checks or any(check.status is CheckStatus.FAIL for check in checks))


def main(arguments: list[str]) -> int:
    """Print all checks, as lines or with `--json`. Returns the exit status."""
    checks = diagnose(None)
    if "--json" in arguments:
        print(json.dumps([check.as_dict() for check in checks], indent=2))
    else:
        for check in checks:
            fix = f" ({check.fix})" if check.fix and check.status is not CheckStatus.OK else ""
            print(f"{check.status.value:4}  {check.name:15} {check.detail}{fix}")
    return exit_status(checks)


# What the engine says


def _settings_checks(info: Mapping[str, Any], dirs: Dirs | None) -> Iterator[HostCheck]:
    try:
        found = load_settings(dirs or Dirs.default())
    except BadInput:
        return  # said by the check of the settings
    yield from wanted_runtime(info, found)


def _engine_checks(client: docker.DockerClient, dirs: Dirs | None) -> Iterator[HostCheck]:
    version, info, tags = client.version(), client.info(), used_images(dirs)
    yield engine(version, info)
    yield place(info, os.uname().release)
    yield kernel(str(info.get("KernelVersion", "")))
    yield seccomp(info)
    yield mandatory_access(info)
    yield user_namespace(info)
    yield from limits(info)
    yield runtimes(info)
    yield from _settings_checks(info, dirs)
    yield storage(info)
    problems = _image_checks(client, tags)
    yield from problems
    if all(check.status is CheckStatus.OK for check in problems):
        yield from proof(prove_mounts(client, tags.keeper))
        yield from shown_toolchains(client, dirs or Dirs.default())
    known = client.containers.list(
        all=True, ignore_removed=True, filters={"label": LABEL_STATE}
    )  # fmt: skip
    yield leftovers(known, lives)


def engine(version: Mapping[str, Any], info: Mapping[str, Any]) -> HostCheck:
    """Check that the engine is new enough and runs Linux containers."""
    api = str(version.get("ApiVersion", ""))
    if problem := api_problem(api):
        return HostCheck("engine", CheckStatus.FAIL, problem, "upgrade the engine")
    if info.get("OSType", "linux") != "linux":
        fix = "switch the engine to Linux containers"
        return HostCheck("engine", CheckStatus.FAIL, "it runs containers of another system", fix)
    return HostCheck("engine", CheckStatus.OK, f"Docker {version.get('Version', '?')}, API {api}")


def place(info: Mapping[str, Any], kernel_here: str) -> HostCheck:
    """Check whether the engine shares this host's kernel, and so its files."""
    if info.get("KernelVersion") == kernel_here:
        return HostCheck("place", CheckStatus.OK, "the engine runs on this host")
    detail = f"the engine runs on another kernel ({info.get('OperatingSystem', 'unknown')})"
    return HostCheck(
        "place", CheckStatus.WARN, detail, "only folders that it shares can be workspaces"
    )


def kernel(release: str) -> HostCheck:
    """Check for the system calls with which a workspace is placed into a cell."""
    found = tuple(int(part) for part in re.findall(r"\d+", release)[:2])
    if found < KERNEL_FLOOR:
        detail = f"Linux {release or 'unknown'} has no fsopen and move_mount"
        return HostCheck("kernel", CheckStatus.FAIL, detail, "boot Linux 5.12 or newer")
    if found < KERNEL_WISHED:
        detail = f"Linux {release} has no idmapped mounts: workspaces of root are refused"
        return HostCheck("kernel", CheckStatus.WARN, detail, "boot Linux 5.12 or newer")
    return HostCheck("kernel", CheckStatus.OK, f"Linux {release}")


def seccomp(info: Mapping[str, Any]) -> HostCheck:
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


def mandatory_access(info: Mapping[str, Any]) -> HostCheck:
    """Check for AppArmor or SELinux: a further layer, not one that a promise rests on."""
    found = [name for name in ("apparmor", "selinux") if name in _options(info)]
    if found:
        return HostCheck("access control", CheckStatus.OK, " and ".join(found))
    return HostCheck(
        "access control", CheckStatus.WARN, "not enforced: neither AppArmor nor SELinux"
    )


def user_namespace(info: Mapping[str, Any]) -> HostCheck:
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


def limits(info: Mapping[str, Any]) -> Iterator[HostCheck]:
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


def runtimes(info: Mapping[str, Any]) -> HostCheck:
    """Name the runtimes that cells could use."""
    default = default_of(info)
    others = sorted(name for name in info.get("Runtimes") or {} if not name.startswith("io."))
    detail = f"{default} by default; has {', '.join(others) or 'no other'}"
    return HostCheck("runtime", CheckStatus.OK, detail)


def wanted_runtime(info: Mapping[str, Any], settings: Settings) -> Iterator[HostCheck]:
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


def storage(info: Mapping[str, Any]) -> HostCheck:
    """Check how the engine keeps images: some ways copy whole images for each container."""
    driver = str(info.get("Driver", "?"))
    if driver == "vfs":
        fix = "use a file system on which overlay2 works"
        return HostCheck("storage", CheckStatus.WARN, "vfs: each cell copies its whole image", fix)
    return HostCheck("storage", CheckStatus.OK, driver)


def leftovers(containers: list[Any], lives: Callable[[str], bool]) -> HostCheck:
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


def used_images(dirs: Dirs | None) -> Images:
    """Return the images that calls use: the cell's is the one that the settings name, if any."""
    try:
        named = load_settings(dirs or Dirs.default()).image
    except BadInput:  # said by the check of the settings
        named = None
    return replace(names(), cell=named) if named else names()


def _image_checks(client: docker.DockerClient, tags: Images) -> list[HostCheck]:
    out = []
    for role, tag in (("cell image", tags.cell), ("keeper image", tags.keeper)):
        if problem := check_image(client, tag):
            what, _, fix = problem.rpartition(": ")
            out.append(HostCheck(role, CheckStatus.FAIL, what, fix))
        else:
            out.append(HostCheck(role, CheckStatus.OK, tag))
    return out


def _options(info: Mapping[str, Any]) -> dict[str, str]:
    """Return the engine's security options as {name: profile}."""
    out = {}
    for text in info.get("SecurityOptions") or ():
        parts = dict(part.split("=", 1) for part in str(text).split(",") if "=" in part)
        if "name" in parts:
            out[parts["name"]] = parts.get("profile", "")
    return out


# What a keeper can really do


def proof(found: Mapping[str, str]) -> Iterator[HostCheck]:
    """Turn what a keeper could do into checks; an empty text is a success."""
    if "rlimit" in found["overlay"]:
        fix = "raise the engine's own limit of open files (LimitNOFILE), or lower `cell.open_files`"
        yield HostCheck(
            "open files", CheckStatus.FAIL, "more are asked for than the engine may give", fix
        )
        return
    if found["overlay"]:
        fix = "use a kernel with overlayfs and an engine that may mount"
        yield HostCheck(
            "overlay", CheckStatus.FAIL, f"a keeper cannot mount: {found['overlay']}", fix
        )
        return
    yield HostCheck("overlay", CheckStatus.OK, "mounted, written and renamed in a keeper")
    if found["owners"]:
        detail = f"no idmapped mounts ({found['owners']}): workspaces of root are refused"
        yield HostCheck("owner map", CheckStatus.WARN, detail, "keep workspaces of a plain user")
    else:
        yield HostCheck(
            "owner map", CheckStatus.OK, "a workspace of root can be shown as a plain user's"
        )


def shown_toolchains(client: docker.DockerClient, dirs: Dirs) -> Iterator[HostCheck]:
    """Check that what projects use of this host's toolchains is shown, and runs in the image."""
    from sandbox.projects.needed_toolchains import find_needed
    from sandbox.projects.toolchain_trial import try_toolchains
    from sandbox.projects.toolchains import ToolchainRecord
    from sandbox.workspaces.registry import Registry

    try:
        record = ToolchainRecord(dirs)
        for workspace in (one.path for one in Registry(dirs).list()):
            agreed = record.of(workspace)
            for one in find_needed(workspace, record.home):
                if not one.folder:
                    yield HostCheck("toolchain", CheckStatus.WARN, f"`{workspace}`: {one.advice}")
                elif one.folder not in agreed:
                    detail = f"`{workspace}` uses `{one.folder}`, which cells do not see"
                    yield HostCheck(
                        "toolchain", CheckStatus.WARN, detail, f"`lockgate init {workspace}`"
                    )
            for folder in agreed:
                if problem := record.problem(folder):
                    yield HostCheck(
                        "toolchain", CheckStatus.WARN, f"{problem}: cells do not see it"
                    )
            shown = record.shown((workspace,))
            find = partial(programs_in, client=client)
            for line in try_toolchains(dirs, record.home, shown, find):
                yield HostCheck("toolchain", CheckStatus.WARN, line)
    except SandboxError as error:
        yield HostCheck("toolchain", CheckStatus.WARN, str(error))


# What this host says


def _host_checks(dirs: Dirs | None) -> Iterator[HostCheck]:
    found = dirs or Dirs.default()
    if sys.platform == "linux":
        yield watching(Path("/proc/sys/fs/inotify"))
    yield state(found.state)
    yield disk(found.state)
    yield settings(found)
    yield from policy_files(found)
    yield guard(found)
    yield from changed_around(found)
    yield from connected(found)


def guard(dirs: Dirs) -> HostCheck:
    """Say whether protected files are guarded while the supervisor lives."""
    from sandbox.client.blocking import BlockingClient
    from sandbox.client.connect import connect as reached

    try:
        if not load_settings(dirs).guard.enabled:
            return HostCheck(
                "guard", CheckStatus.WARN, "off by the settings", "set `guard: {enabled: true}`"
            )
        line = reached(dirs)
        if line is None:
            return HostCheck("guard", CheckStatus.OK, "comes with the supervisor; none runs now")
        line.close()
        with BlockingClient(dirs) as client:
            client.keep_running()  # whatever its settings
            found = dict(client.ask(PsRequest()).get("guard") or {})
    except SandboxError as error:
        return HostCheck("guard", CheckStatus.WARN, str(error))
    said = found.get("failed") or ()
    if found.get("state") == "failed" or said:
        why = "; ".join([*([found["problem"]] if found.get("problem") else ()), *said])
        return HostCheck(
            "guard", CheckStatus.WARN, f"failed: {why}", "calls go on; see the supervisor's log"
        )
    count = found.get("guarded", 0)
    return HostCheck(
        "guard", CheckStatus.OK, f"{found.get('state', 'starting')}, {count} protected paths"
    )


def changed_around(dirs: Dirs) -> Iterator[HostCheck]:
    """Name what was changed around Lockgate and not acknowledged, if there is something."""
    from sandbox.audit.open_changes import OpenChanges

    try:
        changed = OpenChanges(dirs).read()
    except OSError as error:
        yield HostCheck(
            "protected files", CheckStatus.WARN, f"the log cannot be read: {error.strerror}"
        )
        return
    if changed:
        names = ", ".join(
            sorted({f"`{safe_line(record.path)}`" for record in changed})[:_MOST_NAMED]
        )
        count = len(changed)
        said = f"{count} change{'' if count == 1 else 's'} around Lockgate: {names}"
        advice = "`lockgate guard --once` lists them; `--acknowledge` once you have seen them"
        yield HostCheck("protected files", CheckStatus.WARN, said, advice)


def settings(dirs: Dirs) -> HostCheck:
    """Check that the settings can be read; no call runs otherwise."""
    try:
        load_settings(dirs)
    except BadInput as error:
        return HostCheck("settings", CheckStatus.FAIL, str(error), "mend the file, or remove it")
    where = str(dirs.settings) if dirs.settings.exists() else "none: the defaults count"
    return HostCheck("settings", CheckStatus.OK, where)


def policy_files(dirs: Dirs) -> Iterator[HostCheck]:
    """Check each policy file that counts for a workspace; a wrong one stops every call there."""
    from sandbox.gates.policy_files import Policies
    from sandbox.workspaces.registry import Registry

    known = Policies(dirs)
    try:
        workspaces = tuple(workspace.path for workspace in Registry(dirs).list())
        own = known.of(())  # the user's files on levels, modes, trust and roles
    except (BadInput, PolicyError) as error:
        yield HostCheck("policy", CheckStatus.FAIL, str(error), "mend the file, or remove it")
        return
    read, wrong = 0, False
    for layer, path in known.files(workspaces):
        try:
            read += known.document(layer, path) is not None
            if layer is Layer.WORKSPACE:
                known.of((str(path.parent.parent),))  # what the files amount to together
        except PolicyError as error:
            wrong = True
            yield HostCheck(
                "policy", CheckStatus.FAIL, str(error), "mend the file; no call runs there"
            )
    if wrong:
        return
    detail = f"{read} policy file{'s' if read != 1 else ''} besides the built-in rules"
    yield HostCheck("policy", CheckStatus.OK, detail)
    yield from channels(dirs, own.policy.standing.levels)


def channels(dirs: Dirs, levels: Levels) -> Iterator[HostCheck]:
    """Check that each escalation channel that a user names is there; else nobody is told."""
    named = levels.channels()
    try:
        configured = load_settings(dirs).channels
    except BadInput:  # said already
        return
    missing = [f"`{one}` of {who}" for who, one in named.items() if one not in configured]
    if missing:
        detail = f"{', '.join(missing)}: no such channel, so reports and questions go nowhere else"
        yield HostCheck(
            "channels", CheckStatus.WARN, detail, f"add it under `channels` in {dirs.settings}"
        )
    elif named:
        yield HostCheck("channels", CheckStatus.OK, ", ".join(sorted(set(named.values()))))


def connected(dirs: Dirs) -> Iterator[HostCheck]:
    """Try each connected agent: is it written, trusted, does it work, did it ever fire."""
    from sandbox.connect.health import standing
    from sandbox.host.relaunch import program
    from sandbox.workspaces.registry import Registry

    try:
        first = next(iter(Registry(dirs).list()), None)
    except BadInput as error:
        yield HostCheck("agents", CheckStatus.FAIL, str(error))
        return
    for name, status, detail, fix in standing(dirs, program(), Path(first.path) if first else None):
        yield HostCheck(name, CheckStatus(status), detail, fix)


def count_watchers(proc: Path) -> int:
    """Count the inotify instances of this user's processes, those in containers among them.

    What cannot be read (processes of others) is not this user's.
    """
    count = 0
    for process in proc.glob("[0-9]*"):
        try:
            if process.stat().st_uid != os.geteuid():
                continue
            for descriptor in (process / "fd").iterdir():
                count += str(descriptor.readlink()) == "anon_inode:inotify"
        except OSError:  # it ended meanwhile
            continue
    return count


def watching(folder: Path, proc: Path = Path("/proc")) -> HostCheck:
    """Check how many directories and trees one user may watch, and how many are watched."""
    values = {}
    for name in ("max_user_watches", "max_user_instances"):
        try:
            values[name] = int((folder / name).read_text(encoding="ascii"))
        except (OSError, ValueError):
            return HostCheck("watching", CheckStatus.WARN, f"`{folder / name}` cannot be read")
    most = values["max_user_instances"]
    used = count_watchers(proc)
    detail = f"{values['max_user_watches']} directories; {used} of {most} watchers of this user"
    detail += " are in use (`inotify`; a cell takes one or two)"
    wished = {"max_user_watches": WATCHES_WISHED, "max_user_instances": INSTANCES_WISHED}
    for name, least in wished.items():
        if values[name] < least:
            fix = f"`sudo sysctl fs.inotify.{name}={least}`"
            return HostCheck(
                "watching", CheckStatus.WARN, f"{detail}: little for large workspaces", fix
            )
    if used > most * WATCHERS_MOST:
        fix = f"`sudo sysctl fs.inotify.max_user_instances={2 * most}`"
        said = f"{detail}: few are left; idle cells end early, then calls are refused"
        return HostCheck("watching", CheckStatus.WARN, said, fix)
    return HostCheck("watching", CheckStatus.OK, detail)


def state(folder: Path) -> HostCheck:
    """Check that the state folder is this user's alone."""
    try:
        found = folder.stat()
    except FileNotFoundError:
        return HostCheck("state folder", CheckStatus.OK, f"`{folder}` will be made")
    except OSError as error:
        return HostCheck("state folder", CheckStatus.FAIL, f"`{folder}`: {error.strerror}")
    if found.st_uid != os.geteuid():
        fix = f"`sudo chown -R {os.geteuid()} {folder}`"
        detail = f"`{folder}` belongs to uid {found.st_uid}"
        return HostCheck("state folder", CheckStatus.FAIL, detail, fix)
    if found.st_mode & 0o077:
        fix = f"`chmod 700 {folder}`"
        return HostCheck("state folder", CheckStatus.FAIL, f"`{folder}` is open to others", fix)
    return HostCheck("state folder", CheckStatus.OK, f"`{folder}`")


def disk(folder: Path) -> HostCheck:
    """Check the room where state, before-images and (usually) layers are kept."""
    there = next(path for path in (folder, *folder.parents) if path.is_dir())
    free = shutil.disk_usage(there).free
    detail = f"{free / 1024**3:.1f} GiB free at `{there}`"
    if free < DISK_WISHED:
        return HostCheck(
            "disk", CheckStatus.WARN, detail, "make room: landings need it for before-images"
        )
    return HostCheck("disk", CheckStatus.OK, detail)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
