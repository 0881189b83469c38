# SPDX-License-Identifier: Apache-2.0
"""What gate 2 must know of files that only a commit or an index holds, to judge them as files.

A person's check-out makes them. So links and submodules are told of with what they lead to, and
files that are judged by what they hold with what they held in the parent (or HEAD) and hold now.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..overlay.addresses import condensed
from ..overlay.lower import CONFIG_NAMES, MAX_TEXT
from .packs import Odd

MOST_ENTRIES = 1_000
"""Entries that are told of in one call."""
MOST_CHARACTERS = 512 * 1024
"""Of their texts."""
_LINK, _GITLINK, _FILE = 0o120000, 0o160000, 0o100000
Names = Callable[[str], bool]


def no_name(_: str) -> bool:
    """Name no path."""
    return False


class Contents:
    """Which files gate 2 reads, and which of them condensed to the places that they name."""

    def __init__(self, reads: Names = no_name, condenses: Names = no_name) -> None:
        self._reads = reads
        self._condenses = condenses

    def wants(self, path: str) -> bool:
        """Whether a file is judged by what it holds."""
        return path.rpartition("/")[2].lower() in CONFIG_NAMES or self._reads(path)

    def text(self, path: str, content: bytes) -> str | None:
        """Return what gate 2 reads of it; None where it is too long, or says it unclearly."""
        if self._condenses(path):
            return condensed(content)
        return None if len(content) > MAX_TEXT else content.decode("utf-8", "surrogateescape")


class Entries:
    """Gathers what one repository's commits, or its index, hold otherwise than the files."""

    def __init__(self, contents: Contents, read: Callable[[Any], bytes]) -> None:
        """`read` gives the content of an entry."""
        self._contents = contents
        self._read = read
        self._found: dict[tuple[str, str], dict[str, Any]] = {}
        self._left = MOST_CHARACTERS

    def note(self, paths: Iterable[str], mine: Any, before: Sequence[Any]) -> None:
        """Note an entry at each path that it may have; `before` are those of parents or HEAD."""
        if mine is None:
            return
        for path in paths:
            told = self._told(path, mine, [one for one in before if one is not None])
            if told is None:
                continue
            self._left -= sum(len(text) for text in told.values() if isinstance(text, str))
            if len(self._found) >= MOST_ENTRIES or self._left < 0:
                raise Odd("more links and files that are judged by content than are looked at")
            self._found[path, mine.oid.hex()] = {"path": path, **told}

    def _told(self, path: str, mine: Any, before: Sequence[Any]) -> dict[str, Any] | None:
        if mine.mode == _GITLINK:
            known = any(one.mode == _GITLINK for one in before)
            return None if known else {"type": "symlink", "target": "."}
        if mine.mode == _LINK:
            target = os.fsdecode(self._read(mine))
            return {"type": "symlink", "target": target[: MAX_TEXT // 16]}
        if mine.mode & 0o170000 != _FILE or not self._contents.wants(path):
            return None
        told: dict[str, Any] = {"type": "file"}
        was = next((one for one in before if one.mode & 0o170000 == _FILE), None)
        for name, entry in (("before_text", was), ("after_text", mine)):
            text = None if entry is None else self._contents.text(path, self._read(entry))
            if text is not None:
                told[name] = text
        if was is not None:
            told["was"] = True
        return told

    def listed(self) -> list[dict[str, Any]]:
        """Return all of them, in order of their paths."""
        return [told for _, told in sorted(self._found.items())]
