# SPDX-License-Identifier: Apache-2.0
"""What comes to count by a change that names it: where a link leads, what git's settings name.

    leads = find_leads("/w", change, ("core.fsmonitor",))   ("tools/h",) for `.husky -> tools/h`
    state = read_state("/w", leads)                         another once anything there changes

Such a change is held; what it names lies in the workspace already and is judged as ordinary until
the change lands. So a person's word on the change covers that too, as it was when it was shown.
Reads names and statuses only, follows no link below what is named; blocking.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator, Sequence

from policy.gate2.git.config import settings
from policy.gate2.git.obeyed import inside, obeyed
from policy.model import Change, FileType, Kind

MOST_OBJECTS = 50_000
"""Files and folders of which a state is read; what holds more is taken for changed."""
_KEPT_APART = (".git", ".lockgate")
_GIT_SETTINGS = ("config", "config.worktree", ".gitconfig")


def find_leads(root: str, change: Change, commands: tuple[str, ...]) -> tuple[str, ...]:
    """Return the paths in the workspace at `root` that come to count by a change which is held.

    `commands` are patterns of git's settings that run programs. Paths are relative, `` is the
    workspace itself, and none leads out of it.
    """
    if change.kind is Kind.DELETED:
        return ()
    if change.type is FileType.SYMLINK:
        target = os.path.join(root, os.path.dirname(change.path), change.target or "")  # noqa: PTH118, PTH120
        return _both(root, target)
    name = change.path.rpartition("/")[2]
    if change.after_text is None or name not in _GIT_SETTINGS:
        return ()
    leads: dict[str, None] = {}
    file_folder = os.path.dirname(os.path.join(root, change.path))  # noqa: PTH118, PTH120
    before, found, _ = f"/{change.path}".rpartition("/.git/")
    bases = {"work tree": f"{root}{before}" if found else file_folder, "file": file_folder}

    def note(base: str, path: str) -> Iterator[str]:
        expanded = os.path.expanduser(path.partition("\0")[0].removeprefix("%(prefix)/"))  # noqa: PTH111
        leads.update(dict.fromkeys(_both(root, os.path.join(bases[base], expanded))))  # noqa: PTH118
        return iter(())

    obeyed(settings(change.after_text), commands, note)
    return tuple(leads)


def read_state(root: str, leads: Sequence[str]) -> str | None:
    """Return what tells the present content of some paths from any other; None without paths.

    It goes by inode, mode, size and ctime, which no program can set back.
    """
    if not leads:
        return None
    digest, left = hashlib.sha256(), MOST_OBJECTS
    for lead in leads:
        start = os.path.join(root, lead) if lead else root  # noqa: PTH118
        for path in _walk(start, top=not lead):
            left -= 1
            if left < 0:
                return secrets.token_hex(16)
            digest.update(os.fsencode(path) + _status(path) + b"\0")
        digest.update(os.fsencode(os.path.realpath(start)) + b"\0\0")
    return digest.hexdigest()


def _both(root: str, full: str) -> tuple[str, ...]:
    """Return a path as it reads and as it leads, as far as that is in the workspace."""
    real = inside(os.path.realpath(root), os.path.realpath(full))
    return tuple(dict.fromkeys(one for one in (inside(root, full), real) if one is not None))


def _walk(start: str, *, top: bool) -> Iterator[str]:
    """Give a path and all below it, in one order; of the `top` without git's and Lockgate's own."""
    yield start
    waiting = [] if os.path.islink(start) else [start]  # noqa: PTH114
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda one: one.name)
        except OSError:  # no folder, or not there
            continue
        for entry in found:
            if top and folder == start and entry.name in _KEPT_APART:
                continue
            yield entry.path
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)


def _status(path: str) -> bytes:
    try:
        status = os.lstat(path)
    except OSError:
        return b"-"
    return b" %d %d %d %d" % (status.st_ino, status.st_mode, status.st_size, status.st_ctime_ns)
