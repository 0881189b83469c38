# SPDX-License-Identifier: Apache-2.0
"""Check what was tried: images, mounts in a keeper, toolchains in the image of a cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

import docker
import docker.errors

from sandbox.config.settings import load_settings
from sandbox.containers.images import Images, check_image, names
from sandbox.containers.trial import programs_in
from sandbox.doctor.check import CheckStatus, HostCheck
from sandbox.errors import BadInput, SandboxError
from sandbox.host.dirs import Dirs


def used_images(dirs: Dirs | None) -> Images:
    """Return the images that calls use: the cell's is the one that the settings name, if any."""
    try:
        named = load_settings(dirs or Dirs.default()).image
    except BadInput:  # said by the check of the settings
        named = None
    return replace(names(), cell=named) if named else names()


def check_images(client: docker.DockerClient, tags: Images) -> list[HostCheck]:
    out = []
    for role, tag in (("cell image", tags.cell), ("keeper image", tags.keeper)):
        if problem := check_image(client, tag):
            what, _, fix = problem.rpartition(": ")
            out.append(HostCheck(role, CheckStatus.FAIL, what, fix))
        else:
            out.append(HostCheck(role, CheckStatus.OK, tag))
    return out


def check_mounts(found: Mapping[str, str]) -> Iterator[HostCheck]:
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


def check_toolchains(client: docker.DockerClient, dirs: Dirs) -> Iterator[HostCheck]:
    """Check that what projects use of this host's toolchains is shown, and runs in the image."""
    from sandbox.projects.needed_toolchains import find_needed
    from sandbox.projects.toolchain_trial import try_toolchains
    from sandbox.projects.toolchains import ToolchainRecord
    from sandbox.workspaces.registry import Registry

    try:
        record = ToolchainRecord(dirs)
        for workspace in (one.path for one in Registry(dirs).list()):
            agreed = record.of(workspace)
            for need in find_needed(workspace, record.home):
                if not need.folder:
                    yield HostCheck("toolchain", CheckStatus.WARN, f"`{workspace}`: {need.advice}")
                elif need.folder not in agreed:
                    detail = f"`{workspace}` uses `{need.folder}`, which cells do not see"
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
