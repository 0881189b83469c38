# SPDX-License-Identifier: Apache-2.0
"""What leads into a workspace: paths over links, words that name them, programs run by others."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

MOST_LINKS = 40
MOST_SCRIPTS = 4
"""Scripts that run one another by their first line."""
_MOST_LINE = 4096
_BETWEEN = re.compile(r"[\s=:;,\"'`()<>|&!{}\[\]]+")
"""What stands between paths in a word."""
_HOMES = re.compile(r"\$\{HOME\}|\$HOME\b|(?<![^\s=:;,\"'`()<>|&!])~(?=/|$)")


class Ground:
    """The workspaces, where agents write, and a person's home."""

    def __init__(self, workspaces: Iterable[str], home: str) -> None:
        self.home = home
        self._roots = {
            PurePosixPath(root)
            for workspace in workspaces
            for root in (os.path.normpath(workspace), os.path.realpath(workspace))
        }

    def holds(self, path: str) -> bool:
        """Whether a path, seen from `/`, leads into a workspace or over one."""
        return any(
            PurePosixPath(place).is_relative_to(root)
            for place in _places(f"/{path}")
            for root in self._roots
        )

    def mentions(self, text: str) -> bool:
        """Whether a word names, or has within, a path of a workspace."""
        text = _HOMES.sub(lambda _: self.home, text)
        if any(re.search(rf"{re.escape(str(root))}(?![\w.-])", text) for root in self._roots):
            return True
        return any(self.holds(one) for one in (text, *_BETWEEN.split(text)) if _is_path(one))

    def search_path(self, said: str) -> str:
        """Return the folders for programs that no agent writes."""
        folders = said.split(os.pathsep)
        return os.pathsep.join(
            folder for folder in folders if folder.startswith("/") and not self.holds(folder)
        )

    def program(self, name: str, path: str) -> str | None:
        """Return where a program is; None where it is nowhere."""
        found = shutil.which(name, path=path or os.devnull)
        return found if found is not None and found.startswith("/") else None

    def way_in(self, program: str, path: str) -> str:
        """Return what a program is, or is run by, that lies in a workspace; empty: nothing."""
        for _ in range(MOST_SCRIPTS):
            if self.holds(program):
                return program
            words = _first_line(program)
            if not words:
                return ""
            if bad := next((word for word in words if self.mentions(word)), ""):
                return bad
            program = words[0]
            if PurePosixPath(program).name == "env":
                named = (word for word in words[1:] if not word.startswith("-") and "=" not in word)
                program = self.program(next(named, ""), path) or program
        return program


def _is_path(text: str) -> bool:
    """Whether a piece of a word is a path: what is not absolute counts where it is there."""
    return text.startswith("/") or (bool(text) and os.path.lexists(f"/{text}"))


def _places(path: str) -> Iterator[str]:
    """Return every place that a path leads over, its links followed one by one."""
    left, here, links = path.split("/")[::-1], "/", 0
    while left:
        part = left.pop()
        if part == "..":
            here = os.path.dirname(here)  # noqa: PTH120
        if part in ("", ".", ".."):
            continue
        place = f"{here.rstrip('/')}/{part}"
        yield place
        try:
            target = os.readlink(place)  # noqa: PTH115
        except (OSError, ValueError):
            here = place
            continue
        links += 1
        if links > MOST_LINKS:
            return
        here = "/" if target.startswith("/") else here
        left.extend(target.split("/")[::-1])


def _first_line(program: str) -> list[str]:
    """Return the words by which a script says what runs it; none where it is no script."""
    try:
        with Path(program).open("rb") as file:
            line = file.read(_MOST_LINE).partition(b"\n")[0]
    except OSError:
        return []
    return os.fsdecode(line[2:]).split() if line.startswith(b"#!") else []
