# SPDX-License-Identifier: Apache-2.0
"""Are the trees that an index remembers those of what it lists?

Git writes a remembered tree into the next commit without looking at the entries below it
(cache-tree.c), and `git diff --cached` passes over it: one that is not theirs would put something
into a person's commit that nothing shows before.

Format: git's Documentation/gitformat-index.txt, "Cache tree".

Runs in the keeper: standard library only, Python 3.9. Pure.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from ..git.index_format import HASHES, Entry, Index

_TREE = 0o040000


class _Node(NamedTuple):
    name: bytes
    covers: int
    """Entries below it; negative where nothing is remembered."""
    oid: bytes
    below: list[_Node]


class _Cut(Exception):
    """The extension cannot be read."""


def remembers_other_trees(index: Index) -> bool:
    """Whether a tree that an index remembers is none of its own, or cannot be read."""
    held = dict(index.extensions).get(b"TREE")
    if held is None:
        return False
    try:
        top, end = _node(held, 0, index.width)
        paths = [entry.path for entry in index.entries]
        _Trees(index, paths).oid(top, b"", 0, len(paths))
    except (_Cut, ValueError, IndexError, RecursionError):
        return True
    return end != len(held)


def _node(held: bytes, at: int, width: int) -> tuple[_Node, int]:
    stop = held.index(b"\0", at)
    line = held.index(b"\n", stop)
    count, _, below = held[stop + 1 : line].partition(b" ")
    name, number, start = held[at:stop], int(count), line + 1
    oid = b""
    if number >= 0:
        oid, start = held[start : start + width], start + width
    nodes = []
    for _ in range(int(below)):
        node, start = _node(held, start, width)
        nodes.append(node)
    return _Node(name, number, oid, nodes), start


class _Trees:
    def __init__(self, index: Index, paths: list[bytes]) -> None:
        self._entries = index.entries
        self._paths = paths
        self._hash = HASHES[index.width]

    def oid(self, node: _Node, prefix: bytes, start: int, end: int) -> bytes | None:
        """Return the tree that a node remembers, found to be its own. Raises _Cut."""
        below = {}
        for one in node.below:
            if one.name in below:
                raise _Cut  # each is looked at once
            head = prefix + one.name + b"/"
            first = bisect_left(self._paths, head, start, end)
            last = bisect_left(self._paths, head[:-1] + b"0", first, end)  # what follows `/`
            below[one.name] = (self.oid(one, head, first, last), last)
        if node.covers < 0:
            return None
        if node.covers != end - start:
            raise _Cut
        sole = self._entries[start] if end - start == 1 else None
        if sole is not None and sole.mode == _TREE and sole.path == prefix:
            if below or sole.oid != node.oid:  # a whole folder of a sparse index is its own entry
                raise _Cut
            return node.oid
        content = b"".join(self._listed(below, prefix, start, end))
        if self._hash(b"tree %d\0" % len(content) + content).digest() != node.oid:
            raise _Cut
        return node.oid

    def _listed(
        self, below: dict[bytes, tuple[bytes | None, int]], prefix: bytes, start: int, end: int
    ) -> list[bytes]:
        out = []
        at = start
        while at < end:
            entry = self._entries[at]
            name, deeper, rest = entry.path[len(prefix) :].partition(b"/")
            if entry.stage:
                raise _Cut
            if not deeper or (not rest and entry.mode == _TREE):
                out.append(_line(entry.mode, name, entry))
                at += 1
                continue
            oid, at = below.get(name, (None, 0))
            if oid is None:
                raise _Cut
            out.append(b"40000 %s\0" % name + oid)
        return out


def _line(mode: int, name: bytes, entry: Entry) -> bytes:
    return b"%o %s\0" % (mode, name) + entry.oid
