# SPDX-License-Identifier: Apache-2.0
"""Where git on the host finds the repositories that a workspace belongs to.

As git looks for them: in a folder and in those above it; in the folder that a file `.git` names;
in the common folder of several work trees. Reads files only: git itself is not run.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from sandbox.host import files as own_files

MOST_WORK_TREES = 1000
"""Linked work trees of one repository that are looked at."""
MOST_ENTRIES = 10_000
"""Entries of a folder among which git folders of another name are looked for."""
_GIT_FOLDER = ("HEAD", "objects", "refs", "config")
_SMALL = 4096

WorkTree = tuple[str, str, str]
"""A work tree, the git folder of its own, and the common one, all absolute."""


def above(folder: str) -> list[str]:
    """Return the folders above one in which a repository may lie, the nearest first.

    A folder that is reached by a link lies below both: where it is, and where the link is.
    """
    found = dict.fromkeys((*Path(folder).parents, *Path(os.path.realpath(folder)).parents))
    return [str(path) for path in found if os.path.lexists(path / ".git")]


def is_repository(work_tree: str) -> bool:
    """Whether git takes what lies there for a repository, rather than looking on above it."""
    own = f"{work_tree}/.git"
    return not os.path.isdir(own) or os.path.lexists(f"{own}/HEAD")  # noqa: PTH112


def otherwise_named(folder: str) -> list[str]:
    """Return the git folders right in a folder that bear another name: bare ones, or apart."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.path for entry in islice(entries, MOST_ENTRIES) if entry.name != ".git"]
    except OSError:
        return []
    return [
        one
        for one in sorted(names)
        if all(os.path.lexists(f"{one}/{name}") for name in _GIT_FOLDER)
    ]


def work_trees(folders: Iterable[str], git_folders: Iterable[str] = ()) -> Iterator[WorkTree]:
    """Give the work trees of the repositories in some folders: these, and all that share them.

    A bare repository, one of `git_folders`, is taken for its own work tree, as git does.
    """
    seen: set[WorkTree] = set()
    found = [_of(folder, f"{folder}/.git") for folder in folders]
    for places in (*found, *(_of(folder, folder) for folder in git_folders)):
        for place in places:
            if place not in seen:
                seen.add(place)
                yield place


def pointer_of(work_tree: str) -> tuple[str, str] | None:
    """Return the git folder that a file `.git` names, and the common one; None without such."""
    told = read_small(f"{work_tree}/.git")
    if not told.startswith("gitdir:"):
        return None
    own = _joined(work_tree, told.removeprefix("gitdir:").strip())
    return own, _joined(own, read_small(f"{own}/commondir").strip())


def _of(work_tree: str, own: str) -> Iterator[WorkTree]:
    told = read_small(own)
    if told.startswith("gitdir:"):
        own = _joined(work_tree, told.removeprefix("gitdir:").strip())
    common = _joined(own, read_small(f"{own}/commondir").strip())
    yield work_tree, own, common
    if common.endswith("/.git"):
        yield common.removesuffix("/.git"), common, common
    try:
        with os.scandir(f"{common}/worktrees") as entries:
            linked = sorted(entry.path for entry in islice(entries, MOST_WORK_TREES))
    except OSError:
        return
    for one in linked:
        pointer = read_small(f"{one}/gitdir").strip()
        if pointer:
            yield os.path.dirname(_joined(one, pointer)), one, common  # noqa: PTH120


def _joined(base: str, path: str) -> str:
    return os.path.normpath(os.path.join(base, path.partition("\0")[0]))  # noqa: PTH118


def read_small(file: str) -> str:
    """Return the text of a small file of git's; nothing where there is none."""
    try:
        with own_files.opened(Path(file)) as opened:
            return opened.read(_SMALL).decode("utf-8", "surrogateescape")
    except OSError:
        return ""
