# SPDX-License-Identifier: Apache-2.0
"""Do settings say that a work tree has a sparse checkout?

Without, git believes an entry that is marked skip-worktree whatever stands at its path.

Runs in the keeper: standard library only, Python 3.9. Reads only.
"""

from __future__ import annotations

from collections.abc import Callable

from ..git.config import settings
from ..git.files import Files
from .listed import skipped_file

_TRUE = (b"true", b"yes", b"on", b"1")


def is_thinned(folder: str, read: Callable[[str], bytes | None]) -> bool:
    """Whether the settings of a git folder, or of a linked work tree's, switch it on.

    `read` gives what a file of the workspace holds; None where there is none.
    """
    found: dict[bytes, bytes] = {}
    around, within, _ = f"/{folder}".rpartition("/worktrees/")
    common = around[1:] if within else folder
    try:
        found.update(settings(read(f"{common}/config" if common else "config") or b""))
        if found.get(b"extensions.worktreeconfig", b"").lower() in _TRUE:
            own = f"{folder}/config.worktree" if folder else "config.worktree"
            found.update(settings(read(own) or b""))
    except ValueError:
        return False
    return found.get(b"core.sparsecheckout", b"").lower() in _TRUE


def odd_thinning(
    folder: str,
    files: Files,
    before: Callable[[str], bytes | None],
    after: Callable[[str], bytes | None],
) -> str:
    """Return why new settings may not switch a sparse checkout off: entries still go by it.

    `folder` is the git folder that they lie in, `files` those of the workspace before the call;
    `before` and `after` give what one holds.
    """
    inner = f"{folder}/" if folder else ""
    linked = [f"{inner}worktrees/{name}" for name in files.names(f"{inner}worktrees")]
    for one in (folder, *linked):
        if is_thinned(one, before) and not is_thinned(one, after):
            skipped = skipped_file(after(f"{one}/index" if one else "index") or b"")
            if skipped:
                return (
                    f"the sparse checkout that leaves out `{skipped}` would be none, and git look "
                    "at nothing that is put there"
                )
    return ""
