# SPDX-License-Identifier: Apache-2.0
"""What of a git folder may land: a closed list of what everyday commands of git leave there. Pure.

A git folder is `.git` at any depth, a module's or a work tree's below it, and whatever else git
would take for one (a bare repository, a `--separate-git-dir`): the keeper says so. Objects,
references, reflogs, the index, messages and the like may land, each after the check of its content
that is named beside it; all else waits for a person: plans of a rebase, settings of servers, hooks,
`info/`, whatever git may come to know. Files are compared by their exact names, since git takes no
others (gitrepository-layout(5)).

INVARIANT (P3, closed): a name that is not in the list, or whose content was not found to be what
git writes there, never lands by itself.
"""

from __future__ import annotations

import re
from collections.abc import Set
from enum import Enum

from policy.gate2.git.names import is_branch, is_name, reference
from policy.gate2.git.places import Place
from policy.model import Change, FileType, Kind

_OID = "(?:[0-9a-f]{40}|[0-9a-f]{64})"
_OIDS = re.compile(rf"(?:{_OID}\n){{1,64}}")
_ONE = re.compile(rf"{_OID}\n?")
_HEAD = re.compile(rf"ref: (refs/heads/[^\n]+)\n|{_OID}\n")
_REMOTE_HEAD = re.compile(r"ref: (refs/remotes/[^\n]+)\n")
_REMOTE_HEADS = re.compile(r"refs/remotes/[^/]+/HEAD")
_COMMENTS = re.compile(r"(?:#[^\n]*\n|\n)*")
_DESCRIPTION = "Unnamed repository; edit this file 'description' to name the repository.\n"
_OPERATION = re.compile(r"(?:rebase-(?:merge|apply)|sequencer|BISECT_[A-Z_]+|refs/bisect)(?:/|\Z)")
_EXECUTE, _SPECIAL_BITS, _OTHERS_WRITE, _OWNER_READS = 0o111, 0o6000, 0o002, 0o400


class Holds(str, Enum):
    """What a file of a git folder must hold to land."""

    OBJECT = "object"
    """Compared with its name where commits are looked at."""
    REFERENCE = "reference"
    HEAD = "head"
    ONE_ID = "one id"
    IDS = "ids"
    TEXT = "text"
    """Words for people: nothing to check."""
    MODE = "mode"
    SETTINGS = "settings"
    """Compared setting by setting (see changed_settings)."""
    REFLOG = "reflog"
    INDEX = "index"
    PACKED = "packed-refs"
    FETCHED = "fetch"
    SERVED = "served"
    COMMON = "common"
    """In a new work tree: the way to the repository."""
    BACK = "back"
    """In a new work tree: the way to its files."""
    TEMPLATE = "template"
    """Written by `git init`, in a new repository alone."""


_CHECKED_BY_KEEPER = frozenset(
    (Holds.REFLOG, Holds.INDEX, Holds.PACKED, Holds.FETCHED, Holds.SERVED)
)

TABLE: tuple[tuple[re.Pattern[str], Holds], ...] = tuple(
    (re.compile(pattern), holds)
    for pattern, holds in (
        (r"objects/[0-9a-f]{2}/(?:[0-9a-f]{38}|[0-9a-f]{62})", Holds.OBJECT),
        (rf"objects/pack/pack-{_OID}\.(?:pack|idx|rev|mtimes|keep)", Holds.OBJECT),
        (r"refs/(?:heads|tags|remotes|notes)/.+", Holds.REFERENCE),
        (r"refs/stash", Holds.REFERENCE),
        (r"logs/HEAD|logs/refs/(?:heads|tags|remotes|notes)/.+|logs/refs/stash", Holds.REFLOG),
        (r"HEAD", Holds.HEAD),
        (r"index", Holds.INDEX),
        (r"packed-refs", Holds.PACKED),
        (r"(?:ORIG|CHERRY_PICK|REVERT|REBASE)_HEAD|AUTO_MERGE", Holds.ONE_ID),
        (r"MERGE_HEAD", Holds.IDS),
        (r"FETCH_HEAD", Holds.FETCHED),
        (r"MERGE_MODE", Holds.MODE),
        (r"(?:MERGE|SQUASH)_MSG|(?:COMMIT|TAG|NOTES)_EDITMSG", Holds.TEXT),
        (r"info/sparse-checkout", Holds.TEXT),
        (r"info/refs|objects/info/packs", Holds.SERVED),
        (r"config|config\.worktree", Holds.SETTINGS),
        (r"description|info/exclude|hooks/[a-z-]+\.sample", Holds.TEMPLATE),
    )
)
"""Paths below a git folder that may land, and what each must hold."""
_WORK_TREE_TABLE = ((re.compile(r"commondir"), Holds.COMMON), (re.compile(r"gitdir"), Holds.BACK))
"""And below a work tree's own folder in it."""
_FOLDERS = re.compile(
    r"(?:refs|logs)(?:/.+)?|objects(?:/(?:[0-9a-f]{2}|pack|info))?|worktrees(?:/[^/]+)?|info"
    r"|modules(?:/.+)?"
)
_NEW_FOLDERS = re.compile(r"hooks|branches")
_MAY_GO = re.compile(
    r"objects/.+|(?:logs/)?refs/(?:heads|tags|remotes|notes)/.+|(?:logs/)?refs/stash"
    r"|(?:[A-Z_]+_HEAD|AUTO_MERGE|MERGE_MODE|(?:MERGE|SQUASH)_MSG|[A-Z]+_EDITMSG)"
    r"|(?:.+/)?[^/]+\.lock|gc\.(?:pid|log)"
)
_GOES_WITH_A_WORK_TREE = re.compile(
    r"HEAD|index|commondir|gitdir|logs/HEAD|config\.worktree|info/sparse-checkout|locked"
)


def not_listed(rest: str) -> str:
    """Say why a path below a git folder that is not in the list waits for a person."""
    if _OPERATION.match(rest):
        return (
            "it belongs to a rebase, cherry-pick or bisect under way, which only a person goes on"
        )
    return "git on the host goes by what stands there, and no everyday command leaves it"


def holds_of(place: Place) -> Holds | None:
    """Return what a file at a place must hold to land; None where none may."""
    table = (*_WORK_TREE_TABLE, *TABLE) if place.in_work_tree else TABLE
    return next((holds for pattern, holds in table if pattern.fullmatch(place.rest)), None)


def may_go(place: Place, kind: FileType, gone: Set[str]) -> bool:
    """Whether a call may take something away. `gone` are folders that it takes away whole."""
    if place.outer in gone:
        return True  # the repository itself goes: that is looked at as such
    if place.in_work_tree and place.folder in gone and _GOES_WITH_A_WORK_TREE.fullmatch(place.rest):
        return True
    listed = _FOLDERS if kind is FileType.DIRECTORY else _MAY_GO
    return listed.fullmatch(place.rest) is not None


def may_be_folder(place: Place, *, new: bool) -> bool:
    """Whether a call may make a folder; `new` says that its git folder is."""
    if _FOLDERS.fullmatch(place.rest):
        return True
    return new and _NEW_FOLDERS.fullmatch(place.rest) is not None


def is_odd_mode(mode: int, kind: FileType, rest: str) -> bool:
    """Whether git gives what it writes no such permission bits (as seen after the call)."""
    if kind is FileType.DIRECTORY:
        return bool(mode & _OTHERS_WRITE)
    bits = _SPECIAL_BITS | _OTHERS_WRITE | (0 if rest.endswith(".sample") else _EXECUTE)
    return bool(mode & bits) or bool(mode and not mode & _OWNER_READS)


def why_not(change: Change, place: Place, holds: Holds, workspace: str | None) -> str:
    """Return why the content of a file is not what git writes at its place; empty where it is."""
    if change.git_odd:
        return change.git_odd
    if change.kind is Kind.META or holds in (Holds.OBJECT, Holds.SETTINGS, Holds.TEXT):
        return ""
    for name in change.git_refs:
        if reference(name) is None:
            return f"it brings the reference `{name}`, which no everyday command makes"
    if change.git_shadows:
        return f"git could take it for `{change.git_shadows}`, which is another one"
    if holds in _CHECKED_BY_KEEPER:
        return "" if change.git_checked == holds.value else "what it holds was not checked"
    if place.rest.startswith("hooks/"):
        return ""  # examples, which nothing runs
    if change.git_text is None:
        return "what it holds is too long to be what git writes there"
    return "" if _fits(change, place, holds, workspace) else "git would not have written that there"


def _fits(change: Change, place: Place, holds: Holds, workspace: str | None) -> bool:
    text = change.git_text or ""
    match holds:
        case Holds.REFERENCE:
            if reference(place.rest) is None:
                return False
            if _REMOTE_HEADS.fullmatch(place.rest) and (found := _REMOTE_HEAD.fullmatch(text)):
                return found[1].startswith(place.rest[: -len("HEAD")]) and is_name(found[1])
            return _ONE.fullmatch(text) is not None
        case Holds.HEAD:
            found = _HEAD.fullmatch(text)
            return found is not None and (found[1] is None or is_branch(found[1]))
        case Holds.ONE_ID:
            return _ONE.fullmatch(text) is not None
        case Holds.IDS:
            return _OIDS.fullmatch(text) is not None
        case Holds.MODE:
            return text in ("", "no-ff")
        case Holds.COMMON:
            return change.kind is Kind.CREATED and text == "../..\n"
        case Holds.BACK:
            return change.kind is Kind.CREATED and _leads_back(text, workspace)
        case Holds.TEMPLATE:
            return _is_template(place.rest, text)
    return False


def _leads_back(text: str, workspace: str | None) -> bool:
    path = text.removesuffix("\n")
    inside = workspace is not None and path.startswith(workspace.rstrip("/") + "/")
    return inside and path.endswith("/.git") and "\n" not in path and "/../" not in path


def _is_template(rest: str, text: str) -> bool:
    if rest == "description":
        return text in ("", _DESCRIPTION)
    return _COMMENTS.fullmatch(text) is not None
