# SPDX-License-Identifier: Apache-2.0
"""Find the links of a workspace that stand in place of what programs obey, or what is protected.

Links are looked for in the outermost folders, `MOST_FOLDERS` of them; what was seen of a folder is
remembered until its time changes. Reads names and links alone. Git folders, by whatever name, are
looked through but for their objects.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from policy.gate2.git.obeyed import inside
from policy.gate2.links import Linked
from policy.protected.paths import PathPolicy, normal

MOST_FOLDERS = 2_000
MOST_ENTRIES = 5_000
"""Entries of one folder that are looked at."""
_SKIPPED = frozenset(("node_modules", ".lockgate", ".venv", "venv", "__pycache__", ".tox"))
_GIT = frozenset(("HEAD", "objects", "refs"))
"""What a git folder holds, by which git takes it for one."""


class _Held(NamedTuple):
    """What counts of a folder's entries, by name."""

    folders: tuple[str, ...]
    links: tuple[str, ...]
    is_git: bool


def obeyed_links(root: str, paths: PathPolicy) -> Linked:
    """Return where links of a workspace lead that stand for what counts."""
    found: dict[str, str] = {}
    of_git: set[str] = set()
    real = os.path.realpath(root)
    for link, git in _links(root):
        if git is None and not _counts(link, paths):
            continue
        target = inside(real, os.path.realpath(f"{root}/{link}"))
        if not target or target == link:
            continue
        if git is not None and not _is_in_git(target, git):
            found[normal(target)] = link  # with a stronger word than another link to it
            of_git.add(link)
        else:
            found.setdefault(normal(target), link)
    return Linked(found, frozenset(of_git))


def _counts(link: str, paths: PathPolicy) -> bool:
    """Whether a link stands in place of what is obeyed or protected, or of a folder above it."""
    own = paths.governance_of(link) or paths.obeyed_of(link)
    return bool(own or paths.governance_below(link) or paths.obeyed_below(link))


def _is_in_git(path: str, git: str) -> bool:
    """Whether a path lies in the git folder `git`, or one of git's name: it is judged as git's."""
    return not git or f"{path}/".startswith(f"{git}/") or ".git" in path.split("/")


def _links(root: str) -> Iterator[tuple[str, str | None]]:
    """Give the paths of links, those in outer folders first, and the git folder each lies in."""
    waiting: deque[tuple[str, str | None]] = deque([("", None)])
    seen = 0
    while waiting and seen < MOST_FOLDERS:
        folder, git = waiting.popleft()
        seen += 1
        full = f"{root}/{folder}" if folder else root
        try:
            time = os.stat(full, follow_symlinks=False).st_mtime_ns  # noqa: PTH116
            held = _held(full, time)
        except OSError:
            continue
        head = f"{folder}/" if folder else ""
        if git is None and (held.is_git or folder.rpartition("/")[2] == ".git"):
            git = folder
        yield from ((head + name, git) for name in held.links)
        waiting.extend(
            (head + name, git) for name in held.folders if git is None or name != "objects"
        )


@lru_cache(maxsize=4 * MOST_FOLDERS)
def _held(folder: str, _time: int) -> _Held:
    """Return what counts of what a folder holds."""
    folders, links, names = [], [], set()
    with os.scandir(folder) as entries:
        for entry, _ in zip(entries, range(MOST_ENTRIES), strict=False):
            names.add(entry.name)
            if entry.is_symlink():
                links.append(entry.name)
            elif entry.is_dir(follow_symlinks=False) and entry.name not in _SKIPPED:
                folders.append(entry.name)
    return _Held(tuple(sorted(folders)), tuple(sorted(links)), names >= _GIT)
