# SPDX-License-Identifier: Apache-2.0
"""What git is configured to obey: files that settings name, which a person made before. Pure.

A new setting that makes git run something is held when it comes (see changed_settings); this is
about those that stand already: `core.hooksPath = tools/hooks` makes everything in `tools/hooks` as
good as a hook. Settings are read as git reads them (see config); words of a command count as paths.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from policy.gate2.git.config import Setting, fits
from policy.values.comparison import normal

_HOOKS = "core.hookspath"
_FOLDERS = (_HOOKS, "init.templatedir")
_FILES = ("core.attributesfile", "commit.template", "gpg.ssh.allowedsignersfile")
_INCLUDES = ("include.path", "includeif.*.path")
_NOT_COMMANDS = (
    *("core.worktree", "remote.*.url", "remote.*.pushurl", "remote.pushdefault"),
    *("branch.*", "url.*", "safe.*", "protocol.*", "http.*", "submodule.*", "user.*"),
)
HOOKS = (
    *("applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit"),
    *("prepare-commit-msg", "commit-msg", "post-commit", "pre-rebase", "post-checkout"),
    *("post-merge", "pre-push", "pre-receive", "update", "proc-receive", "post-receive"),
    *("post-update", "reference-transaction", "push-to-checkout", "pre-auto-gc", "post-rewrite"),
    *("sendemail-validate", "fsmonitor-watchman", "post-index-change", "p4-changelist"),
    *("p4-prepare-changelist", "p4-post-changelist", "p4-pre-submit"),
)
"""Source: githooks(5). What counts where a workspace itself is the folder of hooks."""
_WORDS = re.compile(r"[^\s\"'=;&|<>()$`]+")


@dataclass(frozen=True, slots=True)
class Configured:
    """Paths of a workspace that git on the host obeys because a setting says so."""

    files: Mapping[str, str] = field(default_factory=dict)
    """`normal` path -> the setting that names it."""
    folders: Mapping[str, str] = field(default_factory=dict)
    """The same for folders: what lies in one counts."""

    def because(self, path: str) -> str | None:
        """Return why git obeys a path, or a folder that it lies in; None where it does not."""
        name = normal(path)
        if name in self.files:
            return _said(self.files[name])
        parts = name.split("/")
        above = ("/".join(parts[:count]) for count in range(1, len(parts) + 1))
        setting = next((self.folders[one] for one in above if one in self.folders), None)
        return None if setting is None else _said(setting)

    def below(self, path: str) -> str | None:
        """Return why git obeys something that lies in the folder `path`, were that moved."""
        name = normal(path) + "/"
        for one, setting in (*self.files.items(), *self.folders.items()):
            if one.startswith(name):
                return _said(setting)
        return None

    def joined(self, other: Configured) -> Configured:
        """Return what both say."""
        return Configured({**self.files, **other.files}, {**self.folders, **other.folders})


NOTHING = Configured()


def _said(setting: str) -> str:
    return f"git on the host obeys it: `{setting}` is set to it"


def obeyed(
    settings: Iterable[Setting],
    commands: Iterable[str],
    place: Callable[[str, str], Iterable[str]],
) -> Configured:
    """Return what settings make git obey.

    `commands` are patterns of the settings that run programs (`git_keys`). `place(base, path)`
    gives the paths of the workspace that one in a setting stands for, none outside; its base is
    `work tree`, or `file`: the folder of the configuration file itself.
    """
    patterns = tuple(commands)
    files: dict[str, str] = {}
    folders: dict[str, str] = {}
    for name, value in settings:
        if not value:
            continue
        key = name.lower()
        if key in _FOLDERS:
            places = tuple(place("work tree", value))
            _put(folders, places, name)
            if key == _HOOKS and "" in places:
                _put(files, HOOKS, name)
        elif key in _FILES:
            _put(files, place("work tree", value), name)
        elif fits(key, _INCLUDES):
            _put(files, place("file", value), name)
        elif fits(key, patterns) and not fits(key, _NOT_COMMANDS):
            for word in _paths_in(key, value):
                _put(files, place("work tree", word), name)
    return Configured(files, folders)


def _paths_in(key: str, value: str) -> list[str]:
    """Return the words of a command that may be paths.

    A program without `/` is looked for elsewhere, and an argument without `/` and `.` is rather an
    option's value than a script; git's own alias (one without `!`) runs nothing else.
    """
    if key.startswith("alias.") and not value.startswith("!"):
        return []
    words = _WORDS.findall(value.lstrip("!"))
    return [word for at, word in enumerate(words) if "/" in word or (at and "." in word[1:])]


def includes(settings: Iterable[Setting]) -> list[str]:
    """Return the files that settings include, whatever the condition: it may hold later."""
    return [value for name, value in settings if value and fits(name, _INCLUDES)]


def inside(root: str, path: str) -> str | None:
    """Return an absolute path relative to `root`; None where it lies outside, empty for `root`.

    Lexical: whoever asks has followed links, or wants none followed.
    """
    full, top = posixpath.normpath(path), posixpath.normpath(root)
    if full == top:
        return ""
    return full.removeprefix(top + "/") if full.startswith(top + "/") else None


def _put(found: dict[str, str], paths: Iterable[str], setting: str) -> None:
    for path in filter(None, paths):
        found.setdefault(normal(path), setting)
