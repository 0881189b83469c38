# SPDX-License-Identifier: Apache-2.0
"""Which changes of a repository's settings may land: a closed list; the rest waits for a person.

Settings are compared as git reads them, before and after: added, changed, removed, put in another
order. A setting that is not named here can redirect a push, switch a check off, run a program or
give a person another name, and git learns new ones with every release. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from policy.gate2.git.config import RUNS, fits, read
from policy.gate2.git.names import is_branch, is_name

_Values = tuple[str | None, ...]
Remote = tuple[str, str]
"""The name of a remote, and its address."""
_FOLLOWING = ("branch.*.remote", "branch.*.pushremote", "remote.pushdefault", "remotes.*")
"""Settings that name remotes which pushes and pulls go to."""
_BOOLEAN = frozenset(("true", "false", None))
_WRITTEN_BY_INIT = {
    "core.repositoryformatversion": frozenset(("0", "1")),
    "core.filemode": _BOOLEAN,
    "core.bare": _BOOLEAN,
    "core.logallrefupdates": _BOOLEAN,
    "core.ignorecase": _BOOLEAN,
    "core.precomposeunicode": _BOOLEAN,
    "core.symlinks": _BOOLEAN,
    "extensions.objectformat": frozenset(("sha1", "sha256")),
}
"""What `git init` and `git clone` write into the settings of a new repository."""
_OWN_NAME = ("user.name", "user.email")
"""In a new repository, whoever makes it may say who commits there."""
_THINNED = ("core.sparsecheckout", "core.sparsecheckoutcone", "index.sparse")
"""Written by git sparse-checkout."""
_HOW_IT_LOOKS = (
    *("color.*", "column.*", "advice.*", "core.quotepath", "log.date", "blame.date"),
    *("diff.algorithm", "diff.colormoved", "merge.conflictstyle", "grep.linenumber", "tag.sort"),
    *("branch.sort", "init.defaultbranch"),
)
"""How git shows what it shows: nothing is left out by them, and nothing else changes."""
_REMOTE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*")
"""Names of remotes that cannot be taken for an address or a path."""
_URL = re.compile(r"remote\.(.+)\.url", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Compared:
    before: Mapping[str, _Values]
    after: Mapping[str, _Values]
    gone: Set[str]
    """Branches that the same transaction deletes."""
    come: Set[str]
    """Branches that it makes, and that stood neither here nor at `origin` before."""
    agents: Set[Remote] | None
    """Remotes that agents' calls added; None where any may be one."""
    new: bool
    """Whether the repository came into being in it."""


def held_settings(
    before: str | None,
    after: str,
    *,
    new: bool = False,
    gone: Set[str] = frozenset(),
    come: Set[str] = frozenset(),
    agents: Set[Remote] | None = frozenset(),
    commands: Iterable[str] = (),
) -> list[str]:
    """Return the settings whose change waits for a person, in the order in which they stand.

    `commands` are patterns of the settings that run programs and the like, users' own among them.
    """
    old, _ = read(before or "")
    now, whole = read(after)
    if not whole:
        return ["a line that git cannot read"]
    compared = _Compared(_by_key(old), _by_key(now), gone, come, agents, new)
    patterns = tuple(commands)
    keys = dict.fromkeys([*(k for k, _ in now), *(k for k, _ in old)])
    changed = {k for k in keys if compared.before.get(k) != compared.after.get(k)}
    held = [
        key
        for key in keys
        if key in changed and (fits(key, patterns) or not _is_harmless(key, compared))
    ]
    rest = [[one for one in side if one[0] not in changed] for side in (old, now)]
    if not held and rest[0] != rest[1]:
        moved = next(one for one, other in zip(*rest, strict=True) if one != other)
        return [moved[0]]
    return held


def held_module_settings(before: str | None, after: str) -> list[str]:
    """Return what a change of `.gitmodules` holds: all but a new module's place and branch."""
    old, _ = read(before or "")
    now, whole = read(after)
    if not whole:
        return ["a line that git cannot read"]
    was, is_ = _by_key(old), _by_key(now)
    keys = [k for k in dict.fromkeys([*is_, *was]) if was.get(k) != is_.get(k)]
    return [key for key in keys if was.get(key) or not _names_a_place(key, is_.get(key, ()))]


def held_any(before: str | None, after: str) -> list[str]:
    """Return every setting that differs."""
    old, _ = read(before or "")
    now, whole = read(after)
    if not whole:
        return ["a line that git cannot read"]
    was, is_ = _by_key(old), _by_key(now)
    return [key for key in dict.fromkeys([*is_, *was]) if was.get(key) != is_.get(key)]


def _by_key(settings: Sequence[tuple[str, str | None]]) -> dict[str, _Values]:
    found: dict[str, list[str | None]] = {}
    for key, value in settings:
        found.setdefault(key, []).append(value)
    return {key: tuple(values) for key, values in found.items()}


def _is_harmless(key: str, compared: _Compared) -> bool:
    old, now = compared.before.get(key, ()), compared.after.get(key, ())
    if compared.new and not old and key in _WRITTEN_BY_INIT:
        return len(now) == 1 and now[0] in _WRITTEN_BY_INIT[key]
    if compared.new and not old and key in _OWN_NAME:
        return len(now) == 1
    if fits(key, _HOW_IT_LOOKS):
        return all(value is None or value.isprintable() for value in now)
    if key in _THINNED:
        return len(now) == 1 and now[0] in _BOOLEAN
    if key == "extensions.worktreeconfig":
        return not old and now == ("true",)
    if key == "core.repositoryformatversion":
        extensions = {k for k in compared.after if k.startswith("extensions.")}
        known = {"extensions.worktreeconfig", "extensions.objectformat"}
        return (old, now) == (("0",), ("1",)) and extensions <= known
    section, _, rest = key.partition(".")
    name, _, last = rest.rpartition(".")
    if section == "branch" and name:
        return _is_harmless_branch(name, last, compared, old, now)
    if section == "remote" and name:
        return _is_new_remote(name, last, compared, old, now)
    return False


def _is_harmless_branch(
    name: str, last: str, compared: _Compared, old: _Values, now: _Values
) -> bool:
    if last == "description":
        return True  # words for people
    if last not in ("remote", "merge"):
        return False
    if not now:
        return name in compared.gone
    value = now[0]
    if old or len(now) != 1 or value is None:
        return False  # it would go elsewhere than before
    if compared.new:
        return is_branch(value) if last == "merge" else _is_there(value, compared.after)
    # A push of a branch that follows nothing goes to `origin`, to its own name, or nowhere.
    if last == "merge":
        return is_branch(value) and (name in compared.come or value == f"refs/heads/{name}")
    if name not in compared.come:
        return value == "origin" and _is_a_persons(value, compared)
    return value == "." or _is_a_persons(value, compared)


def _is_there(remote: str, settings: Mapping[str, _Values]) -> bool:
    return remote == "." or f"remote.{remote}.url" in settings


def _is_a_persons(remote: str, compared: _Compared) -> bool:
    """Whether a remote stood before, stays as it was, and is none that an agent's call added.

    One that something follows already was made a person's by whoever let that come.
    """
    same = [k for k in {**compared.before, **compared.after} if k.startswith(f"remote.{remote}.")]
    urls = compared.before.get(f"remote.{remote}.url", ())
    if not urls or any(compared.before.get(k) != compared.after.get(k) for k in same):
        return False
    added = compared.agents is None or any((remote, url) in compared.agents for url in urls)
    return not added or remote == "origin" or _is_named(remote, compared.before)


def added_remotes(before: str | None, after: str) -> list[Remote]:
    """Return the remotes that settings have after a change, and not before."""
    old = set(read(before or "")[0])
    found = []
    for key, value in read(after)[0]:
        named = _URL.fullmatch(key)
        if named is not None and value is not None and (key, value) not in old:
            found.append((named[1], value))
    return list(dict.fromkeys(found))


def _is_new_remote(name: str, last: str, compared: _Compared, old: _Values, now: _Values) -> bool:
    """Whether a setting is of a remote that is new, and that nothing goes to unless it is named."""
    if _REMOTE.fullmatch(name) is None or len(now) != 1 or now[0] is None:
        return False
    if not compared.new:
        known = [k for k in compared.before if k.startswith(f"remote.{name}.")]
        if known or "remote.origin.url" not in compared.before or _is_named(name, compared.before):
            return False
    if last == "url":
        return RUNS.match(now[0]) is None and not now[0].isspace() and now[0] != ""
    if last != "fetch" or old:
        return False
    branch = now[0].removeprefix("+refs/heads/").partition(":")[0]
    wanted = f"+refs/heads/{branch}:refs/remotes/{name}/{branch}"
    return now[0] == wanted and (branch == "*" or is_branch(f"refs/heads/{branch}"))


def _is_named(remote: str, settings: Mapping[str, _Values]) -> bool:
    """Whether a branch, or the default of pushes, goes to a remote already."""
    return any(remote in values for key, values in settings.items() if fits(key, _FOLLOWING))


def _names_a_place(key: str, now: _Values) -> bool:
    match = re.fullmatch(r"submodule\.(.+)\.(path|branch)", key, re.DOTALL)
    if match is None or len(now) != 1 or now[0] is None:
        return False
    value = now[0]
    if match[2] == "branch":
        return value == "." or is_name(f"refs/heads/{value}")
    parts = value.split("/")
    return value.isprintable() and not value.startswith(("-", "/")) and ".." not in parts
