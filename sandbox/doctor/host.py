# SPDX-License-Identifier: Apache-2.0
"""Check this host's limits and folders: what may be watched, the state folder, the disk."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from sandbox.doctor.check import CheckStatus, HostCheck

WATCHES_WISHED = 65_536


INSTANCES_WISHED = 128


WATCHERS_MOST = 0.8
"""Part of what a user may have from which on a warning is due."""


DISK_WISHED = 2 * 1024**3
"""Bytes free for images, layers and before-images."""


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


def check_watching(folder: Path, proc: Path = Path("/proc")) -> HostCheck:
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


def check_state_folder(folder: Path) -> HostCheck:
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


def check_disk(folder: Path) -> HostCheck:
    """Check the room where state, before-images and (usually) layers are kept."""
    there = next(path for path in (folder, *folder.parents) if path.is_dir())
    free = shutil.disk_usage(there).free
    detail = f"{free / 1024**3:.1f} GiB free at `{there}`"
    if free < DISK_WISHED:
        return HostCheck(
            "disk", CheckStatus.WARN, detail, "make room: landings need it for before-images"
        )
    return HostCheck("disk", CheckStatus.OK, detail)
