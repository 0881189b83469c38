# SPDX-License-Identifier: Apache-2.0
"""Find the links of a workspace that stand in place of what programs obey, or what is protected.

All of it is looked through, but for installed packages and git's objects, up to as many entries as
cells take for their masks; beyond, it is said that there may be more. What was seen of a folder is
remembered until it changes (its change time, that no program can set). Reads names and links alone.
"""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from policy.gate2.git.named_by_git import inside
from policy.gate2.links import Linked
from policy.protected.paths import PathPolicy
from policy.values.comparison import normal

MOST_ENTRIES = 500_000
"""Entries that are looked at, of folders and in all; a cell takes no workspace with more."""
REMEMBERED = 200_000
"""Folders of which is remembered what they hold."""
YOUNG_NS = 100_000_000
"""What changed so shortly ago may change again without another time."""
_SKIPPED = frozenset(("node_modules", ".lockgate", ".venv", "venv", "__pycache__", ".tox"))
_GIT = frozenset(("HEAD", "objects", "refs"))
"""What a git folder holds, by which git takes it for one."""
_OBJECTS = re.compile(r"[0-9a-f]{2}")
"""Folders of objects; a folder may only look like git's, so what else lies there is looked at."""


class _TooMany(Exception):
    """There are more entries than are looked at."""


class _Held(NamedTuple):
    """What counts of a folder's entries, by name."""

    folders: tuple[str, ...]
    links: tuple[str, ...]
    is_git: bool
    entries: int


def obeyed_links(root: str, paths: PathPolicy) -> Linked:
    """Return where links of a workspace lead that stand for what counts."""
    found: dict[str, str] = {}
    of_git: set[str] = set()
    real = os.path.realpath(root)
    try:
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
    except _TooMany:
        return Linked(found, frozenset(of_git), beyond=MOST_ENTRIES)
    return Linked(found, frozenset(of_git))


def _counts(link: str, paths: PathPolicy) -> bool:
    """Whether a link stands in place of what is obeyed or protected, or of a folder above it."""
    own = paths.governance_of(link) or paths.obeyed_of(link)
    return bool(own or paths.governance_below(link) or paths.obeyed_below(link))


def _is_in_git(path: str, git: str) -> bool:
    """Whether a path lies in the git folder `git`, or one of git's name: it is judged as git's."""
    return not git or f"{path}/".startswith(f"{git}/") or ".git" in path.split("/")


def _links(root: str) -> Iterator[tuple[str, str | None]]:
    """Give the paths of links, those in outer folders first, and the git folder each lies in.

    Raises _TooMany.
    """
    waiting: deque[tuple[str, str | None]] = deque([("", None)])
    seen = 0
    while waiting:
        folder, git = waiting.popleft()
        try:
            held = _held_by(f"{root}/{folder}" if folder else root)
        except OSError:  # it is gone, or this user cannot read it
            continue
        seen += held.entries
        if seen > MOST_ENTRIES:
            raise _TooMany
        head = f"{folder}/" if folder else ""
        name = folder.rpartition("/")[2]
        if git is None and (held.is_git or name == ".git"):
            git = folder
        yield from ((head + link, git) for link in held.links)
        objects = git is not None and name == "objects"
        waiting.extend(
            (head + one, git) for one in held.folders if not (objects and _OBJECTS.fullmatch(one))
        )


def _held_by(folder: str) -> _Held:
    """Return what counts of what a folder holds now. Raises OSError, _TooMany."""
    status = os.stat(folder, follow_symlinks=False)  # noqa: PTH116
    if time.time_ns() - status.st_ctime_ns < YOUNG_NS:
        return _listed(folder)
    return _remembered(folder, status.st_ino, status.st_ctime_ns)


@lru_cache(maxsize=REMEMBERED)
def _remembered(folder: str, _inode: int, _time: int) -> _Held:
    """Return what counts of what a folder held at a time."""
    return _listed(folder)


def _listed(folder: str) -> _Held:
    folders, links, names = [], [], set()
    count = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            count += 1
            if count > MOST_ENTRIES:
                raise _TooMany
            if entry.name in _GIT:
                names.add(entry.name)
            if entry.is_symlink():
                links.append(entry.name)
            elif entry.is_dir(follow_symlinks=False) and entry.name not in _SKIPPED:
                folders.append(entry.name)
    return _Held(tuple(sorted(folders)), tuple(sorted(links)), names >= _GIT, count)
