# SPDX-License-Identifier: Apache-2.0
"""Gate 2's reasons about git folders, git's settings and its pointers. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from policy.gate2.git import config as gitconfig
from policy.gate2.git.attributes import held_attributes
from policy.gate2.git.changed_settings import held_any, held_module_settings, held_settings
from policy.gate2.git.changes import GitChanges
from policy.gate2.git.places import Place, is_git_name, place_of
from policy.model import Change, FileType, Kind, Outcome, PathReason
from policy.protected.git_settings import GitSettings
from policy.protected.paths import PathPolicy
from policy.values.comparison import normal

FOLDER, POINTERS, SETTINGS = "git-folder", "git-pointers", "git-settings"
"""Ids of rules."""
_OWN_SETTINGS = ("config", "config.worktree")
_ATTRIBUTES = ".gitattributes"
_USERS = ("gitconfig", ".gitconfig")
"""A person's own settings, and the system's: a workspace may be their home."""
_ELSEWHERE = frozenset((*_OWN_SETTINGS, *_USERS, ".gitmodules", ".lfsconfig", _ATTRIBUTES))
_POINTER = re.compile(r"(?:.*/)?\.git/worktrees/[^/]+/(?:commondir|gitdir)", re.DOTALL)


def folder_reasons(change: Change, git: GitChanges) -> Iterator[PathReason]:
    """Yield the reasons why what a change does in a git folder waits for a person."""
    for path, why in git.why_held(change):
        yield PathReason(path, Outcome.HOLD, FOLDER, why)


def pointer_reason(change: Change, git: GitChanges) -> PathReason | None:
    """Return why a file waits that says where a repository is."""
    if is_git_name(change.path.rpartition("/")[2]) and change.kind is not Kind.DELETED:
        if git.is_new_work_tree(change):
            return None
        because = "it tells git on the host which repository, and so which settings, to use"
        return PathReason(change.path, Outcome.HOLD, POINTERS, because)
    if (change.kind is Kind.MODIFIED or change.modified) and _POINTER.fullmatch(
        normal(change.path)
    ):
        because = "it tells git on the host where the repository of a work tree is"
        return PathReason(change.path, Outcome.HOLD, POINTERS, because)
    return None


def settings_reasons(change: Change, paths: PathPolicy, git: GitChanges) -> Iterator[PathReason]:
    """Yield the reasons why a change of git's settings waits for a person."""
    name = normal(change.path).rpartition("/")[2]
    place = place_of(change.path, change.git_folders)
    if name not in _ELSEWHERE or change.kind is Kind.DELETED:
        return
    if change.type is FileType.SYMLINK:
        because = "git on the host would read its settings from elsewhere"
        yield PathReason(change.path, Outcome.HOLD, SETTINGS, because)
        return
    if change.type is not FileType.FILE or change.kind is Kind.META:
        return
    if change.after_text is None:
        if change.kind is not Kind.RENAMED or change.modified or _moves_in(change, place):
            because = "its settings are too long to be read"
            yield PathReason(change.path, Outcome.HOLD, SETTINGS, because)
        return
    keys = _held(change, change.after_text, name, place, paths, git)
    if keys and name == _ATTRIBUTES:
        said = ", ".join(f"`{_shown(key)}`" for key in keys[:_SAID])
        because = f"git would run a program, commit another text, or show no change, by {said}"
        yield PathReason(change.path, Outcome.HOLD, SETTINGS, because)
    elif keys:
        said = ", ".join(f"`{_shown(key)}`" for key in keys[:_SAID])
        more = f" and {len(keys) - _SAID} more" if len(keys) > _SAID else ""
        because = f"git on the host would obey {said}{more}"
        yield PathReason(change.path, Outcome.HOLD, SETTINGS, because)


_SAID = 3


def _held(
    change: Change, text: str, name: str, place: Place | None, paths: PathPolicy, git: GitChanges
) -> list[str]:
    if place is not None and place.rest in _OWN_SETTINGS:
        return held_settings(
            change.before_text,
            text,
            new=change.git_new == "new" and change.before_text is None,
            gone=git.gone_branches(change),
            come=git.new_branches(change),
            agents=git.agents_remotes,
            commands=paths.git_keys,
        )
    was = change.before_text
    if change.source is not None and normal(change.source).rpartition("/")[2] != name:
        was = None  # a file of another name, which git did not read
    if name == _ATTRIBUTES:
        return held_attributes(was, text)
    if name == ".lfsconfig":
        return held_any(was, text)
    if name == ".gitmodules":
        return held_module_settings(was, text)
    if name in _USERS:
        table = GitSettings.default()
        return [
            key
            for key in held_any(was, text)
            if not table.is_harmless(key) or gitconfig.fits(key, paths.git_keys)
        ]
    keys = gitconfig.added(change.before_text, text, paths.git_keys)
    return keys + [key for key in _redirected(change, paths) if key not in keys]


def _moves_in(change: Change, place: Place | None) -> bool:
    return place is not None and place_of(change.source or "", change.git_sources) is None


def _redirected(change: Change, paths: PathPolicy) -> Iterator[str]:
    """Give the settings that change where a person's push and pull go.

    For files that git may be told to read: one that is new has no person's settings, and a further
    remote redirects nothing.
    """
    if change.before_text is None:
        return
    known = {key for key, _ in gitconfig.settings(change.before_text)}
    for key in gitconfig.added(change.before_text, change.after_text, paths.git_remote_keys):
        if key in known or not re.fullmatch(r"remote\..*\.url", key, re.DOTALL):
            yield key


def _shown(key: str) -> str:
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in key).replace("`", "\\x60")
