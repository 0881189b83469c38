# SPDX-License-Identifier: Apache-2.0
"""Which files of somebody else's a call emptied, cut off, or gave wholly another content.

    note_replaced(walked: Walk, root: str, agent: str) -> None    sets `replaced` of changes

How that is told: an emptied file holds nothing any more. Of any other, little of what it held is
there still: neither one in ten of its lines, nor one in ten of its triples of words in a row. So a
formatter (which breaks and indents lines anew, and changes quotes and commas), a `sed -i`, and a
sorting of imports leave a file what it was; a text of another origin, a cut to a fraction, noise or
a cipher do not. Of long files the beginning is compared.

Runs in the keeper: standard library only, Python 3.9. Changes nothing. The cost is linear.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Hashable

from .. import fs
from . import marks
from .layer import Node
from .steps import Walk

MOST_BYTES = 32 * 1024
"""Of each side of a file that are compared."""
KEPT = 10
"""A file is replaced where less than one in so many of its lines and of its triples is kept."""
SHORT = 8
"""Triples of words below which a text is too short to tell."""
_WORD = re.compile(r"\w+")
PIECE, PIECES = 16, 8
"""Bytes of a piece of what holds no words, and how many pieces of it are looked for."""


def note_replaced(walked: Walk, root: str, agent: str) -> None:
    """Say of changed files what became of their content: `emptied` or `replaced`."""
    swaps = [swap for swap in walked.swaps if stat.S_ISREG(swap.node.status.st_mode)]
    if not swaps:
        return
    changes = {one["path"]: one for one in walked.changes if one["kind"] != "deleted"}
    top = fs.open_directory(root)
    try:
        for swap in swaps:
            change = changes.get(swap.path)
            if change is not None and (found := _became(top, change, swap.node, agent)):
                change["replaced"] = found
    finally:
        os.close(top)


def _became(top: int, change: dict[str, object], node: Node, agent: str) -> str:
    """Return what became of one file; nothing for an agent's own, and where enough is kept.

    Its own is what it made from nothing: to edit a file first makes it nobody's to empty.
    """
    path = str(change.get("source", change["path"]))
    try:
        descriptor = fs.open_beneath(top, path, fs.READ)
    except OSError:
        return ""
    try:
        status = os.fstat(descriptor)
        own = marks.is_all(descriptor, agent)
        if not stat.S_ISREG(status.st_mode) or not status.st_size or own:
            return ""
        if not node.status.st_size:
            return "emptied"
        before = os.pread(descriptor, MOST_BYTES, 0)
    finally:
        os.close(descriptor)
    with open(node.real, "rb") as file:
        after = file.read(MOST_BYTES)
    if node.status.st_size * KEPT < status.st_size:
        return "replaced"  # cut to a fraction
    return "" if is_kept(before, after) else "replaced"


def is_kept(before: bytes, after: bytes, share: int = KEPT) -> bool:
    """Whether enough of a content is left in another one: one in `share` of its parts."""
    lines, left = _lines(before), _lines(after)
    if lines and len(lines & left) * share >= len(lines):
        return True
    words, others = _words(before), _words(after)
    triples = _triples(words)
    if len(triples) >= SHORT:
        return len(triples & _triples(others)) * share >= len(triples)
    if words:  # few of them: any will do
        both = len(set(words) & set(others))
        return both > 0 and both * share >= len(set(words))
    step = max(1, (len(before) - PIECE) // PIECES)
    pieces = {before[at : at + PIECE] for at in range(0, max(1, len(before) - PIECE + 1), step)}
    there = sum(piece in after for piece in pieces)
    return there > 0 and there * share >= len(pieces)


def _lines(content: bytes) -> set[bytes]:
    """Return what stands in lines; what is short says little."""
    return {line for part in content.split(b"\n") if len(line := part.strip()) > 3}


def _words(content: bytes) -> list[str]:
    return _WORD.findall(content.decode("utf-8", "replace").casefold())


def _triples(words: list[str]) -> set[Hashable]:
    return set(zip(words, words[1:], words[2:]))
