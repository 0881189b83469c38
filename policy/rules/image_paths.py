# SPDX-License-Identifier: Apache-2.0
"""Which paths outside of every workspace a cell has: those of its image. Pure, and lexical alone.

A cell has no mount of the host, so that whatever a command reads outside the workspaces is the
image's own system, or is not there at all and the command fails by itself.
"""

from __future__ import annotations

from policy.values.partial import globbed, unknown

_IMAGE = frozenset(
    ("bin", "lib", "lib32", "lib64", "libx32", "opt", "proc", "sbin", "sys", "usr", "var", "run",
     "srv", "mnt", "media", "snap", "nix", "boot")
)  # fmt: skip
_DESCRIBES = frozenset(("etc", "dev"))
"""Folders whose direct entries say which machine and which users these are, or are devices."""

MACHINE = "a look at names of the cell's own system"


def in_image(path: str) -> bool:
    """Return whether an absolute path can only be one of the image's own system.

    Not what says which machine and users these are (`/etc/passwd`), and no device.
    """
    parts = [part for part in path.split("/") if part]
    if not parts or globbed(parts[0]) or unknown(parts[0]):
        return False
    if parts[0] in _DESCRIBES:
        return parts[0] == "etc" and len(parts) > 2 and not unknown(parts[1])
    return parts[0] in _IMAGE


def absent(path: str) -> str:
    """Return why a path of the host is no question, or nothing where it is too wide for that."""
    parts = [part for part in path.split("/") if part]
    if not parts or globbed(parts[0]) or unknown(parts[0]):
        return ""
    return "a cell has no path of the host but its workspaces, so it is not there"
