# SPDX-License-Identifier: Apache-2.0
"""A script deleted objects, references, reflogs or the index of a repository, and it landed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from policy.model import Judgement, Outcome
from tests.gitchanges import REPOSITORY, copy, held_for, judged, remove, sh


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a workspace and a copy of it: a repository with others in it.

    One is nested, one bare, one a submodule; and it has a linked work tree.
    """
    ws = tmp_path_factory.mktemp("made") / "ws"
    nested = ws / "in" / "ner"
    nested.mkdir(parents=True)
    sh(ws, REPOSITORY)
    sh(nested, REPOSITORY)
    sh(ws, "git clone -q --bare . ../bare; mv ../bare stored.repo; git worktree add -q -b wtb wt")
    sh(ws, "cd wt; echo w > w; git add w; git commit -qm w; git checkout -q --detach;"
       " echo x > x; git add x; git commit -qm detached")  # fmt: skip
    sh(ws, "git clone -q in/ner ../sub; git -c protocol.file.allow=always submodule --quiet"
       " add ../sub sub; git commit -qm sub; echo y > y; git add y")  # fmt: skip
    return ws, copy(ws, ws.parent / "copy")


@pytest.fixture
def attempt(made: tuple[Path, Path], tmp_path: Path) -> Iterator[Any]:
    """Return a function: run a script over the workspace; what gate 2 says of it."""
    ws, before = made

    copied: Path | None = None

    def attempt(script: str, prepare: str = "", **options: Any) -> Judgement:
        nonlocal copied
        if prepare:
            sh(ws, prepare)
            copied = copy(ws, tmp_path / "before")
        sh(ws, script)
        return judged(copied or before, ws, **options)

    yield attempt
    copy(before, ws)
    if copied:
        remove(copied)


PACK = "git repack -adq; git prune-packed"
LOOSE = "find .git/objects -type f ! -path '*/pack/*'"
CONFLICT = """git commit -qm y; git checkout -q -b other HEAD~1; echo other > a
git commit -qam other; git checkout -q main; echo ours >> a; git commit -qam ours
"""
UNDER_MERGE = f"{CONFLICT} echo mine > src/deep/b; ! git merge -q --autostash other"
UNDER_REBASE = f"{CONFLICT} echo mine > src/deep/b; ! git rebase -q --autostash other"
UNDER_PICK = f"{CONFLICT} ! git cherry-pick other"
HELD = {
    "every object": (f"{LOOSE} -delete", ""),
    "one blob": ("o=$(git rev-parse HEAD:a); rm -f .git/objects/${o:0:2}/${o:2}", ""),
    "one blob of the past": ("o=$(git rev-parse HEAD~1:a); rm -f .git/objects/${o:0:2}/${o:2}", ""),
    "an object of a branch": ("o=$(git rev-parse topic); rm -f .git/objects/${o:0:2}/${o:2}", ""),
    "an object of a stash": ("o=$(git rev-parse stash:a); rm -f .git/objects/${o:0:2}/${o:2}", ""),
    "an object of a reflog alone": (
        "o=$(git rev-parse HEAD@{1}); rm -f .git/objects/${o:0:2}/${o:2}",
        "git commit -q --amend -m other",
    ),
    "an object that is staged": ("o=$(git rev-parse :s); rm -f .git/objects/${o:0:2}/${o:2}", ""),
    "an object of a work tree alone": (
        "o=$(git -C wt rev-parse HEAD); rm -f .git/objects/${o:0:2}/${o:2}",
        "",
    ),
    "a tag's object": ("o=$(git rev-parse v2); rm -f .git/objects/${o:0:2}/${o:2}", ""),
    "a pack": ("rm -f .git/objects/pack/*.pack", PACK),
    "the index of a pack": ("rm -f .git/objects/pack/*.idx", PACK),
    "a pack and its index": ("rm -f .git/objects/pack/*", PACK),
    "a pack under another name": (
        "cd .git/objects/pack; mv pack-*.pack x.pack; mv pack-*.idx y.idx",
        PACK,
    ),
    "objects moved away": ("mv .git/objects .git/old; mkdir .git/objects", ""),
    "objects gone": ("rm -rf .git/objects", ""),
    "references moved away": ("mv .git/refs .git/old; mkdir .git/refs", ""),
    "references gone": ("rm -rf .git/refs", ""),
    "a forged object": (
        "o=$(git rev-parse HEAD:a); p=.git/objects/${o:0:2}/${o:2}; chmod u+w $p;"
        " n=$(echo evil | git hash-object -w --stdin); cp -f .git/objects/${n:0:2}/${n:2} $p",
        "",
    ),
    "unreadable objects": ("chmod 000 .git/objects", ""),
    "unreadable references": ("chmod 000 .git/refs", ""),
    "an unreadable object": (
        "o=$(git rev-parse HEAD:a); chmod 000 .git/objects/${o:0:2}/${o:2}",
        "",
    ),
    "an unreadable branch": ("chmod 000 .git/refs/heads/topic", ""),
    "a branch that is not merged": ("git branch -D topic", ""),
    "the file of a branch": ("rm .git/refs/heads/topic", ""),
    "a packed branch": ("sed -i /topic/d .git/packed-refs", "git pack-refs --all --prune"),
    "all packed references": ("rm .git/packed-refs", "git pack-refs --all --prune"),
    "packed references out of order": (
        "sed -n '/^#/p' .git/packed-refs > x; sed '/^#/d' .git/packed-refs | tac | grep -v ^^ >> x;"
        " mv x .git/packed-refs",
        "git pack-refs --all --prune",
    ),
    "a packed tag that means something else": (
        'sed -i "s/^^.*/^$(git rev-parse topic)/" .git/packed-refs',
        "git pack-refs --all --prune",
    ),
    "an annotated tag": ("git tag -d v2", ""),
    "a remote's branch": (
        "git update-ref -d refs/remotes/o/x",
        "git update-ref refs/remotes/o/x $(git rev-parse topic);"
        " git branch -qD topic; git reflog expire --expire=all --all",
    ),
    "a branch that moves without a reflog": (
        "git rev-parse HEAD~1 > .git/refs/heads/topic",
        "git reflog expire --expire=all --all",
    ),
    "a reflog": ("rm .git/logs/HEAD", ""),
    "a cut reflog": ("sed -i 2d .git/logs/HEAD", ""),
    "an empty reflog": (": > .git/logs/refs/heads/main", ""),
    "all reflogs": ("rm -rf .git/logs", ""),
    "an expired reflog": ("git reflog expire --expire=now --all", ""),
    "a reflog whose times are false": (
        "sed -i 's/> [0-9]* /> 1000000000 /' .git/logs/HEAD .git/logs/refs/heads/main",
        "git commit -q --amend -m other",
    ),
    "a stash that is dropped": ("git stash drop -q", ""),
    "all stashes": ("git stash clear", ""),
    "a stash whose files are thrown away": ("git stash pop -q; git checkout -q -f -- a", ""),
    "an older stash": ("git stash drop -q stash@{1}", "echo x >> a; git stash -q"),
    "HEAD to nothing": ("echo ref: refs/heads/none > .git/HEAD", ""),
    "HEAD of nothing": ("echo x > .git/HEAD", ""),
    "HEAD gone": ("rm .git/HEAD", ""),
    "HEAD elsewhere": ("echo ref: refs/tags/v1 > .git/HEAD", ""),
    "a branch that is a link": ("git symbolic-ref refs/heads/topic refs/heads/main", ""),
    "a branch to nothing": (f"echo {'1' * 40} > .git/refs/heads/new", ""),
    "a branch to a file": ("git rev-parse HEAD:a > .git/refs/heads/new", ""),
    "a branch that cannot be read": ("echo main > .git/refs/heads/main", "git pack-refs --all"),
    "a tag in place of a branch": ("git tag main HEAD~1", ""),
    "a branch in place of a remote's": (
        "git branch o/x HEAD~1",
        "git update-ref refs/remotes/o/x HEAD",
    ),
    "a tag of a folder": ("git tag t1 HEAD^{tree}", ""),
    "a tag that says it of a folder": (
        "git tag -a -m x t1 HEAD^{tree}; git tag -a -m y t2 t1; git tag -d t1",
        "",
    ),
    "a reference in place of a tag": ("git update-ref refs/v1 HEAD", ""),
    "a branch named HEAD": ("git update-ref refs/heads/HEAD HEAD~1", ""),
    "a branch named as an object": ("git update-ref refs/heads/$(git rev-parse HEAD) HEAD~1", ""),
    "a branch above others": (
        "rm -d .git/refs/heads/up; o=$(git rev-parse HEAD); echo $o > .git/refs/heads/up",
        "git branch up/on; git branch up/to; git branch upon; git pack-refs --all --prune;"
        " mkdir -p .git/refs/heads/up",
    ),
    "a branch below a branch": (
        "mkdir -p .git/refs/heads/topic; git rev-parse HEAD > .git/refs/heads/topic/x",
        "git pack-refs --all --prune",
    ),
    "an index that is gone": ("rm .git/index", ""),
    "an index that is emptied": ("git read-tree --empty", ""),
    "an index that cannot be read": ("echo x > .git/index", ""),
    "something staged that is nowhere else": ("git reset -q", "echo changed > y"),
    "something staged that only a folder of git's holds": (
        "git write-tree; git rm -qf --cached y",
        "echo changed > y",
    ),
    "something staged that a commit holds which nothing names": (
        "git commit-tree -m x -p HEAD $(git write-tree); git rm -qf --cached y",
        "echo changed > y",
    ),
    "the autostash of a rebase": (
        "o=$(cat .git/rebase-merge/autostash); rm -f .git/objects/${o:0:2}/${o:2}",
        UNDER_REBASE,
    ),
    "a file of the autostash of a rebase": (
        "o=$(git rev-parse $(cat .git/rebase-merge/autostash):src/deep/b);"
        " rm -f .git/objects/${o:0:2}/${o:2}",
        UNDER_REBASE,
    ),
    "the autostash of a merge": (
        "o=$(cat .git/MERGE_AUTOSTASH); rm -f .git/objects/${o:0:2}/${o:2}",
        UNDER_MERGE,
    ),
    "the autostash of a rebase in a work tree": (
        "o=$(cat .git/worktrees/wt/rebase-merge/autostash); rm -f .git/objects/${o:0:2}/${o:2}",
        "mkdir .git/worktrees/wt/rebase-merge;"
        " echo kept > k; o=$(git hash-object -w k); rm k;"
        " echo $o > .git/worktrees/wt/rebase-merge/autostash",
    ),
    "what a merge is with": ("rm .git/MERGE_HEAD", UNDER_MERGE),
    "what a merge is with, and words on it": ("rm .git/MERGE_*; git add a", UNDER_MERGE),
    "a merge that becomes one with something else": (
        "o=$(git rev-parse behind); echo $o > .git/MERGE_HEAD",
        UNDER_MERGE,
    ),
    "a merge that is left as it stands": ("git merge --quit", UNDER_MERGE),
    "what is picked": ("rm .git/CHERRY_PICK_HEAD", UNDER_PICK),
    "HEAD alone to another branch": ("git symbolic-ref HEAD refs/heads/topic", ""),
    "the branch under HEAD forward": (
        "git update-ref -m x refs/heads/main ahead",
        "git commit -qm y; git branch ahead; git reset -q --hard HEAD~1",
    ),
    "the branch under a work tree's HEAD": (
        "git update-ref -m x refs/heads/side main",
        "git worktree add -q -b side wt2 HEAD~1",
    ),
    "HEAD alone to another commit": ("o=$(git rev-parse topic); echo $o > .git/HEAD", ""),
    "a link among references": ("ln -s main .git/refs/heads/link", ""),
    "a link among objects": ("mv .git/objects/pack .git/objects/p; ln -s p .git/objects/pack", ""),
    "a work tree that is detached": ("git worktree remove --force wt", ""),
    "the folder of a work tree": ("rm -rf .git/worktrees/wt", ""),
    "the reflog of a work tree": (": > .git/worktrees/wt/logs/HEAD", ""),
    "HEAD of a work tree": ("echo ref: refs/heads/none > .git/worktrees/wt/HEAD", ""),
    "the index of a work tree": ("rm .git/worktrees/wt/index", ""),
    "objects of a nested one": ("find in/ner/.git/objects -type f -delete", ""),
    "a branch of a nested one": ("git -C in/ner branch -D topic", ""),
    "references of a bare one": ("rm stored.repo/packed-refs", ""),
    "objects of a bare one": ("find stored.repo/objects -type f -delete", ""),
    "a bare one": ("rm -rf stored.repo", ""),
    "objects of a submodule": ("find .git/modules/sub/objects -type f -delete", ""),
    "the index of a submodule": ("rm .git/modules/sub/index", ""),
    "the folder of a submodule": ("rm -rf .git/modules/sub", ""),
}


@pytest.mark.parametrize("script, prepare", HELD.values(), ids=HELD)
def test_what_only_git_holds_does_not_go_unseen(attempt: Any, script: str, prepare: str) -> None:
    found = attempt(script, prepare)
    assert found.outcome is Outcome.HOLD
    rules = ("git-history", "commit-content", "git-substitutes")
    assert any(held_for(found, rule) for rule in rules), found.message


LANDS = {
    "a commit": "echo x >> a; git commit -qam x",
    "a commit of what is staged": "git commit -qm staged",
    "an amended commit": "echo x >> a; git commit -q --amend -am other",
    "a reset": "git commit -qm y; git reset -q --hard HEAD~1",
    "another branch forward": "git branch lone HEAD~1; git update-ref -m x refs/heads/lone HEAD",
    "a commit by hand": "o=$(git commit-tree -m x -p HEAD $(git write-tree));"
    " git update-ref -m x HEAD $o",
    "a soft reset": "git reset -q --soft HEAD~1",
    "tags of commits": "git tag n1; git tag -a -m x n2; git tag -a -m y n3 n2",
    "a new branch": "git checkout -qb new; echo x > n; git add n; git commit -qm n",
    "another branch": "git checkout -q topic",
    "a branch that is merged, deleted": "git branch -q -d merged",
    "a branch that is behind, deleted": "git branch -q -d behind",
    "a branch renamed": "git branch -m topic other",
    "the branch that is checked out renamed": "git branch -m trunk",
    "a rebase": "git stash -q -- y; git checkout -q topic; git rebase -q main",
    "a merge": "git commit -qm y; git merge -q -m m topic",
    "a pick": "git commit -qm y; git cherry-pick topic",
    "a revert": "git commit -qm y; git revert --no-edit HEAD",
    "a tag": "git tag v3; git tag -a v4 -m v4",
    "a tag of a commit that stays, deleted": "git tag -d v1",
    "a stash": "echo x >> a; git stash -q",
    "a stash of untracked files": "echo x > u; git stash -q -u -- u",
    "a stash that is applied": "git stash pop -q",
    "a stash that is applied to what changed": "sed -i 1iup a; git commit -qm up a;"
    " git stash pop -q",
    "packed references": "git pack-refs --all --prune",
    "packed objects": "git repack -adq; git prune-packed",
    "all packed": "git -c gc.writeCommitGraph=false gc -q",
    "what nothing reaches goes": "echo x | git hash-object -w --stdin > ../n;"
    " git prune --expire=now",
    "a work tree": "git worktree add -q ../made-wt -b new; git worktree list",
    "something unstaged": "git reset -q y",
    "something taken out of the index": "git rm -q --cached a",
    "a file renamed": "git mv a z; git commit -qm z",
    "a first push": "git push -q ../ws/stored.repo main:refs/heads/pushed",
    "a commit in a nested one": "cd in/ner; echo x >> a; git commit -qam x",
    "a commit in a submodule": "cd sub; echo x >> a; git commit -qam x",
    "a commit in a work tree": "cd wt; git checkout -q wtb; echo x >> a; git commit -qam x",
    "a note": "git notes add -m note",
    "a bisection": "git bisect start HEAD HEAD~2; git bisect reset",
}


CONCLUDED = {
    "a merge is concluded": ("echo both > a; git add a; git commit -qm merged", UNDER_MERGE),
    "a merge is taken back": ("git merge --abort", UNDER_MERGE),
    "a merge is reset": ("git reset -q --hard", UNDER_MERGE),
    "a file of a merge is resolved": ("echo both > a; git add a", UNDER_MERGE),
    "a pick is concluded": ("echo both > a; git add a; git commit -qm picked", UNDER_PICK),
    "a pick is taken back": ("git cherry-pick --abort", UNDER_PICK),
    "a pick is left out": ("git cherry-pick --skip", UNDER_PICK),
    "something staged goes into a commit elsewhere": (
        "git checkout -q -b new; git commit -qm new; git checkout -q main",
        "git reset -q; git add y",
    ),
    "HEAD to a branch at the same commit": (
        "git symbolic-ref HEAD refs/heads/same",
        "git branch same",
    ),
    "HEAD of a bare one": ("git -C stored.repo symbolic-ref HEAD refs/heads/topic", ""),
    "another branch and its files": ("git checkout -q --detach topic", ""),
}


@pytest.mark.parametrize("script, prepare", CONCLUDED.values(), ids=CONCLUDED)
def test_what_was_begun_is_concluded_or_taken_back(attempt: Any, script: str, prepare: str) -> None:
    found = attempt(script, prepare)
    assert held_for(found, "git-history") == []
    assert held_for(found, "commit-content") == []


@pytest.mark.parametrize("script", LANDS.values(), ids=LANDS)
def test_what_git_does_every_day_loses_nothing(attempt: Any, script: str) -> None:
    found = attempt(script)
    assert held_for(found, "git-history") == []
    assert held_for(found, "commit-content") == []
