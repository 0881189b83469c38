# SPDX-License-Identifier: Apache-2.0
"""Gate 2 on what goes away: files that a call deletes, moves away, empties or replaces. Pure."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Sequence

from policy.gate2.git.changes import GitChanges
from policy.gate2.git.places import place_of
from policy.model import Change, FileType, Kind, Outcome, PathReason
from policy.protected.paths import PathPolicy
from policy.values.comparison import normal

MOST_WORK = 1_000_000
"""Comparisons of paths with globs of a plan; what would take more counts as not named."""
WORK_CHARS = 64
"""Characters of a path that one comparison covers."""
_OUT_OF_SIGHT = "it is moved to where git ignores it, and what is ignored goes without a question"
_REPOSITORY = frozenset(("head", "config"))
_REPOSITORY_FOLDERS = frozenset((".git", "objects", "refs"))


def in_git(path: str) -> bool:
    """Whether a path lies in a folder that git could take for its own."""
    return ".git" in normal(path).split("/")[:-1]


class NamedPaths:
    """The deletions that a plan names itself."""

    def __init__(self, named: Sequence[str]) -> None:
        self._work = 0
        plain = {tidy(name) for name in named}
        self._all = bool(plain & {"**", "", "**/*"})
        self._plain = {name for name in plain if not re.search(r"[*?\[]", name)}
        self._globs = [
            re.compile(_glob(name) + r"(?:/.*)?", re.DOTALL) for name in plain - self._plain
        ]

    def covers(self, path: str) -> bool:
        """Whether a path, or a folder that it lies in, is named."""
        if self._all:
            return True
        parts = path.split("/")
        if any("/".join(parts[: n + 1]) in self._plain for n in range(len(parts))):
            return True
        self._work += len(self._globs) * (len(path) // WORK_CHARS + 1)
        if self._work > MOST_WORK:
            return False
        return any(glob.fullmatch(path) for glob in self._globs)


def tidy(name: str) -> str:
    """Return a name without empty parts and `.`."""
    return "/".join(part for part in name.split("/") if part not in ("", "."))


def _glob(pattern: str) -> str:
    """Return a regular expression in which `*` stays within one component and `**` does not."""
    pieces = []
    for part in pattern.split("/"):
        inner = fnmatch.translate(part)[4:-3]  # without the (?s: ) and \Z around it
        pieces.append(".*" if part == "**" else inner.replace(".*", "[^/]*"))
    return "/".join(pieces)


def deletion_reasons(
    change: Change, named: NamedPaths, moved: NamedPaths, paths: PathPolicy, git: GitChanges
) -> Iterator[PathReason]:
    """Yield the reasons why what a change takes away waits for a person."""
    if change.kind is Kind.DELETED:
        gone = change.path
    elif change.kind is Kind.RENAMED and change.source is not None:
        gone = change.source
    else:
        return
    if named.covers(gone):
        return
    hidden = _goes_out_of_sight(change)
    if change.kind is Kind.RENAMED and hidden:
        yield PathReason(gone, Outcome.HOLD, "deletion", _OUT_OF_SIGHT)
        return
    named_move = moved.covers(gone)
    lives_on = change.kind is Kind.RENAMED or (change.lives_on and not hidden)
    if named_move and (lives_on or change.type is not FileType.FILE):
        return
    parts = normal(gone).split("/")
    if ".git" in parts:
        if _is_repository(parts, change.type):
            yield PathReason(gone, Outcome.HOLD, "repository", "the repository itself goes away")
        if parts[-1] != ".git" or change.type is FileType.DIRECTORY:
            return  # locks, objects, refs: git's own business
    folders = change.git_sources if change.kind is Kind.RENAMED else change.git_folders
    place = place_of(gone, folders)
    if place is not None and not git.goes_whole(place):
        return  # the same in a repository of another name
    own = change.disposable  # it could go altogether
    free = own or change.ignored or change.type is FileType.DIRECTORY
    if not free and not paths.may_go(gone):
        verb = "moved away" if change.kind is Kind.RENAMED else "deleted"
        because = f"it existed before and is {verb} without being named"
        if named_move:
            because = "it is named as moved, and no file that the call left holds what it held"
            because = _OUT_OF_SIGHT if hidden else because
        yield PathReason(gone, Outcome.HOLD, "deletion", because)


def _goes_out_of_sight(change: Change) -> bool:
    """Whether a file that somebody else has a part in goes to where it counts as rebuildable."""
    file = change.type is FileType.FILE
    return file and change.goes_ignored and not (change.ignored or change.own)


def takes_content(change: Change, paths: PathPolicy) -> bool:
    """Whether a change takes the content of a file that its agent did not make."""
    return (
        bool(change.replaced)
        and not (change.lives_on and not _goes_out_of_sight(change))
        and not (change.ignored or paths.may_go(change.path) or in_git(change.path))
    )


def replacement_reasons(
    changes: Sequence[Change], named: NamedPaths, paths: PathPolicy, earlier: frozenset[str]
) -> Iterator[PathReason]:
    """Hold a call that takes many files' content away, as one that takes files away.

    Many they may be together with those of earlier calls.
    """
    gone = [one for one in changes if takes_content(one, paths) and not named.covers(one.path)]
    many = len(gone) > paths.limits.replaced_files
    together = len(earlier.union(change.path for change in gone))
    if not gone or not (many or together > paths.limits.replaced_a_day):
        return
    others = "as are more than a few"
    if not many:
        others = f"as were {together - len(gone)} others in this agent's calls of the last day"
    for change in gone:
        verb = "emptied" if change.replaced == "emptied" else "given wholly another content"
        because = f"it existed before and is {verb}, {others}"
        yield PathReason(change.path, Outcome.HOLD, "replacement", because)


def _is_repository(parts: Sequence[str], kind: FileType) -> bool:
    inside = parts[parts.index(".git") + 1 :]
    if kind is FileType.DIRECTORY:
        return not inside or (len(inside) == 1 and inside[0] in _REPOSITORY_FOLDERS)
    return len(inside) == 1 and inside[0] in _REPOSITORY
