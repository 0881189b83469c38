# SPDX-License-Identifier: Apache-2.0
"""Whether a stash that goes away was applied: `git stash pop` loses nothing, `drop` does.

It was applied where each file that it changed has its content, or, where something else had been
changed in that file, each line that it added. The same for what it kept of untracked files.

Format: git's Documentation/git-stash.txt: a commit upon the one where it was made (its tree is the
work tree), a second parent for the index, a third for untracked files.

Runs in the keeper: standard library only, Python 3.9. Reads only.
"""

from __future__ import annotations

from collections import Counter

from .gitfiles import Coming, within
from .gitobjects import Store
from .gittrees import Trees, blob_at

MOST_LINES_BYTES = 4 << 20
"""Of a file whose lines are compared; a longer one must be the same."""


def is_applied(store: Store, oid: bytes, coming: Coming, work_tree: str) -> bool:
    """Whether the files hold what a stash holds. `work_tree` is a prefix. Raises Odd."""
    trees = Trees(store)
    top, parents = trees.of_commit(oid)
    if not 2 <= len(parents) <= 3:
        return False
    files = within(coming, work_tree.rstrip("/"))
    base = trees.of_commit(parents[0])[0]
    wanted = list(trees.differing(base, top))
    if len(parents) == 3:
        wanted += list(trees.differing(None, trees.of_commit(parents[2])[0]))
    for path, before, after in wanted:
        found, text = blob_at(files, path, store.width)
        if found == after.oid:
            continue
        if text is None or len(text) > MOST_LINES_BYTES:
            return False
        added = _lines(trees.text(after)) - _lines(trees.text(before))
        if added - _lines(text):
            return False
    return True


def _lines(text: bytes) -> Counter[bytes]:
    return Counter(text.split(b"\n"))
