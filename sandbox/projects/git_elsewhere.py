# SPDX-License-Identifier: Apache-2.0
"""A workspace whose repository lies elsewhere: a linked work tree, a separate git folder, a module.

Reads files only. What the file `.git` of a workspace says may be an agent's: it counts only where
the repository itself names the workspace as its work tree.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sandbox.errors import BadInput
from sandbox.workspaces.forbidden import quoted
from sandbox.workspaces.git_places import pointer_of, read_small
from sandbox.workspaces.registry import Registry


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Where git finds the repository of a workspace, outside of it."""

    workspace: str
    own: str
    """The git folder of this work tree."""
    common: str
    """The one that it shares with others."""

    @property
    def main(self) -> str | None:
        """The main work tree, where the repository has it for a linked one; else None."""
        folder, name = os.path.split(self.common)
        linked = os.path.dirname(self.own) == f"{self.common}/worktrees"  # noqa: PTH120
        back = read_small(f"{self.own}/gitdir").strip()
        return folder if name == ".git" and linked and back == f"{self.workspace}/.git" else None


def find_elsewhere(workspace: str) -> Elsewhere | None:
    """Return where the repository of a workspace lies, if that is outside of it; else None."""
    found = pointer_of(workspace)
    if found is None or Path(found[1]).is_relative_to(workspace):
        return None
    return Elsewhere(workspace, *found)


def also_needed(workspace: str, holding: Callable[[str], str | None]) -> tuple[str, ...]:
    """Return the registered workspace whose repository a workspace is a linked work tree of.

    `holding` returns the registered workspace that holds a folder. INVARIANT (P2, work trees): both
    are registered by a person, and the repository itself says that this is its work tree.
    """
    elsewhere = find_elsewhere(workspace)
    main = elsewhere.main if elsewhere is not None else None
    found = holding(main) if main is not None else None
    return () if found is None or found == workspace else (found,)


def folder_to_register(elsewhere: Elsewhere, registry: Registry) -> str | None:
    """Return the folder that must be a workspace for git to work in this one; None: there is none.

    That is the main work tree, beside this one; else the folder that holds both, in its place.
    """
    together = os.path.commonpath((elsewhere.workspace, elsewhere.common))
    for folder in (elsewhere.main, together):
        try:
            if folder is not None:
                return registry.check(folder).path
        except BadInput:
            continue
    return None


def advice(elsewhere: Elsewhere, registry: Registry) -> str:
    """Say what makes git work in a workspace whose repository its cells do not see."""
    said = f"the git folder of {quoted(elsewhere.workspace)} is {quoted(elsewhere.common)}"
    folder = folder_to_register(elsewhere, registry)
    if folder is None:
        return f"{said}, which cells do not see: git does not work there; move it to `.git`"
    if folder == elsewhere.main:
        return f"{said}, which cells do not see: `lockgate init {folder}` makes git work here"
    return (
        f"{said}, which cells do not see: `lockgate workspace remove {elsewhere.workspace}`, then "
        f"`lockgate init {folder}`, which holds both, makes git work here"
    )
