# SPDX-License-Identifier: Apache-2.0
"""Look at files of the project that a call runs or deletes, for gate 1
(`policy.shell.held_scripts`).

What is handed in says what stood there before the call; the cell and gate 2 hold what it does.
Reads below the call's workspaces alone, follows no link out of them, and no more than a few files.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

from policy.model import ActionPlan
from policy.shell.held_scripts import MOST_TEXT
from policy.shell.state import Seen
from sandbox.host import files as own_files
from sandbox.results import CallResult
from sandbox.workspaces.gitignore import Ignored
from sandbox.workspaces.ignore_ledger import Ledger

MOST_FILES = 32
"""Of one call."""
MOST_RECORDED = 200
"""Files that a call made and that are in the record."""
MOST_RECORDS = 20_000
"""Records that are looked through for them."""
MOST_MADE = 20_000
"""Files that agents made and that are remembered; the oldest are forgotten first."""
_MOST_INDEX = 64 << 20
_TOOLS = "/node_modules/.bin/"
_MADE = ("created", "modified", "renamed")

Identity = tuple[int, int, int, int]
"""Device, inode, size and time of the last change: another content has another one."""


class ProjectFiles:
    """What a supervisor knows of files: which are there, and which of them agents made."""

    def __init__(
        self,
        recall: Callable[[], Iterable[Mapping[str, Any]]] | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        """Know of no landing yet, but for those that `recall` reads from the record, newest first,
        when files are looked at for the first time. `ledger` tells whose ignore rules are a
        person's; without it nothing counts as ignored."""
        self._ledger = ledger
        self._turn = Lock()
        self._made: OrderedDict[str, tuple[str, Identity]] = OrderedDict()
        self._recall = self._record = recall

    def renew(self) -> None:
        """Take in what `recall` gives by then as well, when files are looked at next."""
        self._recall = self._record

    def note(self, plan: ActionPlan, result: CallResult) -> dict[str, Identity]:
        """Remember what a landing of an agent made, or changed of what it had made before.

        A file that moved is whose it was before. Where a call took away what was not its agent's,
        that may be what it put under other names, changed a little: none of it counts as new.
        Returns what is the agent's for the record, from which the next supervisor has it.
        """
        made: dict[str, Identity] = {}
        if not result.landed:
            return made
        self._remember()
        root, own = plan.workspace, {}
        for change in result.changes:
            gone = change.source if change.source is not None else change.path
            before = self._made.pop(f"{root}/{gone}", None)
            own[gone] = before is not None and before[0] == plan.agent
        took = any(view.kind == "deleted" and not own[view.path] for view in result.changes)
        for change in result.changes:
            if change.kind not in _MADE:
                continue
            path = f"{root}/{change.path}"
            if change.kind == "created":
                mine = not took
            else:
                mine = own[change.path if change.source is None else change.source]
            now = _identity(path) if mine else None
            if now is not None:
                self._made[path] = (plan.agent, now)
                made[path] = now
                while len(self._made) > MOST_MADE:
                    self._made.popitem(last=False)
        return dict(islice(made.items(), MOST_RECORDED))

    def adopt(self, agent: str, made: Mapping[str, Identity]) -> None:
        """Remember files that an agent's own tools made on the host."""
        self._remember()
        for path, identity in made.items():
            self._made[path] = (agent, identity)
            self._made.move_to_end(path)
            while len(self._made) > MOST_MADE:
                self._made.popitem(last=False)

    def _remember(self) -> None:
        """Take in what other supervisors noted, once. What is not of this form is left out; a
        file that is another one by now has another identity."""
        with self._turn:
            recall, self._recall = self._recall, None
            if recall is None:
                return
            found: dict[str, tuple[str, Identity]] = {}
            for record in islice(recall(), MOST_RECORDS):
                made = record.get("made")
                if not isinstance(made, Mapping) or not isinstance(made.get("files"), Mapping):
                    continue
                for path, identity in made["files"].items():
                    if isinstance(identity, list) and len(identity) == 4:
                        found.setdefault(path, (str(made.get("agent")), tuple(identity)))
                if len(found) >= MOST_MADE:
                    break
            for path in reversed(found):  # the newest is forgotten last
                self._made[path] = found[path]
                self._made.move_to_end(path)
            while len(self._made) > MOST_MADE:
                self._made.popitem(last=False)

    def look(
        self, plan: ActionPlan, paths: Iterable[str], *, ignored_may_go: bool = False
    ) -> dict[str, Seen]:
        """Return what is known of files and folders that are there, and which are not.

        Only where what git ignores may go is it found out what that is."""
        self._remember()
        roots = [os.path.realpath(one) for one in (plan.workspace, *plan.also)]
        found: dict[str, Seen] = {}
        for path, _ in zip(paths, range(MOST_FILES), strict=False):
            for real in _candidates(path, roots):
                seen = self._seen(plan, path, real, roots)
                if seen is not None:
                    found[path] = seen
                    break
            else:
                if _absent(path, roots):
                    found[path] = Seen(absent=True)
        if ignored_may_go:
            for path in self._ignored(found, roots):
                found[path] = replace(found[path], spare=True)
        return found

    def _ignored(self, seen: Mapping[str, Seen], roots: list[str]) -> Iterator[str]:
        """Yield the files among some that git ignores in each workspace that they are in."""
        files = [path for path, one in seen.items() if not (one.folder or one.absent)]
        files = [path for path in files if path == os.path.realpath(path)]
        if self._ledger is None or not files:
            return
        with ExitStack() as stack:
            rules = {
                root: stack.enter_context(Ignored(Path(root), self._ledger))
                for root in dict.fromkeys(roots)
            }
            for path in files:
                around = [root for root in rules if _below(path, root)]
                if around and all(path[len(root) + 1 :] in rules[root] for root in around):
                    yield path

    def _seen(self, plan: ActionPlan, path: str, real: str, roots: list[str]) -> Seen | None:
        try:
            file = own_files.opened(Path(real))
        except OSError:
            if not _is_folder(real):
                return None
            return Seen(folder=True, empty=path == real and _is_empty(real))
        with file:
            kind = os.fstat(file.fileno())
            made = self._made.get(path)
            known = made is not None and made[1] == _of(kind)
            own = known and made is not None and made[0] == plan.agent
            data = file.read(MOST_TEXT + 1)
        text = _text(data) if len(data) <= MOST_TEXT else None
        root = next(one for one in roots if _below(real, one))
        return Seen(text, foreign=not known and not _tracked(real, root), own=own)


def _candidates(path: str, roots: list[str]) -> Iterator[str]:
    """Yield where a file may be, inside the workspaces: as it is named, or, of an installed tool,
    in the folders above."""
    places = [path]
    if _TOOLS in path:
        folder, _, name = path.partition(_TOOLS)
        places = [f"{one}{_TOOLS}{name}" for one in (folder, *map(str, Path(folder).parents))]
    for place in places[:16]:
        real = os.path.realpath(place)
        if any(_below(real, root) for root in roots):
            yield real


def _absent(path: str, roots: list[str]) -> bool:
    """Return whether nothing stands at a path of the workspaces, not even a link."""
    real = os.path.realpath(path)
    return any(_below(real, root) and Path(root).is_dir() for root in roots) and not (
        os.path.lexists(path)
    )


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)  # noqa: PTH116
    except OSError:  # also a name that is too long, which nothing has
        return False


def _is_empty(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is None
    except OSError:
        return False


def _below(path: str, root: str) -> bool:
    return path.startswith(root.rstrip("/") + "/")


def _identity(path: str) -> Identity | None:
    """Return what tells a file from any other; None for none, and for one with further names."""
    try:
        kind = os.lstat(path)
    except OSError:
        return None
    return None if stat.S_ISREG(kind.st_mode) and kind.st_nlink > 1 else _of(kind)


def identity_of_content(path: str) -> tuple[Identity, str] | None:
    """Return what tells a file from any other, and the SHA-256 of what it holds; None for what is
    no regular file of one name, and for one that is written meanwhile."""
    try:
        with own_files.opened(Path(path)) as file:
            before = os.fstat(file.fileno())
            digest = hashlib.sha256(file.read()).hexdigest()
            after = os.fstat(file.fileno())
    except OSError:
        return None
    there = _identity(path)
    return None if not _of(before) == _of(after) == there else (_of(after), digest)


def _of(kind: os.stat_result) -> Identity:
    return kind.st_dev, kind.st_ino, kind.st_size, kind.st_mtime_ns


def _text(data: bytes) -> str | None:
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _tracked(path: str, root: str) -> bool:
    """Return whether the index of the repository around a file names it.

    The index is only looked through for the name: what it gains is a question less, and cell and
    gate 2 hold what the file does.
    """
    folder = os.path.dirname(path)  # noqa: PTH120
    while _below(folder + "/", root):
        index = f"{folder}/.git/index"
        if os.path.isfile(index):  # noqa: PTH113
            name = os.fsencode(path[len(folder) + 1 :]) + b"\0"
            try:
                with open(index, "rb") as file:  # noqa: PTH123
                    return name in file.read(_MOST_INDEX)
            except OSError:
                return False
        folder = os.path.dirname(folder)  # noqa: PTH120
    return False
