# SPDX-License-Identifier: Apache-2.0
"""Which files that went away live on in another one: moved and edited, or moved onto an older file.

    note_onward(walks: Sequence[Walk], roots: Sequence[str]) -> None
                                  sets `lives_on` and `lives_in` of deleted and
                                  replaced files
    note_own(walked: Walk, root: str, agent: str) -> None
                                  sets `own` of files that went away, or moved, and
                                  that an agent made from nothing

A walk pairs a file that went away with an equal new one. Here is looked for the rest: the same
content in place of another file's, and most of it in a file that the call left. Where nothing is
found, what a person had is gone, whatever the command called it.

Runs in the keeper: standard library only, Python 3.9. Changes nothing. Contents are compared where
sizes are equal, and of at most `MOST_ALIKE` files on each side where they are not.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence

from .. import fs
from . import marks
from .layer import Node
from .replaced import MOST_BYTES, is_kept
from .steps import Change, Walk

MOST_ALIKE = 48
"""Files that are compared with each other where none is the same."""
SHARE = 2
"""A file lives on in another one that has one in so many of its lines, or triples of words."""
MOST_LOOKED = 5_000
"""Files that went away and are looked for."""


def note_onward(walks: Sequence[Walk], roots: Sequence[str]) -> None:
    """Say of files that went away, or were replaced, whether a file of the layers holds them."""
    left = [node for walked in walks for node in _left(walked)]
    if not left:
        return
    by_size: dict[int, list[Node]] = {}
    for node in left:
        by_size.setdefault(node.status.st_size, []).append(node)
    uppers = [walked.upper for walked in walks]
    for own, (walked, root) in enumerate(zip(walks, roots)):
        for change, home in _found(walked.changes, root, left, by_size):
            change["lives_on"] = True
            if home is not None:
                at, path = _place(home, uppers)
                change["lives_in"] = path
                change["lives_apart"] = None if at == own else at


def _place(node: Node, uppers: Sequence[str]) -> tuple[int, str]:
    """Return the number of the workspace that a file is in, and its path there."""
    for at, upper in enumerate(uppers):
        if node.real.startswith(f"{upper}/"):
            return at, node.real[len(upper) + 1 :]
    raise ValueError("a file of a layer lies in none")


def _found(
    changes: Sequence[Change], root: str, left: list[Node], by_size: dict[int, list[Node]]
) -> Iterator[tuple[Change, Node | None]]:
    """Give the files that live on, and in which one; None for those that held nothing."""
    gone = [one for one in changes if one["kind"] == "deleted" and one["type"] == "file"]
    swapped = [one for one in changes if one.get("replaced") and one["kind"] == "modified"]
    if not gone and not swapped:
        return
    top = fs.open_directory(root)
    try:
        for position, change in enumerate([*gone, *swapped][:MOST_LOOKED]):
            few = len(left) <= MOST_ALIKE and position < MOST_ALIKE
            likely = left if few and change["kind"] == "deleted" else []
            lives_on, home = _home(top, change, by_size, likely)
            if lives_on:
                yield change, home
    finally:
        os.close(top)


def note_own(walked: Walk, root: str, agent: str) -> None:
    """Say of files that moved or went whether all that they held was ever the agent's own."""
    kinds = ("renamed", "deleted")
    moved = [one for one in walked.changes if one["kind"] in kinds and one["type"] == "file"]
    if not moved:
        return
    top = fs.open_directory(root)
    try:
        for change in moved[:MOST_LOOKED]:
            if marks.is_all_at(top, change.get("source") or change["path"], agent):
                change["own"] = True
    finally:
        os.close(top)


def _left(walked: Walk) -> list[Node]:
    """Return the files that a call left, new ones and those with another content."""
    nodes: list[Node] = []
    waiting = [put.node for put in walked.puts] + [swap.node for swap in walked.swaps]
    while waiting:
        node = waiting.pop()
        waiting += node.held.values()
        if stat.S_ISREG(node.status.st_mode):
            nodes.append(node)
    return nodes


def _home(
    top: int, change: Change, by_size: dict[int, list[Node]], likely: list[Node]
) -> tuple[bool, Node | None]:
    """Say whether a file that went lives on, and in which one."""
    try:
        descriptor = fs.open_beneath(top, change["path"], fs.READ)
    except OSError:
        return False, None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return False, None
        if not status.st_size:
            return True, None  # it held nothing
        for node in by_size.get(status.st_size, ()):
            if _equal(descriptor, node):
                return True, node
        before = os.pread(descriptor, MOST_BYTES, 0) if likely else b""
    finally:
        os.close(descriptor)
    for node in likely:
        if is_kept(before, _beginning(node), SHARE):
            return True, node
    return False, None


def _equal(descriptor: int, node: Node) -> bool:
    other = os.open(node.real, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return fs.same_content(descriptor, other)
    finally:
        os.close(other)


def _beginning(node: Node) -> bytes:
    with open(node.real, "rb") as file:
        return file.read(MOST_BYTES)
