# SPDX-License-Identifier: Apache-2.0
"""Keep the files that a connection makes out of the project's commits, by git's own exclude file.

They hold paths of this machine. Each stands there as two lines, a comment that names the agent and
the path, and the path. The end of the connection takes both out again; all other lines stay.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from sandbox.connect.changes import Change
from sandbox.connect.texts import Added
from sandbox.host import text_files

_MARK = "# lockgate connect "


def excluding(agent: str, project: Path, made: Iterable[Path]) -> Change | None:
    """Return what becomes of the exclude file once it holds exactly these files of an agent's.

    None where the project is no git repository, or nothing changes. Raises PolicyError where the
    file cannot be read.
    """
    place = _exclude_file(project)
    if place is None:
        return None
    text = text_files.read_text(place)
    kept = _without(agent, (text or "").splitlines(keepends=True))
    if kept and not kept[-1].endswith("\n"):
        kept[-1] += "\n"
    inside = (path.relative_to(project) for path in made if path.is_relative_to(project))
    for path in inside:
        line = f"/{_escaped(path.as_posix())}\n"
        kept += [f"{_MARK}{agent} {line}", line]
    new = "".join(kept)
    if new == (text or ""):
        return None
    now = None if text is None else text.encode()
    return Change(place, now, new.encode() if new or text is not None else None, now, Added())


def _exclude_file(project: Path) -> Path | None:
    """Return the exclude file of the repository that a folder is the top of."""
    git = project / ".git"
    if git.is_dir() and not git.is_symlink() and (git / "HEAD").exists():
        return git / "info" / "exclude"
    return None


def _without(agent: str, lines: list[str]) -> list[str]:
    kept: list[str] = []
    path: str | None = None
    for line in lines:
        if line.startswith(f"{_MARK}{agent} "):
            path = line.removeprefix(f"{_MARK}{agent} ").rstrip("\n")
        elif line.rstrip("\n") == path:  # a line of a person's in its place stays
            path = None
        else:
            kept.append(line)
            path = None
    return kept


def _escaped(path: str) -> str:
    """Return a path as a pattern that fits it alone."""
    return "".join(f"\\{sign}" if sign in "\\*?[ " else sign for sign in os.fspath(path))
