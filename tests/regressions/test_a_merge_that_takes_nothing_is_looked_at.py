# SPDX-License-Identifier: Apache-2.0
"""A script noted a merge as begun: the person's next commit gave up all that a branch had done."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy.model import Outcome
from tests.gitchanges import held_for, judge_script, make_repository

SCRIPT = """
git init -q -b main; git config user.name x; mkdir -p d in
seq 20 > a; echo b > b; echo c > c; echo x > d/x; echo y > d/y; echo o > in/one; git add -A
git commit -qm base; git checkout -qb other
echo theirs >> a; echo new > new; git rm -q c; echo z > d/z; git add -A; git commit -qm theirs
git checkout -q main; git tag -a -m v v1 other
git checkout -qb renamed main; git mv d e; git commit -qam renamed
git checkout -qb clash main; sed -i 1iours a; echo ours >> b; git commit -qam ours
git checkout -qb conflict main; sed -i '$d' a; echo ours >> a; git commit -qam ours
git checkout -qb crossed main; git merge -q --no-ff -m m other~0; git checkout -q main
git checkout -qb behind main; git checkout -q --orphan alien; git rm -qrf .; echo a > alien
git add alien; git commit -qm alien; git checkout -q main; echo m > m; git add m; git commit -qm m
"""
NOTED = "git rev-parse {} > .git/MERGE_HEAD; echo m > .git/MERGE_MSG; : > .git/MERGE_MODE"
BY_HAND = {
    "a merge by hand": NOTED.format("other"),
    "of a branch with nothing staged of it but a file": f"{NOTED.format('other')};"
    " git show other:new > new; git add new",
    "with something else staged": f"{NOTED.format('other')}; echo x >> b; git add b",
    "all but what was deleted": "git merge -q --no-commit other; git reset -q HEAD -- c",
    "all but what was changed": "git merge -q --no-commit other; git reset -q HEAD -- a",
    "by the strategy that takes nothing": "git merge -q -s ours --no-commit other",
    "of what is merged already": NOTED.format("behind"),
    "of a tag": NOTED.format("v1"),
    "of an alien branch": NOTED.format("alien"),
    "one more beside a true one": "git merge -q --no-commit other;"
    " git rev-parse alien >> .git/MERGE_HEAD",
    "in a linked work tree": "git worktree add -q -b wt wt; git commit -q --allow-empty -m x;"
    " git rev-parse other > .git/worktrees/wt/MERGE_HEAD; touch .git/worktrees/wt/MERGE_M{SG,ODE}",
}
EVERYDAY = {
    "a merge that waits": "git merge -q --no-commit other",
    "a merge of what is ahead": "git checkout -q behind; git merge -q --no-ff --no-commit other",
    "a merge of a tag": "git merge -q --no-commit v1",
    "a merge that stops": "git checkout -q conflict; ! git merge -q other",
    "that stops, and is mended in part": "git checkout -q conflict; ! git merge -q other;"
    " git show other:a > a; git add a; echo more >> new; git add new",
    "of lines of one file": "git checkout -q clash; git merge -q --no-commit other",
    "into folders of other names": "git checkout -q renamed;"
    " git -c merge.directoryRenames=true merge -q --no-commit other",
    "of folders of other names": "git checkout -q other;"
    " git -c merge.directoryRenames=true merge -q --no-commit renamed",
    "of both, crosswise": "git checkout -q crossed; echo q > q; git add q; git commit -qm q;"
    " git merge -q --no-commit main",
    "of an alien branch": "git merge -q --allow-unrelated-histories --no-commit alien",
    "of two branches": "git merge -q --no-commit other alien 2>&1 || true;"
    " git branch -q two main~1; git merge -q --no-commit other two",
    "in a linked work tree": "git worktree add -q -b wt wt; cd wt; git merge -q --no-commit other",
    "in a sparse index": "git update-index -q --refresh; git config index.sparse true;"
    " git sparse-checkout set --cone in; git merge -q --no-commit other;"
    " git ls-files --sparse > l; grep -q /$ l",
    "preferring one side": "git checkout -q conflict; git merge -q -X ours --no-commit other",
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_repository(tmp_path_factory, SCRIPT)


@pytest.mark.parametrize("script", BY_HAND.values(), ids=BY_HAND)
def test_what_takes_less_than_a_merge_waits(repository: Path, tmp_path: Path, script: str) -> None:
    found = judge_script(repository, tmp_path, script)
    assert found.outcome is Outcome.HOLD
    assert any("MERGE_HEAD" in one for one in held_for(found, "git-history")), found.message


@pytest.mark.parametrize("script", EVERYDAY.values(), ids=EVERYDAY)
def test_what_a_merge_leaves_lands(repository: Path, tmp_path: Path, script: str) -> None:
    found = judge_script(repository, tmp_path, script)
    assert held_for(found, "git-history") == [], found.message


BEGUN = "git merge -q --no-commit other"
LATER = {
    "one file of it put back": "git reset -q -- a; git checkout -q -- a",
    "a deletion of it put back": "git reset -q -- c",
    "what it added taken out": "git rm -qf --cached new",
    "all of it": "git read-tree HEAD",
}
GOES_ON = {
    "a further edit": "echo more >> new; git add new",
    "something else staged": "echo more >> b; git add b",
    "the commit": "git commit -qm merged",
    "the merge taken back": "git update-index -q --refresh; git merge --abort",
}


@pytest.mark.parametrize("script", LATER.values(), ids=LATER)
def test_a_merge_under_way_keeps_what_it_took(
    repository: Path, tmp_path: Path, script: str
) -> None:
    found = judge_script(repository, tmp_path, script, prepare=BEGUN)
    assert found.outcome is Outcome.HOLD
    assert any(".git/index" in one for one in held_for(found, "git-history")), found.message


@pytest.mark.parametrize("script", GOES_ON.values(), ids=GOES_ON)
def test_a_merge_under_way_goes_on(repository: Path, tmp_path: Path, script: str) -> None:
    found = judge_script(repository, tmp_path, script, prepare=BEGUN)
    assert held_for(found, "git-history") == [], found.message
