# SPDX-License-Identifier: Apache-2.0
"""Show a transaction as a unified diff, bounded in files, in bytes and in work.

    diff(walk: Walk, root: str) -> str

Runs in the keeper: standard library only, Python 3.9. Hidden paths are named, never shown. The text
may hold surrogates where content is not UTF-8; it is made safe where it is shown to a person.
"""

from __future__ import annotations

import difflib
import os
import stat

from . import fs
from .layer import Node, join
from .steps import Change, Walk

MAX_FILES = 100
"""Changes that are shown; the rest is counted."""
MAX_FILE = 64 * 1024
"""Bytes of one side of one file; larger ones are summarised in a line."""
MAX_TOTAL = 1024 * 1024
"""Characters of the whole text."""
MAX_LINES = 4000
"""Lines of one side of one file: comparing costs more than linear time."""


def diff(walk: Walk, root: str) -> str:
    """Return what a walk found as text. Call it before the walk lands."""
    nodes = {}
    waiting = [(put.path, put.node) for put in walk.puts]
    waiting += [(swap.path, swap.node) for swap in walk.swaps]
    while waiting:
        path, node = waiting.pop()
        nodes[path] = node
        waiting += [(join(path, name), held) for name, held in node.held.items()]
    below = fs.open_directory(root)
    try:
        return _text(walk.changes, nodes, below)
    finally:
        os.close(below)


def _text(changes: list[Change], nodes: dict[str, Node], below: int) -> str:
    pieces: list[str] = []
    total = shown = 0
    files = [change for change in changes if change["type"] != "directory"]
    for change in files:
        piece = _one(change, nodes.get(change["path"]), below)
        if shown >= MAX_FILES or total + len(piece) > MAX_TOTAL:
            break
        pieces.append(piece)
        total += len(piece)
        shown += 1
    if shown < len(files):
        pieces.append(f"... and {len(files) - shown} more changes\n")
    return "".join(pieces)


def _one(change: Change, node: Node | None, below: int) -> str:
    path: str = change["path"]
    kind: str = change["kind"]
    source: str = change.get("source", path)
    if change.get("hidden"):
        return f"{kind}: {path} (hidden)\n"
    if kind == "meta":
        return f"meta: {path} (mode {change['mode']:04o})\n"
    if kind == "renamed" and not change.get("modified"):
        return f"renamed: {source} -> {path}\n"
    old = None if kind == "created" else _below(below, source)
    new = None if kind == "deleted" else _above(node)
    if change["type"] != "file" or isinstance(old, str) or isinstance(new, str):
        what = f" -> {change['target']}" if "target" in change else ""
        return f"{kind}: {path} ({change['type']}{what}, {change.get('size', 0)} bytes)\n"
    before, after = _lines(old), _lines(new)
    if before is None or after is None:
        return f"{kind}: {path} (binary, {change.get('size', 0)} bytes)\n"
    names = (
        "/dev/null" if old is None else f"a/{source}",
        "/dev/null" if new is None else f"b/{path}",
    )
    lines = list(difflib.unified_diff(before, after, *names))
    if not lines:
        return f"{kind}: {path} (empty)\n"
    return "".join(
        line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines
    )


def _above(node: Node | None) -> bytes | str | None:
    """Return the content of a file of the layer; a text says why not."""
    if node is None or not stat.S_ISREG(node.status.st_mode):
        return "not a file"
    descriptor = os.open(node.real, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    return _content(descriptor)


def _below(root: int, path: str) -> bytes | str | None:
    status = fs.lstat(root, path)
    if status is None or not stat.S_ISREG(status.st_mode):
        return "not a file"
    return _content(fs.open_beneath(root, path, os.O_RDONLY | os.O_NONBLOCK))


def _content(descriptor: int) -> bytes | str:
    with open(descriptor, "rb") as file:
        content = file.read(MAX_FILE + 1)
    return content if len(content) <= MAX_FILE else "too large"


def _lines(content: bytes | str | None) -> list[str] | None:
    """Return lines with their ends; None for binary content."""
    if content is None:
        return []
    assert isinstance(content, bytes)
    if b"\0" in content:
        return None
    lines = content.decode("utf-8", "surrogateescape").split("\n")
    kept = [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    return kept if len(kept) <= MAX_LINES else None
