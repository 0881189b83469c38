# SPDX-License-Identifier: Apache-2.0
"""Which changes lie in a git folder, and what of each is known that its path does not say.

A git folder is what git takes for one, whatever its name: `HEAD` beside `objects` and `refs`, or
beside `commondir` (git's setup.c, is_git_directory). Asked of the workspace before the call and
after it, so that one which goes away counts as well as one that comes. Gate 2 has a closed list of
what may land in it (`policy.gate2.git.folder`); here its files are read and checked, by what they
hold. What was not checked here does not land.

Runs in the keeper: standard library only, Python 3.9. Changes nothing but the list of changes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable

from .. import fs
from ..git.files import OnDisk
from ..overlay.comparison import normal
from ..overlay.steps import Change
from .listed import odd_index
from .sparse import is_thinned, odd_thinning
from .texts import odd_fetch_head, odd_reflog, odd_served
from .twins import References

MOST_TEXT = 4096
"""Bytes of a file in a git folder that are passed on for gate 2 to read."""
MOST_READ = 64 << 20
"""Bytes of one that is checked here; a larger one counts as not checked."""
_DOT_GIT = (".git", "git~1")
_ROOT = "."


def note_folders(changes: Iterable[Change], root: str, upper: str) -> None:
    """Say of each change in which git folders it lies, and what a check of its content found.

    - `git_folders`: those it lies in, the outermost first; `git_sources`: the same of where it was
    - `git_new`: the innermost one came into being in this call (`around`: in a folder that held
      something before)
    - `git_text`: what a small file holds
    - `git_checked`: which check found its content sound; where it did not, `git_odd` says why
    - `git_refs`, `git_refs_gone`: references that come with it, or go and stand nowhere else
    - `git_branches_new`: branches that come with it, and stood neither here nor at `origin`
    - `git_shadows`: a reference that one of them could be taken for
    """
    changes = list(changes)
    top, layer = fs.open_directory(root), fs.open_directory(upper)
    try:
        _Notes(changes, top, layer).note()
    finally:
        os.close(layer)
        os.close(top)


class _Notes:
    def __init__(self, changes: list[Change], top: int, layer: int) -> None:
        self._changes = changes
        self._top = top
        self._layer = layer
        self._came = _names_by_folder(changes)
        self._arrived = {change["path"] for change in changes if change["kind"] != "deleted"}
        self._left = {change["path"] for change in changes if change["kind"] == "deleted"}
        self._left |= {change["source"] for change in changes if change.get("source")}
        self._before: dict[str, bool] = {}
        self._after: dict[str, bool] = {}
        self._above: dict[str, list[str]] = {}
        self._references: dict[str, References] = {}

    def note(self) -> None:
        for change in self._changes:
            folders = self._folders(change["path"])
            if folders:
                change["git_folders"] = folders
            if change.get("source"):
                sources = self._folders(change["source"])
                if sources:
                    change["git_sources"] = sources
            if change["type"] == "file" and change["kind"] != "deleted":
                self._look(change, folders)
            self._note_gone(change)
            if folders and not self._was(folders[-1]):
                change["git_new"] = "around" if self._held_something(folders[-1]) else "new"

    def _note_gone(self, change: Change) -> None:
        """Say of a reference that is taken or moved away whether it stands nowhere else."""
        away = change["path"] if change["kind"] == "deleted" else change.get("source")
        if away is None or change["type"] != "file":
            return
        rest = _rest(away, self._folders(away))
        if rest is not None and rest.startswith("refs/"):
            gone = self._refs_of(away).gone([rest])
            if gone:
                change["git_refs_gone"] = gone

    # Which folders

    def _folders(self, path: str) -> list[str]:
        """Return the git folders that a path lies in, the outermost first."""
        folder = path.rpartition("/")[0]
        if folder not in self._above:
            parts = folder.split("/") if folder else []
            above = [_ROOT] + ["/".join(parts[: n + 1]) for n in range(len(parts))]
            self._above[folder] = [one for one in above if self._is(one)]
        return self._above[folder]

    def _is(self, folder: str) -> bool:
        """Whether a folder is a git folder, before the call or after it."""
        if folder not in self._after:
            came = self._came.get(folder, ())
            self._after[folder] = _marked(lambda name: name in came or self._stood(folder, name))
        return self._after[folder]

    def _was(self, folder: str) -> bool:
        if folder not in self._before:
            self._before[folder] = _marked(lambda name: self._stood(folder, name))
        return self._before[folder]

    def _stood(self, folder: str, name: str) -> bool:
        name = "HEAD" if name == "head" else name
        return fs.lstat(self._top, name if folder == _ROOT else f"{folder}/{name}") is not None

    def _held_something(self, folder: str) -> bool:
        if folder == _ROOT:
            return True
        try:
            descriptor = fs.open_beneath(self._top, folder)
        except OSError as error:
            return error.errno not in fs.ABSENT
        try:
            return bool(os.listdir(descriptor))
        finally:
            os.close(descriptor)

    # What they hold

    def _look(self, change: Change, folders: list[str]) -> None:
        path = change["path"]
        rest = _rest(path, folders)
        if rest is None:
            if normal(path.rpartition("/")[2]) in _DOT_GIT:
                self._pass_on(change)
            return
        if rest.startswith("objects/") and rest != "objects/info/packs":
            return
        name, check = self._check_of(rest, path, folders)
        if check is None:
            self._pass_on(change)
        elif change["kind"] == "meta" or _moved_whole(change, rest, self._tail_before(change)):
            change["git_checked"] = name
        else:
            content = self._content(change)
            odd = "it is too large to be read" if content is None else check(content, change)
            change["git_odd" if odd else "git_checked"] = odd or name
        if rest.startswith("refs/") and change["kind"] in ("created", "renamed"):
            self._note_names(change, folders, path, [rest])

    def _tail_before(self, change: Change) -> str | None:
        source = change.get("source")
        return _rest(source, change.get("git_sources", [])) if source else None

    def _check_of(
        self, rest: str, path: str, folders: list[str]
    ) -> tuple[str, Callable[[bytes, Change], str] | None]:
        if rest.startswith("logs/"):
            return "reflog", lambda content, _: odd_reflog(content, self._old(path))
        if rest == "index":
            return "index", lambda content, change: self._odd_index(content, change, path, folders)
        if rest == "packed-refs":
            return "packed-refs", lambda content, change: self._packed(content, change, folders)
        if rest == "FETCH_HEAD":
            return "fetch", lambda content, _: odd_fetch_head(content)
        if rest in ("config", "config.worktree"):
            files = (OnDisk(self._top), self._old, self._after_call)
            return "settings", lambda *_: odd_thinning(path.rpartition("/")[0], *files)
        if rest in ("info/refs", "objects/info/packs"):
            return "served", lambda content, _: odd_served(content)
        return "", None

    def _odd_index(self, content: bytes, change: Change, path: str, folders: list[str]) -> str:
        folder = path.rpartition("/")[0]
        sparse = f"{folder}/info/sparse-checkout"
        thins = self._stands(sparse) and is_thinned(folder, self._after_call)
        tree = _work_tree(folder)
        old = self._old(change.get("source", path))
        return odd_index(
            content,
            old,
            thins=thins,
            present=lambda name: tree is None or self._stands(tree + name),
        )

    def _packed(self, content: bytes, change: Change, folders: list[str]) -> str:
        path = change["path"]
        found = self._refs_of(path).packed(content, self._old(path))
        if found.gone and (gone := self._refs_of(path).gone(found.gone)):
            change["git_refs_gone"] = gone
        if not found.odd and found.names:
            self._note_names(change, folders, path, found.names)
        return found.odd

    def _note_names(self, change: Change, folders: list[str], path: str, names: list[str]) -> None:
        change["git_refs"] = sorted({*change.get("git_refs", ()), *names})
        branches = self._refs_of(path).new_branches(names)
        if branches:
            change["git_branches_new"] = sorted({*change.get("git_branches_new", ()), *branches})
        shadows = self._refs_of(path).shadowed(names)
        if shadows:
            change["git_shadows"] = shadows

    def _refs_of(self, path: str) -> References:
        folder = _git_of(path, self._folders(path))
        if folder not in self._references:
            self._references[folder] = References(self._top, self._layer, folder, self._changes)
        return self._references[folder]

    # Reading

    def _pass_on(self, change: Change) -> None:
        if change.get("size", 0) > MOST_TEXT:
            return
        content = self._content(change)
        if content is not None and len(content) <= MOST_TEXT:
            change["git_text"] = content.decode("utf-8", "surrogateescape")

    def _content(self, change: Change) -> bytes | None:
        """Return what a file holds after the call; None where that cannot be read."""
        content = _read(self._layer, change["path"])
        if content is None and change["kind"] in ("meta", "renamed"):
            content = _read(self._top, change.get("source") or change["path"])
        return content

    def _after_call(self, path: str) -> bytes | None:
        content = _read(self._layer, path)
        return content if content is not None or path in self._left else self._old(path)

    def _old(self, path: str) -> bytes | None:
        return _read(self._top, path)

    def _stands(self, path: str) -> bool:
        """Whether something is at a path after the call."""
        return path in self._arrived or (
            path not in self._left and fs.lstat(self._top, path) is not None
        )


def _names_by_folder(changes: Iterable[Change]) -> dict[str, set[str]]:
    """Return what came or stands anew in each folder, by names in the form to be compared."""
    found: dict[str, set[str]] = {}
    for change in changes:
        if change["kind"] == "deleted":
            continue
        path = change["path"]
        while path:
            folder, _, name = path.rpartition("/")
            names = found.setdefault(folder or _ROOT, set())
            name = normal(name)
            if name in names and path != change["path"]:
                break
            names.add(name)
            path = folder
    return found


def _marked(has: Callable[[str], bool]) -> bool:
    return has("head") and ((has("objects") and has("refs")) or has("commondir"))


def _rest(path: str, folders: list[str]) -> str | None:
    """Return the rest of a path in its innermost git folder; None outside of one."""
    folder = _git_of(path, folders)
    if not folder:
        return None
    return path if folder == _ROOT else path[len(folder) + 1 :]


def _git_of(path: str, folders: list[str]) -> str:
    """Return the innermost git folder of a path: one that is, or that has git's own name."""
    parts = path.split("/")
    named = max((n + 1 for n, one in enumerate(parts[:-1]) if normal(one) in _DOT_GIT), default=0)
    if named and parts[named : named + 1] == ["worktrees"] and len(parts) > named + 2:
        named += 2
    by_name = "/".join(parts[:named])
    is_one = folders[-1] if folders else ""
    if by_name and (is_one == _ROOT or len(by_name) > len(is_one)):
        return by_name
    return is_one


def _moved_whole(change: Change, rest: str, before: str | None) -> bool:
    """Whether a file moved along with its folder, as it was."""
    return change["kind"] == "renamed" and not change.get("modified") and rest == before


def _work_tree(folder: str) -> str | None:
    """Return the prefix of the work tree that an index in a git folder is of; None if unknown."""
    if folder == ".git" or folder.endswith("/.git"):
        return folder[: -len(".git")]
    return None


def _read(directory: int, path: str) -> bytes | None:
    try:
        descriptor = fs.open_beneath(directory, path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_READ:
            return None
        return file.read()
