# SPDX-License-Identifier: Apache-2.0
"""What is said about a host: what is enforced, what is not, and what is below the floor."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import docker
import pytest

from sandbox.containers.images import Images
from sandbox.containers.plan import LABEL_OWNER
from sandbox.doctor import engine, host, proof, user
from sandbox.doctor.check import CheckStatus, HostCheck
from sandbox.doctor.diagnose import diagnose, exit_status
from sandbox.errors import BadInput
from sandbox.gates.policy_files import user_roles
from sandbox.host.dirs import Dirs
from sandbox.workspaces.registry import Registry

GOOD: Mapping[str, Any] = {
    "CgroupDriver": "systemd",
    "CgroupVersion": "2",
    "CpuCfsQuota": True,
    "DefaultRuntime": "runc",
    "Driver": "overlay2",
    "KernelVersion": "6.1.0-28-amd64",
    "MemoryLimit": True,
    "OperatingSystem": "Debian GNU/Linux 12 (bookworm)",
    "OSType": "linux",
    "PidsLimit": True,
    "Runtimes": {"io.containerd.runc.v2": {}, "runc": {}, "runsc": {}},
    "SecurityOptions": ["name=apparmor", "name=seccomp,profile=builtin", "name=cgroupns"],
    "SwapLimit": True,
}
VERSION = {"ApiVersion": "1.47", "Version": "27.3.1"}


def statuses(info: Mapping[str, Any]) -> dict[str, str]:
    """Return what is not fine about an engine's own words, as {check: detail}."""
    checks = [
        engine.check_engine(VERSION, info),
        engine.check_place(info, "6.1.0-28-amd64"),
        engine.check_kernel(str(info["KernelVersion"])),
        engine.check_seccomp(info),
        engine.check_mandatory_access(info),
        engine.check_user_namespace(info),
        *engine.check_limits(info),
        engine.check_runtimes(info),
        engine.check_storage(info),
    ]
    return {
        f"{check.status.value} {check.name}": check.detail
        for check in checks
        if check.status is not CheckStatus.OK
    }


def test_a_good_engine_has_nothing_to_mend() -> None:
    assert statuses(GOOD) == {}


LACKS = {
    "no seccomp": (
        {"SecurityOptions": ["name=apparmor"]},
        {"fail seccomp": "not enforced: system calls are not filtered"},
    ),
    "seccomp switched off": (
        {"SecurityOptions": ["name=apparmor", "name=seccomp,profile=unconfined"]},
        {"fail seccomp": "not enforced: the default profile is off"},
    ),
    "no AppArmor": (
        {"SecurityOptions": ["name=seccomp,profile=default"]},
        {"warn access control": "not enforced: neither AppArmor nor SELinux"},
    ),
    "no memory limit": (
        {"MemoryLimit": False},
        {"fail memory limit": "not enforced (cgroup v2, systemd)"},
    ),
    "no process limit": (
        {"PidsLimit": False},
        {"fail process limit": "not enforced (cgroup v2, systemd)"},
    ),
    "no cpu limit": (
        {"CpuCfsQuota": False},
        {"fail cpu limit": "not enforced (cgroup v2, systemd)"},
    ),
    "no swap accounting": (
        {"SwapLimit": False},
        {"fail swap limit": "not enforced: memory could be swapped out"},
    ),
    "an old kernel": (
        {"KernelVersion": "4.19.0-27-amd64"},
        {
            "fail kernel": "Linux 4.19.0-27-amd64 has no fsopen and move_mount",
            "warn place": "the engine runs on another kernel (Debian GNU/Linux 12 (bookworm))",
        },
    ),
    "a kernel without idmapped mounts": (
        {"KernelVersion": "5.10.0-33-amd64"},
        {
            "warn kernel": (
                "Linux 5.10.0-33-amd64 has no idmapped mounts: workspaces of root are refused"
            ),
            "warn place": "the engine runs on another kernel (Debian GNU/Linux 12 (bookworm))",
        },
    ),
    "a virtual machine": (
        {"KernelVersion": "6.10.14-linuxkit", "OperatingSystem": "Docker Desktop"},
        {"warn place": "the engine runs on another kernel (Docker Desktop)"},
    ),
    "whole copies of images": (
        {"Driver": "vfs"},
        {"warn storage": "vfs: each cell copies its whole image"},
    ),
    "windows containers": (
        {"OSType": "windows"},
        {"fail engine": "it runs containers of another system"},
    ),
}


@pytest.mark.parametrize(("change", "said"), LACKS.values(), ids=LACKS)
def test_what_is_not_enforced_is_said(change: Mapping[str, Any], said: dict[str, str]) -> None:
    assert statuses({**GOOD, **change}) == said


def test_every_failure_says_what_to_do() -> None:
    nothing: Mapping[str, Any] = {"KernelVersion": "", "OSType": "linux"}
    checks = [engine.check_kernel(""), engine.check_seccomp(nothing), *engine.check_limits(nothing)]
    assert [check.status for check in checks] == [CheckStatus.FAIL] * 6
    assert all(check.fix for check in checks)


def test_whose_root_it_is_is_said() -> None:
    rootless = {"SecurityOptions": ["name=seccomp,profile=builtin", "name=rootless"]}
    assert engine.check_user_namespace(rootless).detail == "rootless: the engine is not root"
    assert "without capability" in engine.check_user_namespace(GOOD).detail


def test_other_runtimes_are_named() -> None:
    assert engine.check_runtimes(GOOD).detail == "runc by default; has runc, runsc"


PROOFS = {
    "all works": ({"overlay": "", "owners": ""}, ["ok overlay", "ok owner map"]),
    "no overlay": ({"overlay": "not permitted", "owners": ""}, ["fail overlay"]),
    "few open files": (
        {"overlay": "error setting rlimit type 7: operation not permitted", "owners": ""},
        ["fail open files"],
    ),
    "no owner map": ({"overlay": "", "owners": "not here"}, ["ok overlay", "warn owner map"]),
}


@pytest.mark.parametrize(("found", "said"), PROOFS.values(), ids=PROOFS)
def test_what_a_keeper_can_do_decides(found: Mapping[str, str], said: list[str]) -> None:
    assert [f"{check.status.value} {check.name}" for check in proof.check_mounts(found)] == said


class Container:
    """A container as the engine lists it."""

    def __init__(self, owner: str) -> None:
        self.labels = {LABEL_OWNER: owner}


def test_containers_whose_supervisor_is_gone_are_counted() -> None:
    found = [Container("1:0"), Container("gone"), Container("gone")]
    check = engine.check_leftovers(found, lambda owner: owner != "gone")
    assert (check.status, check.detail) == (
        CheckStatus.WARN,
        "2 containers of supervisors that are gone",
    )
    assert engine.check_leftovers([], lambda _: True).status is CheckStatus.OK


def test_a_folder_open_to_others_is_below_the_floor(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert host.check_state_folder(tmp_path) == HostCheck(
        "state folder",
        CheckStatus.FAIL,
        f"`{tmp_path}` is open to others",
        f"`chmod 700 {tmp_path}`",
    )
    tmp_path.chmod(0o700)
    assert host.check_state_folder(tmp_path).status is CheckStatus.OK
    assert host.check_state_folder(tmp_path / "later").detail == f"`{tmp_path}/later` will be made"


WATCHES = {
    "enough": (("192536", "128"), CheckStatus.OK, ""),
    "few directories": (
        ("8192", "128"),
        CheckStatus.WARN,
        "`sudo sysctl fs.inotify.max_user_watches=65536`",
    ),
    "few watchers": (
        ("192536", "16"),
        CheckStatus.WARN,
        "`sudo sysctl fs.inotify.max_user_instances=128`",
    ),
}


@pytest.mark.parametrize(("values", "status", "fix"), WATCHES.values(), ids=WATCHES)
def test_limits_of_watching(
    tmp_path: Path, values: tuple[str, str], status: CheckStatus, fix: str
) -> None:
    for name, value in zip(("max_user_watches", "max_user_instances"), values, strict=True):
        (tmp_path / name).write_text(value)
    check = host.check_watching(tmp_path, tmp_path / "proc")
    assert (check.status, check.fix) == (status, fix)


def test_watchers_in_use_are_counted(tmp_path: Path) -> None:
    for name, value in (("max_user_watches", "192536"), ("max_user_instances", "128")):
        (tmp_path / name).write_text(value)
    for process, descriptors in (("7", 100), ("8", 2), ("self", 100)):
        (tmp_path / "proc" / process / "fd").mkdir(parents=True)
        for number in range(descriptors):
            (tmp_path / "proc" / process / "fd" / str(number)).symlink_to("anon_inode:inotify")
        (tmp_path / "proc" / process / "fd" / "999").symlink_to("anon_inode:[eventfd]")
    check = host.check_watching(tmp_path, tmp_path / "proc")
    assert (check.status, check.fix) == (CheckStatus.OK, "")
    assert "102 of 128 watchers of this user are in use" in check.detail
    (tmp_path / "proc/8/fd/2").symlink_to("anon_inode:inotify")
    check = host.check_watching(tmp_path, tmp_path / "proc")
    assert check.status is CheckStatus.WARN
    assert check.fix == "`sudo sysctl fs.inotify.max_user_instances=256`"


def test_a_warning_is_above_the_floor_and_nothing_is_below() -> None:
    ok, warn, fail = (HostCheck("x", status, "") for status in CheckStatus)
    assert exit_status([ok, warn]) == 0
    assert exit_status([ok, fail]) == 1
    assert exit_status([]) == 1


def test_no_engine_is_one_failed_check_with_its_remedy(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sandbox.doctor"],
        env={
            **os.environ,
            "DOCKER_HOST": f"unix://{tmp_path}/none.sock",
            "XDG_STATE_HOME": str(tmp_path),
            "XDG_CONFIG_HOME": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    first, *others = done.stdout.splitlines()
    assert first == (
        f"fail  engine          DOCKER_HOST names `unix://{tmp_path}/none.sock`, "
        "which does not exist (start that engine or choose another)"
    )
    assert len(others) == 6
    assert done.returncode == 1


def test_a_real_engine_is_above_the_floor(
    docker_client: docker.DockerClient, images: Images, tmp_path: Path
) -> None:
    checks = diagnose(docker_client, Dirs.under(tmp_path))
    assert [check for check in checks if check.status is CheckStatus.FAIL] == []
    found = {check.name: check.status for check in checks}
    assert found["overlay"] is CheckStatus.OK


def test_the_image_that_the_settings_name_is_looked_at(
    docker_client: docker.DockerClient, images: Images, tmp_path: Path
) -> None:
    """The one that nobody named was, so that all was well with `image: nosuch`."""
    dirs = Dirs.under(tmp_path).create()
    dirs.config.mkdir(exist_ok=True)
    for named, wanted in (("nosuch", CheckStatus.FAIL), (images.cell, CheckStatus.OK)):
        dirs.settings.write_text(f"image: {named}\n")
        [check] = [one for one in diagnose(docker_client, dirs) if one.name == "cell image"]
        assert (check.status, named in check.detail) == (wanted, True)


# The person's own files


def test_settings_and_policy_files_are_checked(tmp_path: Path) -> None:
    dirs = Dirs.under(tmp_path).create()
    dirs.config.mkdir()
    assert user.check_settings(dirs).status is CheckStatus.OK
    assert [one.detail for one in user.check_policy_files(dirs)] == [
        "0 policy files besides the built-in rules"
    ]
    (dirs.config / "policy.yaml").write_text("limits: {seconds: 60}\n")
    assert [one.detail for one in user.check_policy_files(dirs)] == [
        "1 policy file besides the built-in rules"
    ]


WRONG = {
    "a setting": ("config.yaml", "limits: {seconds: x}\n", "config.yaml:1: `limits.seconds`"),
    "a policy file": ("policy.yaml", "version: 1\nfoo: 1\n", "policy.yaml:2: `foo` is not a key"),
    "a file of levels": ("levels.yaml", "users: {a: {overrides: {gti: green}}}\n", "`gti`"),
}


@pytest.mark.parametrize(("name", "text", "says"), WRONG.values(), ids=WRONG)
def test_a_wrong_file_of_the_person_fails(tmp_path: Path, name: str, text: str, says: str) -> None:
    dirs = Dirs.under(tmp_path).create()
    dirs.config.mkdir()
    (dirs.config / name).write_text(text)
    checks = [user.check_settings(dirs), *user.check_policy_files(dirs)]
    failed = [one for one in checks if one.status is CheckStatus.FAIL]
    assert len(failed) == 1
    assert says in failed[0].detail
    assert failed[0].fix


def test_a_wrong_file_of_a_workspace_fails_and_is_named(tmp_path: Path) -> None:
    dirs = Dirs.under(tmp_path / "l").create()
    folder = tmp_path / "w" / ".lockgate"
    folder.mkdir(parents=True)
    Registry(dirs, home=tmp_path).add(tmp_path / "w", approved=True)
    (folder / "policy.yaml").write_text("commands: [{id: a}]\n")
    found = list(user.check_policy_files(dirs))
    assert [one.status for one in found] == [CheckStatus.FAIL]
    assert found[0].detail.startswith(f"{folder}/policy.yaml:1: ")


def test_a_channel_that_is_named_must_be_there(tmp_path: Path) -> None:
    dirs = Dirs.under(tmp_path).create()
    dirs.config.mkdir()
    named = "levels: {users: {me: {escalation_channel: phone}}}\n"
    (dirs.config / "policy.yaml").write_text(named)
    (found,) = (one for one in user.check_policy_files(dirs) if one.name == "channels")
    assert (found.status, "`phone` of me" in found.detail) == (CheckStatus.WARN, True)
    (dirs.config / "config.yaml").write_text("channels: {phone: {command: [notify]}}\n")
    (found,) = (one for one in user.check_policy_files(dirs) if one.name == "channels")
    assert (found.status, found.detail) == (CheckStatus.OK, "phone")


def test_roles_of_a_policy_file_are_known_where_an_agent_starts(tmp_path: Path) -> None:
    dirs = Dirs.under(tmp_path).create()
    dirs.config.mkdir()
    assert "archivist" not in user_roles(dirs).names
    text = "roles: {archivist: {read: 'yes'}}\n"
    (dirs.config / "policy.yaml").write_text(text)
    assert "archivist" in user_roles(dirs).names
    (dirs.config / "policy.yaml").write_text("roles: [\n")
    with pytest.raises(BadInput, match=r"policy\.yaml"):
        user_roles(dirs)
