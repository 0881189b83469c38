# SPDX-License-Identifier: Apache-2.0
"""What a person has begun and git must still know: a merge, a pick, a revert, the branch in work.

Without `MERGE_HEAD` the commit that concludes a merge is none, and the other side's history is lost
from it; without `CHERRY_PICK_HEAD` its author is. They go where the commit is made, or where all is
put back to what is checked out. Where HEAD alone goes to another branch, the next commit would take
back what that branch has and these files have not.

Source: git's Documentation/gitrepository-layout.txt; `remove_branch_state` in its branch.c.

Runs in the keeper: standard library only, Python 3.9. Reads only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from ..git.files import Files, content
from ..git.packs import Odd
from .reach import history
from .sides import Side, staged, tree_of
from .trees import Trees

BEGUN = {
    "MERGE_HEAD": "the merge that is under way would be none",
    "CHERRY_PICK_HEAD": "the cherry-pick that is under way would be none",
    "REVERT_HEAD": "the revert that is under way would be none",
}
"""Files that say what is under way -> what their loss means."""
_MOST_BYTES = 1 << 20
_GITLINK, _TREE = 0o160000, 0o040000


def named_objects(files: Files, path: str) -> list[bytes]:
    """Return the objects that a file names, a line each; none where it cannot be read."""
    text = content(files, path, _MOST_BYTES) or b""
    try:
        return [bytes.fromhex(line.decode("ascii")) for line in text.split(b"\n") if line]
    except ValueError:
        return []


def given_up(old: Side, new: Side, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Give what was under way and is neither concluded nor taken back. Raises Odd."""
    for path in sorted(paths):
        folder, name = tree_of(path)
        if name not in BEGUN:
            continue
        before = named_objects(old.files, path)
        if not before or named_objects(new.files, path) == before:
            continue
        head = new.refs.resolve(folder + "HEAD")
        if name == "MERGE_HEAD":
            wanted = {oid for oid in before if old.objects.has(oid)}
            concluded = bool(head) and history(new.objects, [head], wanted) == wanted
        else:
            concluded = head != old.refs.resolve(folder + "HEAD")
        if not concluded and not _is_put_back(new, folder, head):
            yield path, BEGUN[name]


def left_behind(
    old: Side, new: Side, paths: Collection[str], trees: Iterable[str]
) -> Iterator[tuple[str, str]]:
    """Give a HEAD that means another commit, while the index stays as it was. Raises Odd.

    It goes to another branch by itself, or its branch is moved under it. `trees` are the folders of
    the linked work trees. Not where its branch goes back (`git reset --soft`), since what is staged
    then holds what is taken back; nor where the index lists what that commit holds.
    """
    for folder in ("", *trees):
        path, index = folder + "HEAD", folder + "index"
        if index in paths or old.files.status(index) is None:
            continue
        if path in paths:
            before, after = old.refs.get(path), new.refs.get(path)
            if before is None or after is None or not (before.target or after.target):
                continue  # a commit on no branch moves it by itself
        ends = [side.refs.resolve(path) for side in (old, new)]
        if not all(ends) or ends[0] == ends[1]:
            continue
        if len({Trees(new.objects).of_commit(oid)[0] for oid in ends}) == 1:
            continue
        if path in paths or not (
            history(old.objects, [ends[0]], {ends[1]}) or _is_put_back(new, folder, ends[1])
        ):
            yield path, "it goes to another commit, and what is staged and in the files does not"


def _is_put_back(side: Side, folder: str, head: bytes) -> bool:
    """Whether the index lists just what is checked out."""
    entries = staged(side.files, folder + "index")
    if entries is None:
        raise Odd(f"`{folder}index` cannot be read")
    trees = Trees(side.objects)
    top = trees.of_commit(head)[0]
    for entry in entries:
        found = trees.at(top, entry.path.rstrip(b"/"))
        if entry.stage or found is None or (found.mode, found.oid) != (entry.mode, entry.oid):
            return False
    if any(entry.mode == _TREE for entry in entries):
        return True  # a sparse one
    files = sum(entry.mode != _GITLINK for entry in entries)
    return files == sum(1 for _ in trees.differing(None, top))
