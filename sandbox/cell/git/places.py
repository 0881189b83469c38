# SPDX-License-Identifier: Apache-2.0
"""Where git's indexes lie in a workspace, and which of them a run of operations left there.

Runs in the keeper: standard library only, Python 3.9. Changes nothing.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from .. import fs
from ..journal.apply import matches
from ..journal.format import META, PUT, SWAP, TAKE, Amendment, Identity, Op
from .files import OnDisk, is_repository
from .index_format import Index, meaning, parse

MOST_BYTES = 256 << 20
"""A larger index is left alone."""


def is_index(path: str) -> bool:
    """Whether a path of a workspace is the index of a repository, or of one of its work trees."""
    full = "/" + path
    return full.endswith("/.git/index") or (
        full.endswith("/index") and full.split("/")[-4:-2] == [".git", "worktrees"]
    )


def may_be_index(path: str) -> bool:
    """Whether a path could be the index of a repository of whatever name."""
    return path.rpartition("/")[2] == "index"


def _is_one(root: int, path: str) -> bool:
    """Whether a file named `index` lies in a git folder."""
    return is_index(path) or is_repository(OnDisk(root), path.rpartition("/")[0])


def work_tree(path: str) -> str | None:
    """Return the folder that an index is of, as a prefix; None where that is not known."""
    return path[: -len(".git/index")] if ("/" + path).endswith("/.git/index") else None


def read(root: int, path: str) -> Index | None:
    """Read an index; None where there is none that we understand."""
    return parse(content_of(root, path))


def content_of(root: int, path: str) -> bytes:
    """Return an index's bytes; none where it cannot be read."""
    try:
        descriptor = fs.open_beneath(root, path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return b""
    return _bytes(descriptor)


def _bytes(descriptor: int) -> bytes:
    """Return what an open file holds, and close it."""
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
            return b""
        return file.read()


def look(root: int, path: str) -> tuple[os.stat_result, Index] | None:
    """Read an index and its status; None where it cannot be understood."""
    try:
        descriptor = fs.open_beneath(root, path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    status = os.fstat(descriptor)
    index = parse(_bytes(descriptor))
    return None if index is None else (status, index)


# Indexes that a run of operations leaves in the workspace


class Place(NamedTuple):
    """An index that a run touched: by which operation, and its name in a whole directory's list."""

    position: int
    path: str
    name: str | None

    def expected(self, ops: Sequence[Op], now: Sequence[Identity | None]) -> Identity | None:
        """Return what the run is recorded to have left there."""
        if self.name is None:
            return now[self.position]
        return (ops[self.position].inner or {}).get(self.name)

    def amendment(self, op: Op, identity: Identity, *, back: bool) -> Amendment:
        """Return what to record when the object of an operation became another."""
        if self.name is not None:
            return [self.position, "inner", self.name, identity]
        old = op.action == META or (op.action == SWAP and back)
        return [self.position, "old" if old else "identity", None, identity]


class Found(NamedTuple):
    """An index that lies as a run left it."""

    place: Place
    status: os.stat_result
    held: Index


def places(ops: Sequence[Op], *, back: bool) -> Iterator[Place]:
    """Give the indexes that lie in the workspace after a run in the given direction."""
    arriving = (SWAP, META, TAKE if back else PUT)
    for position, op in enumerate(ops):
        if op.action not in arriving or op.other is not None:
            continue
        if may_be_index(op.path):
            yield Place(position, op.path, None)
        for name in op.inner or ():
            if may_be_index(name):
                yield Place(position, f"{op.path}/{name}", name)


def found(
    root: int, ops: Sequence[Op], now: Sequence[Identity | None], *, back: bool
) -> list[Found]:
    """Read the indexes that a run left, where they lie as it left them."""
    out = []
    for place in places(ops, back=back):
        expected = place.expected(ops, now)
        seen = look(root, place.path) if _is_one(root, place.path) else None
        if seen and expected is not None and matches(fs.identity(seen[0]), expected):
            out.append(Found(place, *seen))
    return out


def meanings(indexes: Iterable[Found]) -> dict[str, str]:
    """Return the meaning of each index, by its path."""
    return {index.place.path: meaning(index.held) for index in indexes}
