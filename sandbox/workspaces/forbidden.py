# SPDX-License-Identifier: Apache-2.0
"""Which folders of the host no workspace may touch, and how a path is walked without links."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

from sandbox.errors import BadInput
from sandbox.text.terminal import safe_line

SYSTEM = (
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/proc",
    "/run",
    "/sbin",
    "/sys",
    "/usr",
    "/var/cache",
    "/var/lib/containerd",
    "/var/lib/docker",
    "/var/lib/dpkg",
    "/var/log",
    "/var/run",
    "/var/spool",
)
"""Folders of the system (safety-guardrails.md, Forbidden Paths)."""

SECRET = (
    ".ssh",
    ".aws",
    ".config",
    ".gnupg",
    ".kube",
    ".docker",
    ".password-store",
    ".mozilla",
    ".local/share/keyrings",
)
"""Folders below the home that hold secrets (safety-guardrails.md, Forbidden Paths)."""

FIRST_PERSON_UID = 1000
NOBODY_UID = 65534


def absolute(path: str | Path) -> str:
    """Return a path as absolute text without `..`. Raises BadInput for names that no cell takes."""
    text = os.fspath(path)
    if not text:
        raise BadInput("the path is empty")
    if any(ord(character) < 0x20 or ord(character) == 0x7F for character in text):
        raise BadInput(f"{quoted(text)} has a control character in its name")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise BadInput(f"{quoted(text)} has a name that is not UTF-8") from None
    absolute = os.path.abspath(text)  # noqa: PTH100 - must not follow links
    return "/" + absolute.lstrip("/")


def walk(path: str) -> None:
    """Refuse a path that does not exist, is no folder, or is reached through a link."""
    at = "/"
    for part in Path(path).parts[1:]:
        at = os.path.join(at, part)  # noqa: PTH118
        try:
            found = Path(at).lstat()
        except FileNotFoundError:
            raise BadInput(f"{quoted(path)} does not exist") from None
        except OSError as error:
            raise BadInput(f"{quoted(path)} cannot be read: {error.strerror}") from None
        if stat.S_ISLNK(found.st_mode):
            real = os.path.realpath(path)
            what = "is" if at == path else f"is reached through `{safe_line(at)}`,"
            raise BadInput(f"{quoted(path)} {what} a symlink; name the real path {quoted(real)}")
        if not stat.S_ISDIR(found.st_mode):
            raise BadInput(f"{quoted(path)} is not a folder")


def homes() -> tuple[Path, ...]:
    """Return the homes of people (and root) on this host."""
    return tuple(
        Path(entry.pw_dir)
        for entry in pwd.getpwall()
        if entry.pw_uid == 0 or FIRST_PERSON_UID <= entry.pw_uid < NOBODY_UID
        if len(Path(entry.pw_dir).parts) > 1
    )


def quoted(path: str) -> str:
    return f"`{safe_line(path)}`"
