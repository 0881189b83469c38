# SPDX-License-Identifier: Apache-2.0
"""Does git's index say something that no everyday command makes it say?

Names that git itself never takes, and entries that are newly marked to hide edits from `git
status`. An index that cannot be understood (a split one) is odd.

Runs in the keeper: standard library only, Python 3.9. Pure.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from .gitformat import VALID, Entry, Index, parse
from .masks import normal

_SKIP = 0x4000
"""skip-worktree, in the second half of an entry's flags."""
_TREE = 0o040000
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
    old = parse(before) if before else None
    if before and old is None:
        return "the index that it replaces cannot be read"
    known = {(entry.path, entry.stage): entry for entry in old.entries} if old else {}
    for entry in index.entries:
        was = known.get((entry.path, entry.stage))
        odd = _odd_entry(entry, was, thins=thins, present=present)
        if odd:
            return odd
    return _odd_extension(index, old)


def _odd_entry(
    entry: Entry, was: Entry | None, *, thins: bool, present: Callable[[str], bool]
) -> str:
    if was is None and _impossible(entry):
        return f"it lists `{os.fsdecode(entry.path)}`, a name that git never takes"
    if entry.flags & VALID and not (was is not None and was.flags & VALID):
        return f"it hides edits of `{os.fsdecode(entry.path)}` (assume-unchanged)"
    skips = entry.more & _SKIP and not (was is not None and was.more & _SKIP)
    if skips and (not thins or present(os.fsdecode(entry.path))):
        return f"it hides edits of `{os.fsdecode(entry.path)}` (skip-worktree)"
    return ""


def _impossible(entry: Entry) -> bool:
    """Whether git would refuse a name (read-cache.c, verify_path), on any file system."""
    path = entry.path
    if entry.mode == _TREE and path.endswith(b"/"):
        path = path[:-1]  # a whole folder of a sparse index
    if path.isascii() and b"/" not in path and b"\\" not in path and path[:1] not in b".gG":
        return False
    for part in path.replace(b"\\", b"/").split(b"/"):
        if part in (b"", b".", b".."):
            return True
        name = normal(os.fsdecode(part.partition(b":")[0]))
        if name in (".git", "git~1"):
            return True
    return False


def _odd_extension(index: Index, old: Index | None) -> str:
    held = dict(old.extensions) if old else {}
    for name, content in index.extensions:
        if name in _TRUSTED and (name not in held or (name == b"FSMN" and held[name] != content)):
            return f"it tells git {_TRUSTED[name]}"
    return ""
