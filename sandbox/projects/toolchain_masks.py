# SPDX-License-Identifier: Apache-2.0
"""What toolchains hold that no cell may see: what is hidden in workspaces, and settings of package
managers, which can hold tokens.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from policy.people.toolchains import Toolchains
from sandbox.cell.overlay.masks import Patterns, TooLarge, find

MOST_HIDDEN = 500
"""Files of one toolchain that are hidden; of one with more, nothing is shown."""

Hidden = tuple[tuple[str, bool], ...]
"""Relative paths, and whether each is a folder."""


@dataclass(frozen=True, slots=True)
class _Look:
    """What was found in a toolchain, and when its folders had changed last, in ns."""

    hidden: Hidden | None
    folders: tuple[tuple[str, int], ...]


class ToolchainMasks:
    """Remembers what was found in toolchains while no folder in them changes."""

    def __init__(self) -> None:
        self._looks: dict[tuple[str, tuple[str, ...], tuple[str, ...]], _Look] = {}

    def find(self, source: str, hide: Sequence[str], show: Sequence[str]) -> Hidden | None:
        """Return what a toolchain holds that no cell may see. Blocking.

        `hide` and `show` are expressions of a workspace's policy. None where it is too much to be
        hidden, or cannot be looked through, so that the toolchain is not shown.
        """
        key = (source, tuple(hide), tuple(show))
        known = self._looks.get(key)
        if known is None or not _unchanged(source, known):
            known = self._looks[key] = _look(source, hide, show)
        return known.hidden


class _Masks(Patterns):
    """What is hidden as in a workspace, and what of a toolchain always is: what a policy shows in a
    workspace is no word about that."""

    def __init__(self, hide: Sequence[str], show: Sequence[str]) -> None:
        super().__init__([*hide], [*show], [])
        self._always = Patterns([*Toolchains.default().hide_expressions()], [], [])

    def hides(self, path: str) -> bool:
        """Whether the cell must not see this path."""
        return self._always.hides(path) or super().hides(path)


def _look(source: str, hide: Sequence[str], show: Sequence[str]) -> _Look:
    folders: list[str] = []
    try:
        names = find(source, _Masks(hide, show), folders=folders)[0]
        times = tuple((folder, _changed(source, folder)) for folder in folders)
    except (TooLarge, OSError):
        return _Look(None, ())
    there = sorted(name for name in names if os.path.lexists(f"{source}/{name}"))
    found = tuple((one, Path(source, one).is_dir()) for one in there)
    return _Look(found if len(found) <= MOST_HIDDEN else None, times)


def _unchanged(source: str, known: _Look) -> bool:
    try:
        return bool(known.folders) and all(
            _changed(source, folder) == time for folder, time in known.folders
        )
    except OSError:
        return False


def _changed(source: str, folder: str) -> int:
    return os.lstat(f"{source}/{folder}").st_ctime_ns
