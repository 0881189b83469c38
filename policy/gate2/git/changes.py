# SPDX-License-Identifier: Apache-2.0
"""What a transaction changes in git folders, seen together: what is held, and why. Pure.

The list of names is `git_folder`'s, settings are `git_config`'s. Here are the rules over several
changes: a repository that comes or goes, a work tree with its pointer, a merge that was begun.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence, Set
from functools import cached_property

from policy.gate2.git.changed_settings import Remote
from policy.gate2.git.folder import (
    Holds,
    holds_of,
    is_odd_mode,
    may_be_folder,
    may_go,
    not_listed,
    why_not,
)
from policy.gate2.git.places import Place, is_git_name, place_of
from policy.model import Change, FileType, Kind

_HEADS = "refs/heads/"
_ODD_MODE = "git gives what it writes no such mode"
_COMPANIONS = {
    "MERGE_HEAD": ("MERGE_MSG", "MERGE_MODE"),
    "CHERRY_PICK_HEAD": ("MERGE_MSG",),
    "REVERT_HEAD": ("MERGE_MSG",),
}
"""What a command that stops half-way writes beside the note of where it stopped."""


class GitChanges:
    """The changes of one transaction in one workspace."""

    def __init__(
        self,
        changes: Sequence[Change],
        workspace: str | None,
        agents_remotes: Set[Remote] | None = frozenset(),
    ) -> None:
        self._changes = changes
        self._workspace = workspace
        self.agents_remotes = agents_remotes
        """Remotes that agents' calls added before; None where any may be one."""

    def why_held(self, change: Change) -> Iterator[tuple[str, str]]:
        """Give the end of a change that is held for lying in a git folder, with the reason."""
        place = place_of(change.path, change.git_folders)
        for name, address in change.git_tracked:
            if place is None or not self._is_here(address, place):
                why = f"`{name}` stands for another repository, which no call can have fetched from"
                yield change.path, why
                return
        if place is not None and (why := self._left(change, place)):
            yield change.path, why
            return
        if change.source is None or change.kind is not Kind.RENAMED:
            return
        left = place_of(change.source, change.git_sources)
        if left is not None and not may_go(left, change.type, self._gone):
            yield change.source, not_listed(left.rest)

    def _is_here(self, address: str, place: Place) -> bool:
        """Whether the address of a remote is a folder of the workspace: calls can fetch from it."""
        if self._workspace is None or ("://" in address and not address.startswith("file:///")):
            return False
        path = address.removeprefix("file://")
        if not path or (":" in path.partition("/")[0]):
            return False  # a host's
        around, _, name = place.outer.rpartition("/")
        start = around if is_git_name(name) else place.outer
        full = posixpath.normpath(posixpath.join(self._workspace, start, path))
        return f"{full}/".startswith(self._workspace.rstrip("/") + "/")

    def _left(self, change: Change, place: Place) -> str:
        """Return why what a change leaves in a git folder is held; empty where it is not."""
        if change.kind is Kind.DELETED:
            return "" if may_go(place, change.type, self._gone) else not_listed(place.rest)
        if change.type is FileType.CHANNEL:
            return ""  # it never lands
        if place.odd:
            return "it lies in a git folder within another one's own files"
        if change.git_new == "around":
            return "it makes a repository of a folder that held other things before"
        if change.type is FileType.DIRECTORY:
            listed = change.kind is Kind.META or may_be_folder(place, new=change.git_new == "new")
            if not listed:
                return not_listed(place.rest)
            return _ODD_MODE if is_odd_mode(change.mode, change.type, place.rest) else ""
        holds = holds_of(place)
        if (
            change.type is not FileType.FILE
            or holds is None
            or (holds is Holds.TEMPLATE and change.git_new != "new")
        ):
            return not_listed(place.rest)
        if is_odd_mode(change.mode, change.type, place.rest):
            return _ODD_MODE
        return why_not(change, place, holds, self._workspace) or self._alone(change, place)

    def _alone(self, change: Change, place: Place) -> str:
        """Return why a note of a command that stopped is held: that command wrote more."""
        if change.kind is Kind.META:
            return ""
        start = change.path[: -len(place.rest)]
        for name in _COMPANIONS.get(place.rest, ()):
            beside = self._by_path.get(start + name)
            if beside is None or beside.kind is Kind.DELETED:
                return f"git writes `{name}` with it, and this call did not"
        return ""

    def goes_whole(self, place: Place) -> bool:
        """Whether the git folder that a place lies in is taken or moved away with all it holds."""
        return place.outer in self._gone

    def goes_with_its_work_tree(self, change: Change) -> bool:
        """Whether a file goes away along with the linked work tree that it lies in: nothing obeys
        it any more. Whether its content may go is for the rule of deletions to say."""
        if change.kind is not Kind.DELETED or not self._ended_trees:
            return False
        parts = change.path.split("/")
        above = {"/".join(parts[:depth]) for depth in range(1, len(parts))}
        pointer = change.path.rpartition("/")[0] in self._ended_trees and is_git_name(parts[-1])
        return not pointer and not above.isdisjoint(self._ended_trees)

    @cached_property
    def _ended_trees(self) -> frozenset[str]:
        """Folders that go whole, with the pointers in them and folders of work trees in a
        repository: as many of these as of those."""
        gone = [change for change in self._changes if change.kind is Kind.DELETED]
        trees = {
            folder
            for change in gone
            if change.type is FileType.FILE and is_git_name(change.path.rpartition("/")[2])
            if (folder := change.path.rpartition("/")[0]) in self._gone
        }
        places = [place_of(change.path, change.git_folders) for change in gone]
        ended = {
            place.folder
            for place in places
            if place is not None and place.in_work_tree and place.folder in self._gone
        }
        return frozenset(trees) if len(trees) == len(ended) else frozenset()

    def gone_branches(self, change: Change) -> frozenset[str]:
        """Return the branches of a settings file's repository that this transaction deletes."""
        return frozenset(
            name[len(_HEADS) :]
            for one in self._beside(change)
            for name in one.git_refs_gone
            if name.startswith(_HEADS)
        )

    def new_branches(self, change: Change) -> frozenset[str]:
        """Return the branches of a settings file's repository that this transaction makes."""
        return frozenset(name for one in self._beside(change) for name in one.git_branches_new)

    def _beside(self, change: Change) -> Iterator[Change]:
        """Give the changes of branches in the repository whose settings a change is of."""
        place = place_of(change.path, change.git_folders)
        if place is None or place.in_work_tree:
            return  # a work tree's settings say nothing of branches
        for one in self._changes:
            if one.git_refs_gone or one.git_branches_new:
                other = place_of(one.path, one.git_folders)
                if other is not None and other.folder == place.folder:
                    yield one

    def is_new_work_tree(self, change: Change) -> bool:
        """Whether a `.git` file is that of a work tree which this transaction makes.

        Its folder is new, and so is the one in the repository that it points to and that points
        back; so it gives no file that was there another repository.
        """
        folder, _, name = change.path.rpartition("/")
        text = (change.git_text or "").removesuffix("\n")
        if change.kind is not Kind.CREATED or name != ".git" or self._workspace is None:
            return False
        start = f"gitdir: {self._workspace.rstrip('/')}/"
        if not folder or not text.startswith(start) or not self._comes(folder):
            return False
        own = text.removeprefix(start)
        back = self._by_path.get(f"{own}/gitdir")
        if back is None or back.git_text != f"{self._workspace.rstrip('/')}/{change.path}\n":
            return False
        place = place_of(back.path, back.git_folders)
        sound = place is not None and place.in_work_tree and place.rest == "gitdir"
        return sound and self._comes(own) and self._by_path.get(f"{own}/commondir") is not None

    def _comes(self, folder: str) -> bool:
        change = self._by_path.get(folder)
        return (
            change is not None and change.type is FileType.DIRECTORY and change.kind is Kind.CREATED
        )

    @cached_property
    def _by_path(self) -> dict[str, Change]:
        """What each path holds after the transaction; deletions only where nothing came."""
        found: dict[str, Change] = {}
        for change in self._changes:
            if change.kind is not Kind.DELETED or change.path not in found:
                found[change.path] = change
        return {path: one for path, one in found.items() if one.kind is not Kind.DELETED}

    @cached_property
    def _gone(self) -> frozenset[str]:
        """Folders that the transaction takes or moves away."""
        folders = [change for change in self._changes if change.type is FileType.DIRECTORY]
        away = {change.path for change in folders if change.kind is Kind.DELETED}
        away |= {change.source or "" for change in folders if change.kind is Kind.RENAMED}
        return frozenset(path for path in away if self._by_path.get(path) is None)
