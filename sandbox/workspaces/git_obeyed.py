# SPDX-License-Identifier: Apache-2.0
"""Read on the host what git there is configured to obey in a workspace (see policy.configured).

Looks at the repositories that changed paths lie in, at the workspace's own and its submodules, at
those of the folders above it, at all work trees of these, and at the user's and the system's
settings; and at what hooks are links to. Reads files only: git itself is not run, and a file that
was read is read again when it has changed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path

from policy.gate2.git.config import Setting, settings
from policy.gate2.git.named_by_git import NOTHING, Configured, includes, inside, obeyed
from policy.gate2.git.signing import wanted_signatures
from policy.values.comparison import normal
from sandbox.host import files as own_files
from sandbox.workspaces.git_places import WorkTree, above, otherwise_named, work_trees

MOST_BYTES = 1 << 20
"""Of a configuration file; a longer one is read so far."""
MOST_INCLUDES = 10
"""Files that include files that include files, as git allows."""
MOST_HOOKS = 1000
"""Entries of a folder of hooks that are looked at."""
_SYSTEM = "/etc/gitconfig"
_HOOKS, _TOP = "core.hookspath", "core.worktree"


def configured(root: str, changed: Iterable[str], commands: tuple[str, ...]) -> Configured:
    """Return what git obeys in the workspace at `root`, whose paths `changed` are to be judged."""
    found = NOTHING
    for place in work_trees(_folders(root, changed), otherwise_named(root)):
        found = found.joined(_linked_hooks(root, f"{place[2]}/hooks"))
        for file in _files(place):
            for base in _tops(place):
                found = found.joined(_of_file(root, base, file, commands, MOST_INCLUDES))
    return found


def asked_to_sign(root: str, changed: Iterable[str]) -> frozenset[str]:
    """Return what a person's settings ask to be signed in a repository that changed paths lie in.

    `commit` and `tag`, if any of these repositories does.
    """
    found: frozenset[str] = frozenset()
    own = f"{root}/.git"
    for place in ((root, own, own), *work_trees(_folders(root, changed))):
        known = [one for file in _files(place) for one in _with_included(file, MOST_INCLUDES)]
        found |= wanted_signatures(known)
    return found


def _with_included(file: str, depth: int) -> Iterator[Setting]:
    """Give the settings of a file, and of those that it includes where it does so."""
    for name, value in _settings(file):
        yield name, value
        for path in includes([(name, value)]) if depth else ():
            full = _full(os.path.dirname(file), path)  # noqa: PTH120
            yield from _with_included(full, depth - 1)


def _of_file(
    root: str, work_tree: str, file: str, commands: tuple[str, ...], depth: int
) -> Configured:
    here = _settings(file)
    if not here:
        return NOTHING
    bases = {"work tree": work_tree, "file": os.path.dirname(file)}  # noqa: PTH120
    found = obeyed(here, commands, lambda base, path: _places(root, bases[base], path))
    for name, value in here:
        if value and name.lower() == _HOOKS:
            found = found.joined(_linked_hooks(root, _full(work_tree, value)))
    for path in includes(here) if depth else ():
        full = _full(bases["file"], path)
        found = found.joined(_of_file(root, work_tree, full, commands, depth - 1))
    return found


def _places(root: str, base: str, path: str) -> Iterator[str]:
    """Give the paths of the workspace that one in a setting means: as it reads, and as it leads."""
    yield from find_places(root, _full(base, path))


def find_places(root: str, full: str) -> tuple[str, ...]:
    """Return an absolute path as it reads and as it leads, as far as that is in the workspace."""
    both = (inside(root, full), _led_to(root, full))
    return tuple(dict.fromkeys(one for one in both if one is not None))


def _led_to(root: str, full: str) -> str | None:
    """Return the path of the workspace that a path leads to by links; None where it leads out."""
    return inside(os.path.realpath(root), os.path.realpath(full))


def _full(base: str, path: str) -> str:
    """Return the absolute path that one in a setting stands for, seen from `base`."""
    return os.path.normpath(join_path(base, path))


def join_path(base: str, path: str) -> str:
    """Return where a path in a setting leads from `base`, with the `..` that are in it."""
    path = path.partition("\0")[0].removeprefix("%(prefix)/")
    return os.path.join(base, os.path.expanduser(path))  # noqa: PTH111, PTH118


def _linked_hooks(root: str, folder: str) -> Configured:
    """Return the files of the workspace that hooks in a folder, wherever it lies, are links to."""
    try:
        with os.scandir(folder) as entries:
            links = [entry.path for entry in islice(entries, MOST_HOOKS) if entry.is_symlink()]
    except OSError:
        return NOTHING
    found = ((_led_to(root, link), f"hook {os.path.basename(link)}") for link in links)  # noqa: PTH119
    return Configured({normal(path): hook for path, hook in found if path})


def _folders(root: str, changed: Iterable[str]) -> Iterator[str]:
    """Give the folders that are work trees: of those that changed paths lie in, and above."""
    folders = {""}
    for path in changed:
        parts = path.split("/")[:-1]
        if ".git" in parts:
            parts = parts[: parts.index(".git")]
        folders |= {"/".join(parts[:count]) for count in range(1, len(parts) + 1)}
    for name, value in _settings(f"{root}/.gitmodules"):
        if name.endswith(".path") and value:
            folders.add(value.strip("/"))
    for folder in sorted(folders):
        full = f"{root}/{folder}" if folder else root
        if os.path.lexists(f"{full}/.git"):
            yield full
    yield from above(root)


def _files(place: WorkTree) -> Iterator[str]:
    """Give the configuration files that git reads in a work tree."""
    _, own, common = place
    yield _SYSTEM
    home = Path("~").expanduser()
    yield str(home / ".gitconfig")
    yield str(Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "git" / "config")
    yield f"{common}/config"
    yield f"{own}/config.worktree"


def _tops(place: WorkTree) -> list[str]:
    """Return the folders from which git reads a work tree's paths: its own, or one that is set."""
    return list(dict.fromkeys((place[0], *work_trees_set(place))))


def work_trees_set(place: WorkTree) -> list[str]:
    """Return the work trees that settings name in place of a repository's own."""
    _, own, common = place
    files = (f"{common}/config", f"{own}/config.worktree")
    told = [value for file in files for name, value in _settings(file) if name.lower() == _TOP]
    return [_full(own, value) for value in told if value]


def _settings(file: str) -> list[Setting]:
    try:
        status = os.stat(file)  # noqa: PTH116
    except OSError:
        return []
    if not stat.S_ISREG(status.st_mode):
        return []
    stamp = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return _parsed(file, stamp)


@lru_cache(maxsize=512)
def _parsed(file: str, _stamp: tuple[int, ...]) -> list[Setting]:
    return settings(_text(file))


def _text(file: str) -> str:
    try:
        with own_files.opened(Path(file)) as opened:
            return opened.read(MOST_BYTES).decode("utf-8", "surrogateescape")
    except OSError:
        return ""
