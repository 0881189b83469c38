# SPDX-License-Identifier: Apache-2.0
"""Read on the host what git there is configured to obey in a workspace (see policy.configured).

Looks at the repositories that changed paths lie in, at the workspace's own and its submodules, and
at the user's and the system's settings. Reads files only: git itself is not run, and a file that
was read is read again when it has changed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from policy.gate2.git.config import Setting, settings
from policy.gate2.git.obeyed import NOTHING, Configured, includes, inside, obeyed
from policy.gate2.git.signing import wanted_signatures
from sandbox.host import files as own_files

MOST_BYTES = 1 << 20
"""Of a configuration file; a longer one is read so far."""
MOST_INCLUDES = 10
"""Files that include files that include files, as git allows."""
_SYSTEM = "/etc/gitconfig"


def configured(root: str, changed: Iterable[str], commands: tuple[str, ...]) -> Configured:
    """Return what git obeys in the workspace at `root`, whose paths `changed` are to be judged."""
    found = NOTHING
    for work_tree in _work_trees(root, changed):
        for file in _files(work_tree):
            found = found.joined(_of_file(root, work_tree, file, commands, MOST_INCLUDES))
    return found


def asked_to_sign(root: str, changed: Iterable[str]) -> frozenset[str]:
    """Return what a person's settings ask to be signed in a repository that changed paths lie in.

    `commit` and `tag`, if any of these repositories does.
    """
    found: frozenset[str] = frozenset()
    for work_tree in {root, *_work_trees(root, changed)}:
        known = [one for file in _files(work_tree) for one in _with_included(file, MOST_INCLUDES)]
        found |= wanted_signatures(known)
    return found


def _with_included(file: str, depth: int) -> Iterator[Setting]:
    """Give the settings of a file, and of those that it includes where it does so."""
    for name, value in _settings(file):
        yield name, value
        for path in includes([(name, value)]) if depth else ():
            folder = os.path.dirname(file)  # noqa: PTH120
            full = os.path.normpath(os.path.join(folder, Path(path).expanduser()))  # noqa: PTH118
            yield from _with_included(full, depth - 1)


def _of_file(
    root: str, work_tree: str, file: str, commands: tuple[str, ...], depth: int
) -> Configured:
    here = _settings(file)
    if not here:
        return NOTHING
    home = str(Path("~").expanduser())
    bases = {"work tree": work_tree, "file": os.path.dirname(file)}  # noqa: PTH120
    found = obeyed(here, commands, lambda base, path: inside(root, bases[base], path, home))
    for path in includes(here) if depth else ():
        full = os.path.normpath(os.path.join(bases["file"], Path(path).expanduser()))  # noqa: PTH118
        found = found.joined(_of_file(root, work_tree, full, commands, depth - 1))
    return found


def _work_trees(root: str, changed: Iterable[str]) -> Iterator[str]:
    """Give the folders, of those that changed paths lie in, that are work trees."""
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


def _files(work_tree: str) -> Iterator[str]:
    """Give the configuration files that git reads in a work tree."""
    yield _SYSTEM
    home = Path("~").expanduser()
    yield str(home / ".gitconfig")
    yield str(Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "git" / "config")
    own = f"{work_tree}/.git"
    told = _text(own)
    if told.startswith("gitdir:"):
        own = os.path.join(work_tree, told.removeprefix("gitdir:").strip())  # noqa: PTH118
    common = os.path.join(own, _text(f"{own}/commondir").strip())  # noqa: PTH118
    yield f"{common}/config"
    yield f"{own}/config.worktree"


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
