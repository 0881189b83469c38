# SPDX-License-Identifier: Apache-2.0
"""What comes to count by a change that names it: where a link leads, what git's settings name.

    leads = find_leads("/w", change, ("core.fsmonitor",))   ("tools/h",) for `.husky -> tools/h`
    state = read_state("/w", leads)                         another once anything there changes
    text = show_leads("/w", leads)                          what a person is shown of it

Such a change is held; what it names lies in the workspace already and is judged as ordinary until
the change lands. So a person's word on the change covers that too, as it was when it was shown.
Links in what is named are followed as far as the workspace reaches, and so are files that git's
settings include. A path that a setting leaves to a shell to make (`$(...)`) is not known. Blocking.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Set
from pathlib import Path

from policy.gate2.git.config import Setting, settings
from policy.gate2.git.named_by_git import includes, inside, obeyed
from policy.model import Change, FileType, Kind
from sandbox.host import files as own_files
from sandbox.workspaces.git_obeyed import find_places, join_path

MOST_OBJECTS = 50_000
"""Files and folders of which a state is read; what holds more is taken for changed."""
MOST_LEADS = 1_000
MOST_SETTINGS = 1 << 20
"""Bytes that are read of all files that may hold settings."""
UNBOUND = "\0"
"""Stands among leads for what is too much to be known; no path is called so."""
MOST_SHOWN, SHOWN_BYTES, MOST_LOOKS = 20, 64 * 1024, 5_000
_KEPT_APART = (".git", ".lockgate")
_GIT_SETTINGS = ("config", "config.worktree", ".gitconfig")


def find_leads(
    root: str, change: Change, commands: tuple[str, ...], own: Set[str] = frozenset()
) -> tuple[str, ...]:
    """Return the paths in the workspace at `root` that come to count by a change which is held.

    `commands` are patterns of git's settings that run programs. Paths are relative, `` is the
    workspace itself, and none leads out of it. `own` are those that the call itself changes: what
    a file among them includes is not known before it has landed.
    """
    if change.kind is Kind.DELETED:
        return ()
    if change.type is FileType.SYMLINK:
        target = os.path.join(root, os.path.dirname(change.path), change.target or "")  # noqa: PTH118, PTH120
        return find_places(root, target)
    found = _settings_of(change)
    if found is None:
        return ()
    leads: dict[str, None] = {}
    folder = os.path.dirname(os.path.join(root, change.path))  # noqa: PTH118, PTH120
    _note_settings(root, found, folder, _work_tree(root, change, folder), commands, leads)
    included = (find_places(root, join_path(folder, path)) for path in includes(found))
    if any(not own.isdisjoint(places) for places in included):
        leads[UNBOUND] = None
    return tuple(leads)


def _settings_of(change: Change) -> list[Setting] | None:
    name = change.path.rpartition("/")[2]
    if change.after_text is None or name not in _GIT_SETTINGS:
        return None
    return settings(change.after_text)


def _work_tree(root: str, change: Change, folder: str) -> str:
    before, found, _ = f"/{change.path}".rpartition("/.git/")
    return f"{root}{before}" if found else folder


def _note_settings(
    root: str,
    found: Sequence[Setting],
    folder: str,
    work_tree: str,
    commands: tuple[str, ...],
    leads: dict[str, None],
) -> None:
    """Note what settings name, and what the files that they name do, taken for settings.

    Where that is more than `MOST_LEADS` paths or `MOST_SETTINGS` bytes, the last is `UNBOUND`.
    """
    waiting, left = [(found, folder)], MOST_SETTINGS
    while waiting:
        told, above = waiting.pop()
        bases, new = {"work tree": work_tree, "file": above}, list[str]()

        def note(
            base: str, path: str, bases: dict[str, str] = bases, new: list[str] = new
        ) -> Iterator[str]:
            for lead in find_places(root, join_path(bases[base], path)):
                if lead not in leads:
                    leads[lead] = None
                    new.append(lead)
            return iter(())

        obeyed(told, commands, note)
        for lead in new:
            full = os.path.join(root, lead)  # noqa: PTH118
            text = _read(full, left + 1) or b""
            left -= len(text)
            if left < 0 or len(leads) > MOST_LEADS:
                leads[UNBOUND] = None
                return
            if text:
                own = settings(text.decode("utf-8", "surrogateescape"))
                waiting.append((own, os.path.dirname(full)))  # noqa: PTH120


def read_state(root: str, leads: Sequence[str]) -> str | None:
    """Return what tells the present content of some paths from any other; None without paths.

    It goes by inode, mode, size and ctime, which no program can set back. Where there is more than
    `MOST_OBJECTS`, or where it is not known what counts, each answer is another one.
    """
    if not leads:
        return None
    if UNBOUND in leads:
        return secrets.token_hex(16)
    digest, left = hashlib.sha256(), MOST_OBJECTS
    for path in _walk_all(root, leads):
        left -= 1
        if left < 0:
            return secrets.token_hex(16)
        real = os.path.realpath(path)
        digest.update(os.fsencode(path) + _status(path) + b"\0" + os.fsencode(real) + b"\0")
    return digest.hexdigest()


def show_leads(root: str, leads: Sequence[str], is_secret: Callable[[str], bool]) -> str:
    """Return the files that some paths lead to in the form of a diff, without a change in it.

    The first `MOST_SHOWN` of them, up to `SHOWN_BYTES` of each; of a secret its name alone, and
    nothing that lies outside of the workspace.
    """
    parts, count = [], 0
    for looks, path in enumerate(_walk_all(root, leads)):
        inner = inside(os.path.realpath(root), os.path.realpath(path))
        text = None if inner is None else _read(path, SHOWN_BYTES)
        count += text is not None
        if count > MOST_SHOWN or looks > MOST_LOOKS:
            parts.append("and more files count by this call\n")
            break
        if text is None or inner is None:
            continue
        name = os.path.relpath(path, root).encode("utf-8", "surrogateescape")
        shown = name.decode("utf-8", "backslashreplace").encode("unicode_escape").decode("ascii")
        if is_secret(inner) or is_secret(os.path.relpath(path, root)):
            text = b"[a secret]"
        lines = text.decode("utf-8", "backslashreplace").split("\n")
        cut = ["[cut]"] if len(text) == SHOWN_BYTES else []
        body = "\n".join(f" {line}" for line in lines + cut)
        parts.append(f"diff --git a/{shown} b/{shown}\ncounts by this call, as it is\n{body}\n")
    return "".join(parts)


def _walk_all(root: str, leads: Sequence[str]) -> Iterator[str]:
    """Give all paths that some lead to, and what links in them lead to within the workspace."""
    waiting, known = deque(one for one in leads if one != UNBOUND), set(leads)
    while waiting:
        lead = waiting.popleft()
        start = os.path.join(root, lead) if lead else root  # noqa: PTH118
        for path in _walk(start, top=not lead):
            yield path
            if os.path.islink(path):  # noqa: PTH114
                more = [place for place in find_places(root, path)[1:] if place not in known]
                known.update(more)
                waiting.extend(more)


def _read(path: str, size: int) -> bytes | None:
    """Return the beginning of a file; None where there is none."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return None
        with own_files.opened(Path(path)) as opened:
            return opened.read(size)
    except OSError:
        return None


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
