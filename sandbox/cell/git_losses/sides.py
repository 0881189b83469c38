# SPDX-License-Identifier: Apache-2.0
"""One repository before and after changes: its references, reflogs and objects. Reads only.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from ..git.config import settings
from ..git.files import Files, content, width_of, within
from ..git.index_format import Entry, parse
from ..git.objects import Store
from ..git.packs import Budget, Odd
from ..git.places import MOST_BYTES
from .reach import meant
from .refs import Line, Refs

EXPIRES_SECONDS = 30 * 86_400
"""After that git itself forgets a line of a reflog (gc.reflogExpireUnreachable)."""
HOLDS_SECONDS = 7 * 86_400
"""A line of a reflog that is older holds nothing that a reference leaves: it goes before long."""
STASH = "refs/stash"
_LOOSE = re.compile(r"objects/([0-9a-f]{2})/([0-9a-f]{38,62})")
_PACK = re.compile(r"objects/pack/([^/]*)\.(?:pack|idx)")
_WORK_TREE = re.compile(r"worktrees/[^/]+/")


class Side:
    """A repository at one time."""

    def __init__(self, files: Files, width: int, budget: Budget) -> None:
        self.files = files
        self.refs = Refs(files, width)
        self.objects = Store(within(files, "objects"), width, budget)


class Sides:
    """A repository before and after, and the paths in it that changed. Close it after use."""

    def __init__(self, old: Files, new: Files, now: float) -> None:
        self.width = width_of((old, new), "")
        budget = Budget()
        self.old = Side(old, self.width, budget)
        self.new = Side(new, self.width, budget)
        forgets = _forgets((old, new))
        self._forgets = now - EXPIRES_SECONDS if forgets is None else 0.0
        self._holds_nothing = forgets is True
        self._now = now

    def close(self) -> None:
        """Close what was opened."""
        self.old.objects.close()
        self.new.objects.close()

    def lasts(self, path: str, line: Line) -> bool:
        """Whether git itself would not forget a line of a reflog yet."""
        return not line.time or line.time > self._forgets or path.endswith(f"logs/{STASH}")

    def holds(self, path: str, line: Line, since: float) -> bool:
        """Whether git heeds a line of a reflog that is left, as one which is not older."""
        if path.endswith(f"logs/{STASH}"):
            return bool(line.time)
        return bool(line.time) and line.time > since and not self._holds_nothing

    @property
    def holds_since(self) -> float:
        """How old a line of a reflog may be that holds what a reference leaves."""
        return self._now - HOLDS_SECONDS

    def named(self, side: Side) -> set[bytes]:
        """Return the objects that anything of one side names. Raises Odd.

        What cannot be read leads nowhere afterwards; before, it is not known what it holds.
        """
        found: set[bytes] = set()
        for name in side.refs.names():
            with contextlib.suppress(*self._suppressed(side)):
                ref = side.refs.get(name)
                if ref is not None and ref.oid:
                    found.add(ref.oid)
        return found

    def logged(self, side: Side) -> set[bytes]:
        """Return the objects that lines of reflogs name which last. Raises Odd."""
        found: set[bytes] = set()
        for path in side.refs.logs():
            with contextlib.suppress(*self._suppressed(side)):
                found |= ids(line for line in side.refs.log(path) if self.lasts(path, line))
        return found

    def folders_named(self) -> Iterator[str]:
        """Give the references that name a folder, by themselves or through tags. Raises Odd."""
        objects = self.new.objects
        for name in self.new.refs.names():
            with contextlib.suppress(Odd):
                ref = self.new.refs.get(name)
                oid = ref.oid if ref is not None else b""
                if oid and objects.kind(meant(objects, oid)) == b"tree":
                    yield name

    def _suppressed(self, side: Side) -> tuple[type[Exception], ...]:
        return () if side is self.old else (Odd,)

    def kept(self) -> set[bytes]:
        """Return the objects that references name afterwards, as git heeds them. Raises Odd.

        What cannot be read leads nowhere.
        """
        found: set[bytes] = set()
        for name in self.new.refs.kept():
            with contextlib.suppress(Odd):
                ref = self.new.refs.get(name)
                if ref is not None and ref.oid:
                    found.add(ref.oid)
        return found

    def kept_by_logs(self, since: float) -> set[bytes]:
        """Return the objects that reflogs hold afterwards, by lines that are not older."""
        found: set[bytes] = set()
        for path in self.new.refs.kept_logs():
            with contextlib.suppress(Odd):
                found |= ids(
                    line for line in self.new.refs.log(path) if self.holds(path, line, since)
                )
        return found

    def lost_lines(self, path: str) -> list[Line]:
        """Return the lines of a reflog that go and would have lasted. Raises Odd."""
        old, new = self.old.refs.log(path), self.new.refs.log(path)
        left = Counter(line.said for line in new)
        lost = []
        for line in old:
            if left[line.said]:
                left[line.said] -= 1
            elif self.lasts(path, line):
                lost.append(line)
        return lost


def _forgets(sides: Iterable[Files]) -> bool | None:
    """Say whether settings let git forget lines of reflogs earlier than by itself; None: no word.

    Where they say anything, what stood before is not given up for its age.
    """
    spoken: bool | None = None
    for files in sides:
        try:
            found = list(settings(content(files, "config", 1 << 20) or b""))
        except ValueError:
            return True
        for key, value in found:
            if key.startswith(b"gc.") and b"reflogexpire" in key:
                spoken = bool(spoken) or not _LONG.fullmatch(value.lower())
    return spoken


_LONG = re.compile(
    rb"never|false|(?:[3-9]\d|\d{3,4})[. ]days?(?:[. ]ago)?"
    rb"|(?:[5-9]|\d{2,3})[. ]weeks?(?:[. ]ago)?|[1-9]\d?[. ](?:month|year)s?(?:[. ]ago)?"
)
"""Times that are no shorter than git's own."""


def ids(lines: Iterable[Line]) -> set[bytes]:
    """Return the objects that lines of a reflog name."""
    found = {oid for line in lines for oid in (line.old, line.new)}
    return {oid for oid in found if any(oid)}


def loose_id(path: str) -> bytes:
    """Return the object whose place a path in a repository is; nothing for others."""
    match = _LOOSE.fullmatch(path)
    return bytes.fromhex(match[1] + match[2]) if match and len(match[2]) % 2 == 0 else b""


def pack_of(path: str) -> str:
    """Return the place of the pack that a path in a repository belongs to, among its objects."""
    match = _PACK.fullmatch(path)
    return f"pack/{match[1]}" if match else ""


def tree_of(path: str) -> tuple[str, str]:
    """Return the folder of a linked work tree that a path lies in, as a prefix, and the rest."""
    found = _WORK_TREE.match(path)
    return (found[0], path[found.end() :]) if found else ("", path)


def staged(files: Files, path: str) -> list[Entry] | None:
    """Return the entries of an index; none where there is no file, None where it is odd."""
    if files.status(path) is None:
        return []
    index = parse(content(files, path, MOST_BYTES) or b"")
    return None if index is None else index.entries


def indexes(side: Side) -> Iterator[str]:
    """Give the paths of the indexes of a repository and its linked work trees."""
    yield from (folder + "index" for folder in ("", *side.refs.trees()))
