# SPDX-License-Identifier: Apache-2.0
"""Which files a patch touches: the `*** Begin Patch` form of coding agents, and unified diffs.

Pure. Whatever could be taken for the head of a file counts as one, since the programs that apply
patches differ in what they let pass; a line of a file's content begins with `+`, `-` or is cut off.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEAD = re.compile(r"\s*\*\*\*\s*(add|update|delete)\s+file\s*:\s*(.*?)\s*", re.IGNORECASE)
_MOVE = re.compile(r"\s*\*\*\*\s*move\s+to\s*:\s*(.*?)\s*", re.IGNORECASE)
_OLD = re.compile(r"--- (?!\s)(.*)")
_NEW = re.compile(r"\+\+\+ (?!\s)(.*)")
_RENAMED = re.compile(r"(rename|copy) (from|to) (.*)")
_NOTHING = "/dev/null"


@dataclass(frozen=True, slots=True)
class Patched:
    """The files of a patch, in their order."""

    written: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    """Files that are somewhere else afterwards (where, is in `written`)."""

    @property
    def empty(self) -> bool:
        """Whether no file was found, so that it is not known what the patch does."""
        return not (self.written or self.deleted or self.moved)


def patched(text: str) -> Patched:
    """Return the files that a patch touches."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    written: dict[str, None] = {}
    deleted: dict[str, None] = {}
    moved: dict[str, None] = {}
    last = ""
    for line in lines:
        if head := _HEAD.fullmatch(line):
            last = head[2]
            (deleted if head[1].casefold() == "delete" else written)[last] = None
        elif move := _MOVE.fullmatch(line):
            written[move[1]] = None
            if last:
                moved[last] = None
    if not written and not deleted:
        _unified(lines, written, deleted, moved)
    return Patched(tuple(written), tuple(deleted), tuple(moved))


def _unified(
    lines: list[str], written: dict[str, None], deleted: dict[str, None], moved: dict[str, None]
) -> None:
    for at, line in enumerate(lines):
        if renamed := _RENAMED.fullmatch(line):
            if renamed[2] == "to":
                written[renamed[3]] = None
            elif renamed[1] == "rename":
                moved[renamed[3]] = None
        old = _OLD.fullmatch(line)
        new = _NEW.fullmatch(lines[at + 1]) if old and at + 1 < len(lines) else None
        if old is None or new is None:
            continue
        before, after = _name(old[1]), _name(new[1])
        if after == _NOTHING:
            deleted |= dict.fromkeys(_spellings(before))
        else:
            written |= dict.fromkeys(_spellings(after))


def _name(text: str) -> str:
    """Return the name in a head of a unified diff, without its time."""
    return text.split("\t", 1)[0].strip().strip('"')


def _spellings(name: str) -> tuple[str, ...]:
    """Return a name with and without git's `a/` or `b/`: either may be meant."""
    return (name, name[2:]) if name[:2] in ("a/", "b/") else (name,)
