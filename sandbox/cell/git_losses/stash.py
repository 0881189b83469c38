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
from collections.abc import Iterable
from itertools import islice

from ..git.files import Coming, within
from ..git.objects import Store
from .trees import Trees, blob_at

MOST_COMMITS = 20
"""That are looked at for what a stash held."""
MOST_LINES_BYTES = 4 << 20
"""Of a file whose lines are compared; a longer one must be the same."""


def is_applied(
    store: Store, oid: bytes, coming: Coming, work_tree: str, commits: Iterable[bytes]
) -> bool:
    """Whether the files, or some commits, hold what a stash holds. Raises Odd.

    `work_tree` is a prefix; `commits` may be any objects, others than commits hold nothing.
    """
    trees = Trees(store)
    top, parents = trees.of_commit(oid)
    if not 2 <= len(parents) <= 3:
        return False
    files = within(coming, work_tree.rstrip("/"))
    base = trees.of_commit(parents[0])[0]
    wanted = list(trees.differing(base, top))
    if len(parents) == 3:
        wanted += list(trees.differing(None, trees.of_commit(parents[2])[0]))
    tops = [
        tree
        for commit in islice(commits, MOST_COMMITS)
        if commit != oid and store.kind(commit) == b"commit"
        for tree in _tops(trees, commit)
    ]
    for path, before, after in wanted:
        found, text = blob_at(files, path, store.width)
        if found == after.oid:
            continue
        entries = [trees.at(one, path) for one in tops]
        if any(entry is not None and entry.oid == after.oid for entry in entries):
            continue
        added = _lines(trees.text(after)) - _lines(trees.text(before))
        others = [text] if text is not None else []
        others += [trees.text(entry) for entry in entries if entry is not None]
        if all(len(other) > MOST_LINES_BYTES or added - _lines(other) for other in others):
            return False
    return True


def _tops(trees: Trees, oid: bytes) -> list[bytes]:
    """Return the tree of a commit; where that may be a stash, of what belongs to it as well."""
    top, parents = trees.of_commit(oid)
    return [top, *(trees.of_commit(parent)[0] for parent in parents[1:])]


def _lines(text: bytes) -> Counter[bytes]:
    return Counter(text.split(b"\n"))
