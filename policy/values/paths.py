# SPDX-License-Identifier: Apache-2.0
"""Paths as text: normalise them, and say where they lie.

Lexical only: no file is looked at. A path may hold unknown pieces and globs (`marks`).
"""

from __future__ import annotations

import re
import unicodedata
from enum import Enum
from functools import lru_cache

from policy.model import Context
from policy.values.partial import HOLE, NET, globbed, known_part, pattern, unknown, weight

_IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0]"
)
_SEVERAL = re.compile(r"/{2,}")
TEMPORARY = (
    "/tmp",  # noqa: S108 - names to compare with
    "/var/tmp",  # noqa: S108
    "/dev/shm",  # noqa: S108
    "/private/tmp",
    "/private/var/folders",
    "/var/folders",
)
"""Private to the cell; the last three are what macOS calls the first."""
_SYSTEM = frozenset(
    ("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "selinux",
     "sys", "usr", "System", "Library", "Windows")
)  # fmt: skip
_PROC = re.compile(
    r"/proc/(?:self|thread-self|\d+|[\ue000-\ue005]+)(?:/task/[^/]+)?/(cwd|root)(?=/|$)"
)


class Where(str, Enum):
    """Where a path lies."""

    INSIDE = "inside"
    TEMPORARY = "temporary"
    DEVICE = "device"
    """A stream that holds nothing (`/dev/null`)."""
    UNKNOWN = "unknown"
    OWN_HOME = "own home"
    OTHER_HOME = "other home"
    HOMES = "homes"
    SYSTEM = "system"
    OUTSIDE = "outside"


@lru_cache(maxsize=8192)
def absolute(path: str, place: str) -> str:
    """Return `path` from `place`, without `.`, `..`, doubled slashes and detours through /proc."""
    if not path:
        return place
    if path[0] in (HOLE, NET):
        return path
    whole = path if path[0] == "/" else f"{place}/{path}"
    for _ in range(4):
        found = _PROC.match(_SEVERAL.sub("/", whole)) if "/proc/" in whole else None
        if found is None:
            break
        tail = _SEVERAL.sub("/", whole)[found.end() :]
        whole = (place if found[1] == "cwd" else "") + (tail or "/")
    parts: list[str] = []
    for part in whole.split("/"):
        if part == "..":
            if parts:
                parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


@lru_cache(maxsize=4096)
def canonical(name: str) -> str:
    """Return a component in the one spelling that every file system agrees on."""
    plain = unicodedata.normalize("NFC", _IGNORABLE.sub("", name))
    plain = plain.split(":", 1)[0] if "::$" in plain or re.search(r":\$?\w+$", plain) else plain
    return plain.rstrip(". ").casefold() or name


def components(path: str) -> tuple[str, ...]:
    """Return the canonical components of an absolute path."""
    return tuple(canonical(part) for part in path.split("/") if part)


def below(path: str, root: str) -> bool:
    """Return whether a path is `root` or lies in it."""
    return path == root or path.startswith(root.rstrip("/") + "/") or root == "/"


def throwaway(path: str, workspaces: tuple[str, ...]) -> bool:
    """Return whether a path lies in a folder for temporary files, which a cell has for itself.

    Not the folder itself, no workspace that lies there or may be meant, and nothing whose first
    name cannot be known: it could lead elsewhere.
    """
    root = next((one for one in TEMPORARY if below(path, one)), None)
    if root is None or any(
        below(path, workspace) or below(workspace, path) for workspace in workspaces
    ):
        return False
    if globbed(path) and any(below(workspace, root) for workspace in workspaces):
        return False
    first = path[len(root) :].lstrip("/").split("/")[0]
    return bool(known_part(first).strip(".")) and HOLE not in path and NET not in path


def where(path: str, context: Context) -> Where:
    """Say where an absolute path lies."""
    if any(below(path, workspace.path) for workspace in context.workspaces):
        return Where.INSIDE
    if not path.startswith("/"):
        return Where.UNKNOWN
    if path in (
        "/dev/null",
        "/dev/stdin",
        "/dev/stdout",
        "/dev/stderr",
        "/dev/tty",
    ) or path.startswith("/dev/fd/"):
        return Where.DEVICE
    if any(below(path, one) for one in TEMPORARY):
        return Where.TEMPORARY
    parts = path.split("/")
    if path == "/":
        return Where.SYSTEM
    if parts[1] in ("home", "Users") or (parts[1] == "root"):
        return _home(path, parts, context.home)
    if below(path, context.home):
        return Where.OWN_HOME
    if unknown(parts[1]) or globbed(parts[1]):
        return Where.UNKNOWN
    return Where.SYSTEM if parts[1] in _SYSTEM else Where.OUTSIDE


def _home(path: str, parts: list[str], home: str) -> Where:
    if below(path, home):
        return Where.OWN_HOME
    if parts[1] == "root":
        return Where.OTHER_HOME
    if len(parts) < 3 or unknown(parts[2]):
        return Where.HOMES
    if globbed(parts[2]) and (
        not weight(parts[2]) or fits(parts[2], home.rsplit("/", 1)[-1]) is not Fit.NO
    ):
        return Where.HOMES
    return Where.OTHER_HOME


class Fit(str, Enum):
    """How well a partly known name fits a name."""

    NO = "no"
    MAYBE = "maybe"
    SURE = "sure"


def fits(word: str, wanted: str) -> Fit:
    """Say whether a component is `wanted` (canonical): for sure, as far as is known, or not."""
    if not globbed(word) and not unknown(word):
        return Fit.SURE if canonical(word) == wanted else Fit.NO
    if globbed(word) and word[0] in "\ue004\ue005\ue006" and wanted[0] == ".":
        return Fit.NO  # a glob does not match a leading dot
    if not pattern(word).fullmatch(wanted):
        return Fit.NO
    return Fit.SURE if weight(word) * 3 >= len(wanted) else Fit.MAYBE
