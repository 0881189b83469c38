# SPDX-License-Identifier: Apache-2.0
"""Does git's index say something that no everyday command makes it say?

Names that git itself never takes, and entries that are newly marked to hide edits from `git
status`. An index that cannot be understood (a split one) is odd.

Runs in the keeper: standard library only, Python 3.9. Pure.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable

from ..git.index_format import VALID, Entry, Index, parse
from ..overlay.comparison import normal
from .cached import remembers_other_trees

_SKIP = 0x4000
"""skip-worktree, in the second half of an entry's flags."""
_TREE = 0o040000
_UNUSUAL = re.compile(rb"(?:^|/)(?:[./]|[Gg][Ii][Tt]~|[^\x00-\x7f]|$)|\\")
"""What a name that git never takes has somewhere."""
_TRUSTED = {b"FSMN": "which files nobody changed", b"UNTR": "which folders hold nothing new"}
"""Extensions by which `git status` leaves out what it would find."""


def odd_index(
    content: bytes, before: bytes | None, *, thins: bool, present: Callable[[str], bool]
) -> str:
    """Return why an index is odd, empty where it is not.

    `thins`: the work tree has a sparse checkout. `present` says whether a file of the work tree is
    there after the call.
    """
    index = parse(content)
    if index is None:
        return "it is no index that can be read"
    old = _Old(before)
    for entry in index.entries:
        odd = _odd_entry(entry, old, thins=thins, present=present)
        if odd:
            return odd
    if remembers_other_trees(index):
        return "the trees that it remembers for the next commit are not of what it lists"
    return _odd_extension(index, old)


def skipped_file(content: bytes) -> str:
    """Return a file that an index says to be left out of the work tree; "" for none."""
    index = parse(content)
    entries = index.entries if index is not None else ()
    return next((os.fsdecode(entry.path) for entry in entries if entry.more & _SKIP), "")


class _Old:
    """What the index said before; read where it matters, since that takes as long as the rest."""

    def __init__(self, content: bytes | None) -> None:
        self._content = content

    def flags(self, entry: Entry) -> tuple[int, int] | None:
        """Return both halves of an entry's flags; None where it was not listed."""
        found = self._entries.get((entry.path, entry.stage))
        return None if found is None else (found.flags, found.more)

    @functools.cached_property
    def extensions(self) -> dict[bytes, bytes]:
        """Return what its extensions hold."""
        return dict(self._index.extensions) if self._index else {}

    @functools.cached_property
    def _index(self) -> Index | None:
        return parse(self._content) if self._content else None

    @functools.cached_property
    def _entries(self) -> dict[tuple[bytes, int], Entry]:
        held = self._index.entries if self._index else ()
        return {(entry.path, entry.stage): entry for entry in held}


def _odd_entry(entry: Entry, old: _Old, *, thins: bool, present: Callable[[str], bool]) -> str:
    name = os.fsdecode(entry.path)
    if _UNUSUAL.search(entry.path) and _impossible(entry) and old.flags(entry) is None:
        return f"it lists `{name}`, a name that git never takes"
    if entry.flags & VALID and not (old.flags(entry) or (0, 0))[0] & VALID:
        return f"it hides edits of `{name}` (assume-unchanged)"
    skips = entry.more & _SKIP and not (old.flags(entry) or (0, 0))[1] & _SKIP
    if skips and (not thins or present(name.rstrip("/"))):
        return f"it hides edits of `{name}` (skip-worktree)"
    return ""


def _impossible(entry: Entry) -> bool:
    """Whether git would refuse a name (read-cache.c, verify_path), on any file system."""
    path = entry.path
    if entry.mode == _TREE and path.endswith(b"/"):
        path = path[:-1]  # a whole folder of a sparse index
    for part in path.replace(b"\\", b"/").split(b"/"):
        if part in (b"", b".", b".."):
            return True
        name = normal(os.fsdecode(part.partition(b":")[0]))
        if name in (".git", "git~1"):
            return True
    return False


def _odd_extension(index: Index, old: _Old) -> str:
    for name, content in index.extensions:
        if name not in _TRUSTED:
            continue
        was = old.extensions.get(name)
        if was is None or (name == b"FSMN" and was != content):
            return f"it tells git {_TRUSTED[name]}"
    return ""
