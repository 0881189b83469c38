# SPDX-License-Identifier: Apache-2.0
"""Find the links of a workspace that stand in place of what programs obey, or what is protected.

Links are looked for in the outermost folders, `MOST_FOLDERS` of them; what was seen of a folder is
remembered until its time changes. Reads names and links alone.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from functools import lru_cache

from policy.gate2.git.obeyed import inside
from policy.gate2.links import Linked
from policy.protected.paths import PathPolicy, normal

MOST_FOLDERS = 2_000
MOST_ENTRIES = 5_000
"""Entries of one folder that are looked at."""
_SKIPPED = frozenset(("node_modules", ".git", ".lockgate", ".venv", "venv", "__pycache__", ".tox"))


def obeyed_links(root: str, paths: PathPolicy) -> Linked:
    """Return where links of a workspace lead that stand for what counts."""
    found: dict[str, str] = {}
    real = os.path.realpath(root)
    for link in _links(root):
        rules = paths.governance_of(link), paths.obeyed_of(link)
        if any(rules) or paths.governance_below(link) or paths.obeyed_below(link):
            target = inside(real, os.path.realpath(f"{root}/{link}"))
            if target and target != link:
                found.setdefault(normal(target), link)
    return Linked(found)


def _links(root: str) -> Iterator[str]:
    """Give the paths of links, those in outer folders first."""
    waiting, seen = deque([""]), 0
    while waiting and seen < MOST_FOLDERS:
        folder = waiting.popleft()
        seen += 1
        full = f"{root}/{folder}" if folder else root
        try:
            time = os.stat(full, follow_symlinks=False).st_mtime_ns  # noqa: PTH116
            folders, links = _held(full, time)
        except OSError:
            continue
        head = f"{folder}/" if folder else ""
        yield from (head + name for name in links)
        waiting.extend(head + name for name in folders)


@lru_cache(maxsize=4 * MOST_FOLDERS)
def _held(folder: str, _time: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the folders and of the links in a folder."""
    folders, links = [], []
    with os.scandir(folder) as entries:
        for entry, _ in zip(entries, range(MOST_ENTRIES), strict=False):
            if entry.is_symlink():
                links.append(entry.name)
            elif entry.is_dir(follow_symlinks=False) and entry.name not in _SKIPPED:
                folders.append(entry.name)
    return tuple(sorted(folders)), tuple(sorted(links))
