# SPDX-License-Identifier: Apache-2.0
"""Git's filters that a project's attributes name: what a cell's git is told of them.

A filter that is not there would let a commit hold what a file has in place of what the filter makes
of it (the whole picture for a pointer, a secret in the clear). So it is required in cells: git adds
no such file there without it. A check-out leaves the file as it is in the commit. What git already
holds needs no filter: a file that is still the pointer, or still what the pointer names, counts as
unchanged, so that git's reading commands work.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sandbox.workspaces.git_places import read_small

_NAMED = re.compile(r"[ \t]filter=([A-Za-z0-9_.-]{1,64})(?=[ \t\r\n]|$)", re.MULTILINE)
_FILES = (".gitattributes", ".git/info/attributes")
KNOWN = ("lfs", "git-crypt", "nbstripout", "crypt", "sops", "age", "strip-notebook-output")
"""Filters that projects use, in whatever folder of theirs they are named."""
_HELD = (
    "s=$(sha256sum | cut -c1-64); h() { git cat-file blob :0:%f 2>/dev/null; }; "
    "[ $(h | sha256sum | cut -c1-64) = $s ] || h | head -n 9 | grep -qx 'oid sha256:'$s && h"
)
"""Gives what git holds of a file, where the file is that, or what that names; else it fails."""
_PROGRAMS = {
    "lfs": {
        "clean": f"command -v git-lfs >/dev/null && exec git-lfs clean -- %f; {_HELD}",
        "smudge": "command -v git-lfs >/dev/null && exec git-lfs smudge -- %f || exec cat",
    },
    "nbstripout": {"clean": f"command -v nbstripout >/dev/null && exec nbstripout; {_HELD}"},
}
"""What of them an image may have: it works there."""


def find_filters(workspace: str) -> tuple[str, ...]:
    """Return the filters that the attributes at the top of a workspace name."""
    found = (name for file in _FILES for name in _NAMED.findall(read_small(f"{workspace}/{file}")))
    return tuple(dict.fromkeys(found))


def required_filters(workspaces: Iterable[str]) -> str:
    """Return git settings for a cell of these workspaces: no file without its filter."""
    named = (name for workspace in workspaces for name in find_filters(workspace))
    lines = []
    for name in dict.fromkeys((*KNOWN, *named)):
        programs = {"clean": _HELD, "smudge": "cat", **_PROGRAMS.get(name, {}), "required": "true"}
        lines.append(f'[filter "{name}"]\n')
        lines += [f'\t{key} = "{value}"\n' for key, value in programs.items()]
    return "".join(lines)


def told_of_filters(workspace: str) -> str:
    """Return a line about the filters of a workspace for a person, or nothing."""
    names = find_filters(workspace)
    if not names:
        return ""
    said = ", ".join(f"`{name}`" for name in names)
    return (
        f"files of the repository go through the filters {said}: in a cell whose image lacks the "
        "program, git adds none of them (docs/environment.md)"
    )
