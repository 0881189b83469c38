# SPDX-License-Identifier: Apache-2.0
"""`apply_patch PATCH` (or the patch as input): change files as the `*** Begin Patch` form says.

The program of this name that Codex expects beside it. Everything is computed before anything is
written; what does not fit changes nothing. Exit status 1 with one line where it does not fit.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import NamedTuple

ADD, DELETE, UPDATE = "*** Add File: ", "*** Delete File: ", "*** Update File: "
MOVE, END_OF_FILE = "*** Move to: ", "*** End of File"
BEGIN, END = "*** Begin Patch", "*** End Patch"
MOST_BYTES = 64 << 20
MOST_EXACT = 100
"""Hunks of one file of a patch that all programs must read alike."""
SAME: list[Callable[[str], str]] = [lambda line: line, str.rstrip, str.strip]
"""How lines may differ from those of the file, from the strictest to the mildest."""


class NoFit(Exception):
    """The patch cannot be read or does not fit; its text is for the agent."""


class Hunk(NamedTuple):
    """Lines to look for after `anchor`, and lines to put there."""

    anchor: str
    old: list[str]
    new: list[str]
    at_end: bool


def main() -> int:
    """Apply one patch in the current folder."""
    text = sys.argv[1] if len(sys.argv) > 1 else sys.stdin.read(MOST_BYTES)
    try:
        changes, said = planned(text)
    except (NoFit, OSError, UnicodeDecodeError) as error:
        sys.stderr.write(f"apply_patch: {error}\n")
        return 1
    for path, content in changes.items():
        if content is None:
            os.remove(path)
        else:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write(content)
    sys.stdout.write("\n".join(["Success. Updated the following files:", *said, ""]))
    return 0


def read_file(path: str) -> str:
    """Return what a file of this folder holds, with its line ends."""
    with open(path, encoding="utf-8", newline="") as file:
        return file.read(MOST_BYTES)


def planned(
    text: str, read: Callable[[str], str] = read_file, *, exact: bool = False
) -> tuple[dict[str, str | None], list[str]]:
    """Return the content of each file afterwards (None: it goes), and what is said of them.

    With `exact` only a patch fits that all programs must read alike: lines that stand in the file
    as they are, once. Raises NoFit, and whatever `read` raises.
    """
    lines = text.replace("\r\n", "\n").strip("\n").split("\n")
    if lines[0].strip() != BEGIN or lines[-1].strip() != END:
        raise NoFit(f"a patch begins with `{BEGIN}` and ends with `{END}`")
    changes: dict[str, str | None] = {}
    said: list[str] = []
    at = 1
    while at < len(lines) - 1:
        head = lines[at].rstrip()
        end = next(n for n in range(at + 1, len(lines)) if _is_head(lines[n]))
        body, at = lines[at + 1 : end], end
        if head.startswith(ADD):
            path = head[len(ADD) :].strip()
            if any(one[:1] != "+" for one in body):
                raise NoFit(f"`{path}`: each line of a new file begins with `+`")
            changes[path] = "".join(one[1:] + "\n" for one in body)
            said.append(f"A {path}")
        elif head.startswith(DELETE):
            path = head[len(DELETE) :].strip()
            _content(path, changes, read)
            changes[path] = None
            said.append(f"D {path}")
        elif head.startswith(UPDATE):
            path = head[len(UPDATE) :].strip()
            target = path
            if body and body[0].startswith(MOVE):
                target = body.pop(0)[len(MOVE) :].strip()
            hunks = _hunks(path, body)
            content = _updated(path, _content(path, changes, read), hunks, exact=exact)
            if target != path:
                changes[path] = None
            changes[target] = content
            said.append(f"M {target}")
        elif head:
            raise NoFit(f"`{head}` is no head of a file")
    return changes, said


def _is_head(line: str) -> bool:
    return line.startswith((ADD, DELETE, UPDATE)) or line.strip() == END


def _content(path: str, changes: dict[str, str | None], read: Callable[[str], str]) -> str:
    if path in changes:
        known = changes[path]
        if known is None:
            raise NoFit(f"`{path}` was deleted before")
        return known
    return read(path)


def _hunks(path: str, body: list[str]) -> list[Hunk]:
    hunks: list[Hunk] = []
    anchor, at_end = "", False
    old: list[str] = []
    new: list[str] = []

    def close() -> None:
        if old or new:
            hunks.append(Hunk(anchor, list(old), list(new), at_end))
        old.clear()
        new.clear()

    for line in body:
        if line.startswith("@@"):
            close()
            anchor, at_end = line[2:].strip(), False
        elif line.strip() == END_OF_FILE:
            at_end = True
            close()
        elif line[:1] == "+":
            new.append(line[1:])
        elif line[:1] == "-":
            old.append(line[1:])
        elif line[:1] in (" ", ""):
            old.append(line[1:])
            new.append(line[1:])
        else:
            raise NoFit(f"`{path}`: a line begins with ` `, `+` or `-`, not `{line[:20]}`")
    close()
    if not hunks:
        raise NoFit(f"`{path}`: nothing is changed")
    return hunks


def _updated(path: str, content: str, hunks: list[Hunk], *, exact: bool) -> str:
    lines = content.split("\n")
    if lines[-1] == "":
        lines.pop()
    if exact and len(hunks) > MOST_EXACT:
        raise NoFit(f"`{path}`: there are too many places to tell that each is the only one")
    at = 0
    for hunk in hunks:
        if hunk.anchor:
            at = _found(lines, [hunk.anchor], at, at_end=False, path=path) + 1
        if exact:
            at = _only(lines, hunk.old, at, path)
            lines[at : at + len(hunk.old)] = hunk.new
        elif not hunk.old:
            at = len(lines) if not hunk.anchor else at
            lines[at:at] = hunk.new
        else:
            at = _found(lines, hunk.old, at, at_end=hunk.at_end, path=path)
            lines[at : at + len(hunk.old)] = hunk.new
        at += len(hunk.new)
    return "\n".join(lines) + "\n"


def _only(lines: list[str], wanted: list[str], start: int, path: str) -> int:
    """Return where lines stand as they are, from `start` on and nowhere else in the file."""
    text, part = "\n".join(["", *lines, ""]), "\n".join(["", *wanted, ""])
    place = text.find(part)
    at = text.count("\n", 0, place)
    if not any(wanted) or place < 0 or text.find(part, place + 1) >= 0 or at < start:
        raise NoFit(f"`{path}`: its lines do not stand in one place alone")
    return at


def _found(lines: list[str], wanted: list[str], start: int, *, at_end: bool, path: str) -> int:
    """Return where the lines stand; blanks at their ends are overlooked if nothing else fits."""
    last = len(lines) - len(wanted)
    places: list[int] = [last] if at_end and last >= start else []
    places += range(start, last + 1)
    for same in SAME:
        texts, asked = [same(line) for line in lines], [same(one) for one in wanted]
        for at in places:
            if texts[at : at + len(asked)] == asked:
                return at
    if wanted[-1] == "" and len(wanted) > 1:
        return _found(lines, wanted[:-1], start, at_end=at_end, path=path)
    raise NoFit(f"`{path}`: these lines are not there: {' | '.join(wanted[:3])[:200]}")


if __name__ == "__main__":
    sys.exit(main())
