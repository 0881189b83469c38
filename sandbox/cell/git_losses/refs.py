# SPDX-License-Identifier: Apache-2.0
"""What a repository's references and reflogs say, before and after changes. Reads only.

Format: git's Documentation/gitrepository-layout.txt and git-pack-refs; names: git-check-ref-format.
Whatever is odd is told (`Odd`), never guessed.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import re
import stat
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from ..git.files import Files, content
from ..git.packs import Odd

MOST_LIST = 64 << 20
"""Bytes of a list of packed references, or of a reflog; a longer one is odd."""
MOST_FOLDERS = 20_000
"""Folders that are listed below `refs` or `logs`."""
_SMALL = 4096
_HEX = re.compile(rb"[0-9a-f]+")
_LINE = re.compile(rb"([0-9a-f]+) ([0-9a-f]+) ([^\n]*?)(?: (\d+) [+-]\d{4})?(?:\t[^\n]*)?")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|$)|\.$|/$|^/|^\.")
HEADS = ("HEAD", "ORIG_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD",
         "AUTO_MERGE", "BISECT_HEAD")  # fmt: skip
"""Files beside `refs` that name objects."""


_OPERATIONS = ("rebase-merge", "rebase-apply", "sequencer")
"""Folders beside `refs` in which an operation under way notes objects: the autostash, the plan."""
_NO_NAMES = re.compile(r"index|config.*|description|packed-refs|[A-Z]+_(?:MSG|EDITMSG)|.*\.lock")
"""Files beside `refs` that say nothing of objects, or are read elsewhere; words for people."""
_FULL_NAME = re.compile(rb"(?<![0-9a-f])[0-9a-f]+(?![0-9a-f])")


class Ref(NamedTuple):
    """What a reference says: an object, or another reference."""

    oid: bytes = b""
    target: str = ""


class Line(NamedTuple):
    """A line of a reflog."""

    old: bytes
    new: bytes
    text: bytes
    """The whole of it."""
    said: bytes
    """What it says beside `old`, which git writes anew when the line before it goes."""
    time: int
    """Seconds since the epoch, as git wrote them; 0 where there are none."""


class Refs:
    """The references of one repository; each file is read when it is asked for."""

    def __init__(self, files: Files, width: int) -> None:
        self._files = files
        self._width = width
        self._packed: dict[str, tuple[bytes, bytes]] | None = None
        self._in_order: list[str] | None = None

    def get(self, name: str) -> Ref | None:
        """Return what a reference says; None where there is none. Raises Odd."""
        status = self._files.status(name)
        if status is not None and not stat.S_ISDIR(status.st_mode):
            return self._loose(name)
        found = self.packed().get(_shared(name))
        return None if found is None else Ref(found[0])

    def packed(self) -> dict[str, tuple[bytes, bytes]]:
        """Return the packed references: name -> object, and what its tag means (or nothing)."""
        if self._packed is None:
            self._packed = {}
            if self._files.status("packed-refs") is not None:
                text = content(self._files, "packed-refs", MOST_LIST)
                if text is None:
                    raise Odd("`packed-refs` cannot be read")
                self._packed = _read_packed(text, self._width)
        return self._packed

    def is_packed_below(self, name: str) -> bool:
        """Whether packed references have a name for a folder of theirs. Raises Odd."""
        if self._in_order is None:
            self._in_order = sorted(self.packed())
        at = bisect_left(self._in_order, name + "/")
        return self._in_order[at : at + 1] != [] and self._in_order[at].startswith(name + "/")

    def kept(self) -> Iterator[str]:
        """Give the names that git takes objects from which it keeps. Raises Odd.

        Of the files beside `refs` that is HEAD alone: `git gc` heeds no other (reachable.c), and
        each command of git writes over them.
        """
        yield from filter(is_name, self.packed())
        for folder in ("", *self._checked_out()):
            yield folder + "HEAD"
            yield from filter(is_name, self._below(folder + "refs"))

    def kept_logs(self) -> Iterator[str]:
        """Give the paths of the reflogs that git heeds: those of references that are there."""
        for folder in ("", *self._checked_out()):
            start = folder + "logs/"
            for path in self._below(start[:-1]):
                try:
                    there = self.resolve(folder + path[len(start) :])
                except Odd:
                    continue
                if there:
                    yield path

    def _checked_out(self) -> Iterator[str]:
        """Give the folders of linked work trees that git takes for one, as prefixes."""
        return (tree for tree in self.trees() if self._files.status(tree + "gitdir") is not None)

    def names(self) -> Iterator[str]:
        """Give the names of all that leads to an object, of linked work trees too. Raises Odd."""
        yield from self.packed()
        for folder in ("", *self.trees()):
            yield from (folder + one for one in HEADS if self._files.status(folder + one))
            for path in self._below(folder + "refs"):
                if not path.endswith(".lock"):
                    yield path

    def logs(self) -> Iterator[str]:
        """Give the paths of all reflogs."""
        for folder in ("", *self.trees()):
            yield from self._below(folder + "logs")

    def noted(self) -> Iterator[bytes]:
        """Give the objects that any other file of the repository names. Raises Odd.

        What an operation under way will need again: an autostash, what a rebase still has to pick,
        what was fetched. That is enough to keep an object, and not enough to give one up.
        """
        for folder in ("", *self.trees()):
            paths = [folder + name for name in self._files.names(folder.rstrip("/"))]
            paths = [one for one in paths if not _NO_NAMES.fullmatch(one[len(folder) :])]
            for operation in _OPERATIONS:
                paths += self._below(folder + operation)
            for path in paths:
                status = self._files.status(path)
                if status is None or not stat.S_ISREG(status.st_mode):
                    continue
                text = content(self._files, path, MOST_LIST)
                if text is None:
                    raise Odd(f"`{path}` cannot be read")
                for word in _FULL_NAME.findall(text):
                    if len(word) == 2 * self._width:
                        yield bytes.fromhex(word.decode("ascii"))

    def trees(self) -> Iterator[str]:
        """Give the folders of linked work trees, as prefixes."""
        for name in self._files.names("worktrees"):
            yield f"worktrees/{name}/"

    def log(self, path: str) -> list[Line]:
        """Return the lines of a reflog; none where there is none. Raises Odd."""
        if self._files.status(path) is None:
            return []
        text = content(self._files, path, MOST_LIST)
        if text is None:
            raise Odd(f"`{path}` cannot be read")
        return [_read_line(part, path, self._width) for part in text.split(b"\n") if part]

    def resolve(self, name: str, depth: int = 5) -> bytes:
        """Return the object that a reference leads to; nothing where it leads nowhere."""
        ref = self.get(name)
        if ref is None or (ref.target and not depth):
            return b""
        return self.resolve(ref.target, depth - 1) if ref.target else ref.oid

    def _loose(self, name: str) -> Ref:
        text = content(self._files, name, _SMALL)
        if text is None:
            raise Odd(f"`{name}` cannot be read")
        if text.startswith(b"ref: "):
            return Ref(target=text[5:].rstrip(b"\n").decode("utf-8", "surrogateescape"))
        word = text[:-1] if text.endswith(b"\n") else text
        if name.rpartition("/")[2] in ("MERGE_HEAD", "FETCH_HEAD"):
            word = word.split(b"\n")[0].split(b"\t")[0]
        return Ref(_oid(word, self._width, name))

    def _below(self, folder: str) -> Iterator[str]:
        waiting, count = [folder], 0
        while waiting:
            count += 1
            if count > MOST_FOLDERS:
                raise Odd(f"more than {MOST_FOLDERS} folders of references")
            here = waiting.pop()
            for name in self._files.names(here):
                path = f"{here}/{name}"
                status = self._files.status(path)
                if status is not None and stat.S_ISDIR(status.st_mode):
                    waiting.append(path)
                elif status is not None:
                    yield path


def is_name(name: str) -> bool:
    """Whether git would take a name for a reference's."""
    parts = name.split("/")
    return not _FORBIDDEN.search(name) and all(not part.endswith(".lock") for part in parts)


def _shared(name: str) -> str:
    """Return a name as a list of packed references has it; none for those of work trees."""
    return "" if name.startswith("worktrees/") else name


def _read_packed(text: bytes, width: int) -> dict[str, tuple[bytes, bytes]]:
    found: dict[str, tuple[bytes, bytes]] = {}
    if text and not text.endswith(b"\n"):
        raise Odd("`packed-refs` is cut")
    lines = text.split(b"\n")[:-1]
    sorted_, last, raw = False, "", b""
    for number, line in enumerate(lines):
        if line.startswith(b"#"):
            if number:
                raise Odd("`packed-refs` cannot be read")
            sorted_ = b" sorted " in line + b" "
        elif line.startswith(b"^"):
            if not last or found[last][1]:
                raise Odd("`packed-refs` cannot be read")
            found[last] = (found[last][0], _oid(line[1:], width, "packed-refs"))
        else:
            word, _, name = line.partition(b" ")
            if sorted_ and name <= raw:
                raise Odd("`packed-refs` is not in order")
            last, raw = name.decode("utf-8", "surrogateescape"), name
            if last in found or not name.startswith(b"refs/"):
                raise Odd("`packed-refs` cannot be read")
            found[last] = (_oid(word, width, "packed-refs"), b"")
    return found


def _read_line(text: bytes, path: str, width: int) -> Line:
    match = _LINE.fullmatch(text)
    if match is None:
        raise Odd(f"`{path}` cannot be read")
    old, new = (_oid(match[n], width, path) for n in (1, 2))
    return Line(old, new, text, text[len(match[1]) :], int(match[4] or 0))


def _oid(word: bytes, width: int, path: str) -> bytes:
    if len(word) != 2 * width or not _HEX.fullmatch(word):
        raise Odd(f"`{path}` names no object")
    return bytes.fromhex(word.decode("ascii"))
