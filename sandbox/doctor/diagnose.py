# SPDX-License-Identifier: Apache-2.0
"""Say what this host enforces and what it does not.

A failed check is one below the floor: calls are refused until it is mended. A warning is a layer
that is missing or a limit that will be met some day. Nothing is changed on the host; one
short-lived container proves that the keeper's mounts really work.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import docker
import docker.errors
import requests

from sandbox.config.settings import load_settings
from sandbox.containers.endpoints import connect
from sandbox.containers.plan import LABEL_STATE
from sandbox.containers.probe import prove_mounts
from sandbox.doctor.check import CheckStatus, HostCheck
from sandbox.doctor.engine import (
    check_engine,
    check_kernel,
    check_leftovers,
    check_limits,
    check_mandatory_access,
    check_place,
    check_runtimes,
    check_seccomp,
    check_storage,
    check_user_namespace,
    check_wanted_runtime,
)
from sandbox.doctor.host import check_disk, check_state_folder, check_watching
from sandbox.doctor.proof import check_images, check_mounts, check_toolchains, used_images
from sandbox.doctor.user import (
    check_agents,
    check_changes_around,
    check_guard,
    check_policy_files,
    check_settings,
)
from sandbox.errors import BadInput, Unavailable
from sandbox.host.dirs import Dirs
from sandbox.host.process_owner import lives


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


def _settings_checks(info: Mapping[str, Any], dirs: Dirs | None) -> Iterator[HostCheck]:
    try:
        found = load_settings(dirs or Dirs.default())
    except BadInput:
        return  # said by the check of the settings
    yield from check_wanted_runtime(info, found)


def _engine_checks(client: docker.DockerClient, dirs: Dirs | None) -> Iterator[HostCheck]:
    version, info, tags = client.version(), client.info(), used_images(dirs)
    yield check_engine(version, info)
    yield check_place(info, os.uname().release)
    yield check_kernel(str(info.get("KernelVersion", "")))
    yield check_seccomp(info)
    yield check_mandatory_access(info)
    yield check_user_namespace(info)
    yield from check_limits(info)
    yield check_runtimes(info)
    yield from _settings_checks(info, dirs)
    yield check_storage(info)
    problems = check_images(client, tags)
    yield from problems
    if all(check.status is CheckStatus.OK for check in problems):
        yield from check_mounts(prove_mounts(client, tags.keeper))
        yield from check_toolchains(client, dirs or Dirs.default())
    known = client.containers.list(
        all=True, ignore_removed=True, filters={"label": LABEL_STATE}
    )  # fmt: skip
    yield check_leftovers(known, lives)


def _host_checks(dirs: Dirs | None) -> Iterator[HostCheck]:
    found = dirs or Dirs.default()
    if sys.platform == "linux":
        yield check_watching(Path("/proc/sys/fs/inotify"))
    yield check_state_folder(found.state)
    yield check_disk(found.state)
    yield check_settings(found)
    yield from check_policy_files(found)
    yield check_guard(found)
    yield from check_changes_around(found)
    yield from check_agents(found)
