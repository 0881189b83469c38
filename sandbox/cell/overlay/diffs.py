# SPDX-License-Identifier: Apache-2.0
"""Show changes as a unified diff as git writes it, bounded in files, in bytes and in work.

    diff(walk: Walk, root: str, hides=..., counts=...) -> str
    text(pieces: Sequence[Piece], hides=..., counts=...) -> str

What counts (the host obeys it, or a rule protects it) comes first, and is shown with its content
also where it only moves; where that cannot be shown, its SHA-256 is.

Runs in the keeper: standard library only, Python 3.9. Hidden and secret paths are named, never
shown. The text may hold surrogates where content is not UTF-8; it is made safe where it is shown.
A name cannot end a line: names with unusual characters are quoted as git quotes them.
"""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Callable, Sequence

from .. import fs
from . import sides as pieces
from .sides import Piece, Side
from .steps import Change, Walk

MAX_FILES = 100
"""Changes that are shown; the rest is counted."""
MAX_FILE = 64 * 1024
"""Bytes of one side of one file; larger ones are summarised in a line."""
MAX_TOTAL = 1024 * 1024
"""Characters of the whole text."""
MAX_LINES = 4000
"""Lines of one side of one file: comparing costs more than linear time."""
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}

Hides = Callable[[str], bool]
"""Whether the content of a path is a secret; whether the path counts."""


def _none(_: str) -> bool:
    return False


def diff(walk: Walk, root: str, hides: Hides = _none, counts: Hides = _none) -> str:
    """Return what a walk found as text. Call it before the walk lands."""
    below = fs.open_directory(root)
    try:
        return text(pieces.of_walk(walk, below), hides, counts)
    finally:
        os.close(below)


def text(changed: Sequence[Piece], hides: Hides = _none, counts: Hides = _none) -> str:
    """Return changes as text; what their sides stand on must still be open."""
    parts: list[str] = []
    total = shown = 0
    files = [piece for piece in changed if piece.change["type"] != "directory"]
    first = [piece for piece in files if counts(piece.change["path"])]
    ids = {id(piece) for piece in first}
    files = first + [piece for piece in files if id(piece) not in ids]
    for piece in files:
        part = _one(piece, hides, counting=shown < len(first))
        if shown >= MAX_FILES or total + len(part) > MAX_TOTAL:
            break
        parts.append(part)
        total += len(part)
        shown += 1
    if shown < len(files):
        left = len(first) - shown
        which = f", {left} of them of what the host obeys or a rule protects" if left > 0 else ""
        parts.append(f"... and {len(files) - shown} more changes{which}\n")
    return "".join(parts)


def _one(piece: Piece, hides: Hides, *, counting: bool) -> str:
    change = piece.change
    path: str = change["path"]
    source: str = change.get("source", path)
    old, new = piece.old(), piece.new()
    names = _quoted(f"a/{source}"), _quoted(f"b/{path}")
    head = [f"diff --git {names[0]} {names[1]}", *_modes(change, old, new)]
    if change["kind"] == "renamed":
        if not change.get("modified"):
            head.append("similarity index 100%")
        head += [f"rename from {_quoted(source)}", f"rename to {_quoted(path)}"]
    carried = change["kind"] == "renamed" and not change.get("modified")
    if change["kind"] == "meta" or (carried and not counting):
        return "".join(line + "\n" for line in head)
    if carried:
        old = None  # whole, since what it says counts from now on
    names = "/dev/null" if old is None else names[0], "/dev/null" if new is None else names[1]
    if change.get("hidden") or hides(path) or hides(source):
        body = [_differ("Secret files", names, old, new)]
    else:
        body = _body(names, old, new)
    if counting and new is not None and not any(line.startswith("@@") for line in body):
        digest = pieces.sha256(new)
        body += [f"SHA-256 of {names[1]}: {digest}"] if digest else []
    return "".join(line + "\n" for line in (*head, *body))


def _modes(change: Change, old: Side | None, new: Side | None) -> list[str]:
    """Return the lines on modes; of an object that stays, the new one stands in the change."""
    if old is None:
        return [] if new is None else [f"new file mode {_mode(new.mode)}"]
    before = _mode(old.mode)
    if new is None:
        return [f"deleted file mode {before}"]
    after = _mode(stat.S_IFMT(new.mode) | change["mode"])
    return [] if before == after else [f"old mode {before}", f"new mode {after}"]


def _mode(mode: int) -> str:
    return "120000" if stat.S_ISLNK(mode) else f"{mode:06o}"


def _body(names: tuple[str, str], old: Side | None, new: Side | None) -> list[str]:
    sides = [_content(side) for side in (old, new)]
    if any(isinstance(side, str) for side in sides):
        kind = next(str(side) for side in sides if isinstance(side, str))
        return [_differ(kind, names, old, new)]
    before, after = (_lines(side) for side in sides if not isinstance(side, str))
    if before is None or after is None:
        return [_differ("Binary files", names, old, new)]
    lines = difflib.unified_diff(before, after, *names)
    return [
        part
        for line in lines
        for part in ([line[:-1]] if line.endswith("\n") else [line, "\\ No newline at end of file"])
    ]


def _differ(kind: str, names: tuple[str, str], old: Side | None, new: Side | None) -> str:
    sizes = " -> ".join(f"{side.status.st_size} bytes" for side in (old, new) if side is not None)
    return f"{kind} {names[0]} and {names[1]} differ ({sizes})"


def _content(side: Side | None) -> bytes | str:
    """Return the content of one side; a text says why it cannot be shown."""
    if side is None:
        return b""
    if stat.S_ISLNK(side.mode):
        return side.target().encode("utf-8", "surrogateescape")
    if not stat.S_ISREG(side.mode):
        return "Special files"
    with open(side.descriptor(), "rb") as file:
        content = file.read(MAX_FILE + 1)
    return content if len(content) <= MAX_FILE else "Large files"


def _lines(content: bytes) -> list[str] | None:
    """Return lines with their ends; None for binary content."""
    if b"\0" in content:
        return None
    lines = content.decode("utf-8", "surrogateescape").split("\n")
    kept = [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    return kept if len(kept) <= MAX_LINES else None


def _quoted(name: str) -> str:
    """Return a name as git writes it: quoted where a character of it is not plain."""
    if all(character.isprintable() and character not in '"\\' for character in name):
        return name
    raw = name.encode("utf-8", "surrogateescape").decode("latin-1")
    return '"' + "".join(_ESCAPES.get(one) or _octal(one) for one in raw) + '"'


def _octal(character: str) -> str:
    return character if " " <= character <= "~" else f"\\{ord(character):03o}"
