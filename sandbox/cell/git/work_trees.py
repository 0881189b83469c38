# SPDX-License-Identifier: Apache-2.0
"""Where the files may lie that the commits and the index of a git folder are of.

Only for a folder named `.git` is that certain. A bare repository, one that `--separate-git-dir`
made, and a module's may be checked out anywhere: then each place counts that comes into question,
so that a path which somebody looks at in one of them is looked at.

Runs in the keeper: standard library only, Python 3.9. Reads only.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .files import Files, content

_SETTINGS_BYTES = 1 << 20
_SMALL = 4096
_SET = re.compile(rb"^[ \t]*worktree[ \t]*=[ \t]*\"?([^\"\n]*)", re.IGNORECASE | re.MULTILINE)

Stands = Callable[[str], bool]
"""Whether something is at a path of the workspace."""


def prefixes(folder: str, files: Files) -> list[str]:
    """Return the prefixes that paths in a git folder's commits may have in the workspace.

    `folder` is `.` for the workspace itself; `files` are those of the workspace.
    """
    parts = [] if folder == "." else folder.split("/")
    if parts and parts[-1] == ".git":
        return [_prefix(parts[:-1])]
    found = [_prefix(parts[:count]) for count in range(len(parts))] or [""]
    if ".git" in parts:  # a module's: its name is its path, unless it was moved
        outer = parts.index(".git")
        names = [part for part in parts[outer + 1 :] if part != "modules"]
        found.append(_prefix([*parts[:outer], *names]))
    settings = content(files, _prefix(parts) + "config", _SETTINGS_BYTES) or b""
    for named in _SET.findall(settings):
        found += _ends(parts, named.decode("utf-8", "surrogateescape").rstrip())
    return list(dict.fromkeys(found))


def linked_prefix(folder: str, files: Files) -> str | None:
    """Return the prefix of a linked work tree's files, of its folder `worktrees/NAME`; or None."""
    told = content(files, f"{folder}/gitdir", _SMALL)
    if told is None:
        return None
    path = told.decode("utf-8", "surrogateescape").strip("/\n").split("/")
    for start in range(len(path) - 1):
        there = "/".join(path[start:])
        if files.status(there) is not None:
            return _prefix(path[start:-1])
    return None


def _ends(parts: list[str], named: str) -> list[str]:
    """Return what a `core.worktree` may be in the workspace, whose own place is not known here."""
    if not named.startswith("/"):
        here = list(parts)
        for part in named.split("/"):
            if part == ".." and here:
                here.pop()
            elif part not in ("", ".", ".."):
                here.append(part)
        return [_prefix(here)]
    names = [part for part in named.split("/") if part]
    return [_prefix(names[start:]) for start in range(len(names) + 1)]


def _prefix(parts: list[str]) -> str:
    return "/".join([*parts, ""]) if parts else ""
