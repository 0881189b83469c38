# SPDX-License-Identifier: Apache-2.0
"""Where in a git folder a path lies: in `.git`, a module's, a work tree's, or one by another name.

Pure. The file system is the keeper's to look at; where it said nothing, `.git` in a path counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from policy.values.comparison import normal

ROOT = "."
"""The workspace itself, where that is a git folder."""
_DOT_GIT = (".git", "git~1")
_MODULE = re.compile(r"modules/[^/]+/")
_WORK_TREE = re.compile(r"worktrees/[^/]+/")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a path lies in a git folder."""

    outer: str
    """The outermost git folder that it lies in."""
    folder: str
    """The one whose own file it is; a module's and a work tree's in `.git` count as such."""
    rest: str
    """The path below it."""
    in_work_tree: bool = False
    """Whether the folder is a linked work tree's."""
    odd: bool = False
    """Whether there is a git folder on the way where none lies in another."""


def place_of(path: str, folders: Sequence[str] = ()) -> Place | None:
    """Return where a path lies in a git folder; None outside of one.

    `folders` are those that the keeper knows, the outermost first.
    """
    outer = _outermost(path, folders)
    if outer is None:
        return None
    folder, rest, in_work_tree, chain = outer, _below(path, outer), False, {outer}
    while inner := (_WORK_TREE.match(rest) or _module(folder, rest, folders)):
        in_work_tree = inner[0].startswith("worktrees/")
        folder = inner[0][:-1] if folder == ROOT else f"{folder}/{inner[0][:-1]}"
        rest = rest[inner.end() :]
        chain.add(folder)
    odd = not chain.issuperset(folders) or any(is_git_name(part) for part in rest.split("/"))
    return Place(outer, folder, rest, in_work_tree, odd)


def is_git_name(name: str) -> bool:
    """Whether any file system could take a name for `.git`."""
    return normal(name.partition(":")[0]) in _DOT_GIT


def _outermost(path: str, folders: Sequence[str]) -> str | None:
    parts = path.split("/")
    named = next((n for n, one in enumerate(parts[:-1]) if is_git_name(one)), None)
    if not folders:
        return None if named is None else "/".join(parts[: named + 1])
    known = 0 if folders[0] == ROOT else folders[0].count("/") + 1
    if named is not None and named + 1 < known:
        return "/".join(parts[: named + 1])
    return folders[0]


def _below(path: str, folder: str) -> str:
    return path if folder == ROOT else path[len(folder) + 1 :]


def _module(folder: str, rest: str, folders: Sequence[str]) -> re.Match[str] | None:
    """Return the part of a path that names a module's git folder."""
    if not rest.startswith("modules/"):
        return None
    start = "modules/" if folder == ROOT else f"{folder}/modules/"
    known = next((one for one in folders if one.startswith(start)), None)
    if known is None:
        return _MODULE.match(rest)
    return re.match(re.escape(_below(known, folder)) + "/", rest)
