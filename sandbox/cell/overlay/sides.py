# SPDX-License-Identifier: Apache-2.0
"""Changed paths with what stood and what will stand there: for diffs and for digests.

Runs in the keeper: standard library only, Python 3.9. Nothing is read until it is asked for, so
that the cost follows what is looked at. Changes nothing, follows no link.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable
from typing import NamedTuple

from .. import fs
from .layer import Node, join
from .steps import Change, Walk

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


class Side(NamedTuple):
    """An object before or after a change: below an open directory, or in a layer."""

    status: os.stat_result
    directory: int | None
    """An open directory; None for an absolute path in a layer."""
    path: str

    @property
    def mode(self) -> int:
        """Type and permission bits."""
        return self.status.st_mode

    def descriptor(self) -> int:
        """Open a file for reading; the caller closes it."""
        if self.directory is None:
            return os.open(self.path, _READ)
        return fs.open_beneath(self.directory, self.path, _READ)

    def target(self) -> str:
        """Return what a link points to."""
        if self.directory is None:
            return os.readlink(self.path)
        return fs.readlink(self.directory, self.path)


Look = Callable[[], "Side | None"]
"""Looks at one side when it is wanted; None where nothing is or was."""


class Piece(NamedTuple):
    """One change and its two sides."""

    change: Change
    old: Look
    new: Look


def nothing() -> Side | None:
    """Look at a side where nothing is."""
    return None


def below(directory: int, path: str) -> Look:
    """Return how to look at a path below an open directory."""

    def look() -> Side | None:
        status = fs.lstat(directory, "" if path == "." else path)
        return None if status is None else Side(status, directory, "" if path == "." else path)

    return look


def of_walk(walk: Walk, root: int) -> list[Piece]:
    """Return what a walk found; `root` is the open workspace, before the landing."""
    nodes = _nodes(walk)

    def above(change: Change) -> Look:
        node = nodes.get(change["path"])
        if node is not None:
            return lambda: Side(node.status, None, node.real)
        return below(root, _before(change))  # its content stays as it is

    return [
        Piece(
            change,
            nothing if change["kind"] == "created" else below(root, _before(change)),
            nothing if change["kind"] == "deleted" else above(change),
        )
        for change in walk.changes
    ]


def _before(change: Change) -> str:
    source = change.get("source", change["path"])
    assert isinstance(source, str)
    return source


def _nodes(walk: Walk) -> dict[str, Node]:
    """Return the objects of the layer that a landing places, by their path in the workspace."""
    found: dict[str, Node] = {}
    waiting = [(put.path, put.node) for put in walk.puts]
    waiting += [(swap.path, swap.node) for swap in walk.swaps]
    while waiting:
        path, node = waiting.pop()
        if node.source is None or not node.is_directory:
            found[path] = node
        waiting += [(join(path, name), held) for name, held in node.held.items()]
    return {path: node for path, node in found.items() if not node.is_whiteout}


def digests(pieces: Iterable[Piece], wanted: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of what stands at each wanted path after its change (a link: its target).

    Paths where nothing, or a directory, stands afterwards are left out.
    """
    names = frozenset(wanted)
    found: dict[str, str] = {}
    for piece in pieces:
        path = piece.change["path"]
        if path not in names:
            continue
        side = piece.new()
        digest = None if side is None else sha256(side)
        if digest is not None:
            found[path] = digest
    return found


def sha256(side: Side) -> str | None:
    """Return the SHA-256 of a file's content or a link's target, None for anything else."""
    if stat.S_ISLNK(side.mode):
        return hashlib.sha256(os.fsencode(side.target())).hexdigest()
    if not stat.S_ISREG(side.mode):
        return None
    digest = hashlib.sha256()
    with open(side.descriptor(), "rb", buffering=0) as file:
        while True:
            chunk = file.read(fs.CHUNK)
            if not chunk:
                return digest.hexdigest()
            digest.update(chunk)
