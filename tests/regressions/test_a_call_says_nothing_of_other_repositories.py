# SPDX-License-Identifier: Apache-2.0
"""A call moved what stands for a remote's branches: git called pushed what was not.

The same of tags that name a folder, in a repository that a call makes: nothing compared it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from policy.gate2.judge import judge
from policy.model import Change, FileType, Kind
from tests.gitchanges import DECISION, POLICY, held_for, judge_script, make_repository

PREPARE = """
git init -q -b main; echo a > a; git add a; git commit -qm a
git init -q --bare inner.git; git init -q --bare ../outer.git
for r in ../outer.git inner.git; do git push -q $r main; done
git remote add origin ../outer.git; git remote add inner ./inner.git
git fetch -q origin; git fetch -q inner; echo b >> a; git commit -qam b; git branch -q old main~1
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_repository(tmp_path_factory, PREPARE)


def said(repository: Path, tmp_path: Path, script: str, prepare: str = "true") -> list[str]:
    found = judge_script(repository, tmp_path, script, prepare)
    return [*held_for(found, "git-folder"), *held_for(found, "git-history")]


NOT_FETCHED = {
    "moved": "git update-ref refs/remotes/origin/main main",
    "made": "git update-ref refs/remotes/origin/new main",
    "taken away": "git update-ref -d refs/remotes/origin/main",
    "moved in the list": "git update-ref refs/remotes/origin/main main; git pack-refs --all",
    "its HEAD": "git remote set-head origin main",
    "of no remote": "git update-ref refs/remotes/nobody/main main",
}


@pytest.mark.parametrize("script", NOT_FETCHED.values(), ids=NOT_FETCHED)
def test_what_was_not_fetched_is_held(repository: Path, tmp_path: Path, script: str) -> None:
    assert any("another repository" in one for one in said(repository, tmp_path, script))


def test_an_older_one_behind_it_does_not_come_back(repository: Path, tmp_path: Path) -> None:
    prepare = "git pack-refs --all; git update-ref refs/remotes/origin/main main"
    found = said(repository, tmp_path, "rm .git/refs/remotes/origin/main", prepare)
    assert any("another repository" in one for one in found)
    assert said(repository, tmp_path, "git pack-refs --all", prepare) == []


LANDS = {
    "fetched from the workspace": "git push -q inner main:new; git fetch -q inner",
    "pushed in the workspace": "git push -q inner main",
    "packed": "git pack-refs --all --prune",
    "collected": "git gc -q",
    "a clone": "git clone -q . sub/clone; git -C sub/clone tag -a v1 -m v1",
    "a commit": "echo x >> a; git commit -qam x; git tag v2",
}


@pytest.mark.parametrize("script", LANDS.values(), ids=LANDS)
def test_what_git_does_within_the_workspace_lands(
    repository: Path, tmp_path: Path, script: str
) -> None:
    assert said(repository, tmp_path, script) == []


@pytest.mark.parametrize("tag", ["git tag v1 HEAD^{tree}", "git tag -a -m x v1 HEAD^{tree}"])
def test_no_tag_of_a_new_repository_names_a_folder(
    repository: Path, tmp_path: Path, tag: str
) -> None:
    made = "git clone -q . sub/clone; cd sub/clone"
    assert any("names no commit" in one for one in said(repository, tmp_path, f"{made}; {tag}"))
    assert said(repository, tmp_path, f"{made}; git tag v1 HEAD") == []


@pytest.mark.parametrize("address, lands", [
    ("/w/inner.git", True), ("../x.git", True), ("file:///w/inner.git", True),
    ("/elsewhere/x.git", False), ("../../x.git", False), ("https://h.invalid/w", False),
    ("h.invalid:w", False), ("file://h/w", False), ("", False), ("/w/../x", False),
    ("/workspace/x", False),
])  # fmt: skip
def test_only_a_folder_of_the_workspace_can_be_fetched_from(address: str, lands: bool) -> None:
    path = "sub/.git/refs/remotes/origin/main"
    tracked = (("refs/remotes/origin/main", address),)
    moved = Change(
        path,
        Kind.CREATED,
        FileType.FILE,
        git_folders=("sub/.git",),
        mode=0o644,
        git_text="1" * 40,
        git_tracked=tracked,
    )
    outcome = judge(DECISION, [moved], POLICY, workspace="/w").outcome.value
    assert outcome == ("land" if lands else "hold")
