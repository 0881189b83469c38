# SPDX-License-Identifier: Apache-2.0
"""Do settings say that a work tree has a sparse checkout?

Without, git believes an entry that is marked skip-worktree whatever stands at its path.

Runs in the keeper: standard library only, Python 3.9. Pure.
"""

from __future__ import annotations

from collections.abc import Callable

from ..git.config import settings

_TRUE = (b"true", b"yes", b"on", b"1")


def is_thinned(folder: str, read: Callable[[str], bytes | None]) -> bool:
    """Whether the settings of a git folder, or of a linked work tree's, switch it on.

    `read` gives what a file of the workspace holds; None where there is none.
    """
    found: dict[bytes, bytes] = {}
    common = folder.rpartition("/worktrees/")[0] or folder
    try:
        found.update(settings(read(f"{common}/config") or b""))
        if found.get(b"extensions.worktreeconfig", b"").lower() in _TRUE:
            found.update(settings(read(f"{folder}/config.worktree") or b""))
    except ValueError:
        return False
    return found.get(b"core.sparsecheckout", b"").lower() in _TRUE
