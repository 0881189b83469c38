# SPDX-License-Identifier: Apache-2.0
"""`ORIG_HEAD` counted as holding commits: a second call wrote over it, and they were lost.

History is held by what `git gc` keeps, and by nothing that every command of git writes over.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gitchanges import held_for, judge_script, make_repository

PREPARE = """
git init -q -b main; echo one > a; git add a; git commit -qm one; echo more >> a
git commit -qam two; git checkout -q -b topic HEAD~1; echo t > t; git add t; git commit -qm topic
git checkout -q main
"""
LONG_AGO = "export GIT_COMMITTER_DATE=@$(( $(date +%s) - 20 * 86400 ))+0000;"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_repository(tmp_path_factory, PREPARE)


def said(repository: Path, tmp_path: Path, script: str, prepare: str = "") -> list[str]:
    """Return what gate 2 says of history after a script."""
    return held_for(judge_script(repository, tmp_path, script, prepare or "true"), "git-history")


LOST = {
    "by ORIG_HEAD": "t=$(git rev-parse main~1); git rev-parse main > .git/ORIG_HEAD;"
    " echo $t > .git/refs/heads/main",
    "by another note": "t=$(git rev-parse main~1); git rev-parse main > .git/REBASE_HEAD;"
    " echo $t > .git/refs/heads/main",
    "by a reflog of nothing": "git update-ref --create-reflog -m x refs/heads/x main;"
    " rm .git/refs/heads/x; git -c core.logAllRefUpdates=false reset -q --hard HEAD~1",
    "by lines that git forgets soon": f"{LONG_AGO} git reset -q --hard HEAD~1",
    "by a line without a time": "git reset -q --hard HEAD~1;"
    " sed -i -E 's/> [0-9]+ /> 0 /' .git/logs/HEAD .git/logs/refs/heads/main",
    "by a work tree that is none": "t=$(git rev-parse main~1); mkdir -p .git/worktrees/x;"
    " git rev-parse main > .git/worktrees/x/HEAD; echo ../.. > .git/worktrees/x/commondir;"
    " echo $t > .git/refs/heads/main",
}
HELD = {
    "a reset": "git reset -q --hard HEAD~1",
    "a soft reset": "git reset -q --soft HEAD~1",
    "an amended commit": "echo x >> a; git commit -qa --amend -m x",
    "a rebase": "git checkout -q topic; git rebase -q main",
    "another branch": "git branch keep; git reset -q --hard HEAD~1",
    "a work tree": "git worktree add -q --detach ../kept main; git reset -q --hard HEAD~1",
}
NO_LOG = "git config core.logAllRefUpdates false; rm -rf .git/logs"


@pytest.mark.parametrize("script", LOST.values(), ids=LOST)
def test_what_git_forgets_holds_nothing(repository: Path, tmp_path: Path, script: str) -> None:
    prepare = NO_LOG if "> .git/refs" in script and "logs" not in script else "rm -r .git/logs"
    assert said(repository, tmp_path, script, prepare)


@pytest.mark.parametrize("script", HELD.values(), ids=HELD)
def test_what_git_keeps_holds_it(repository: Path, tmp_path: Path, script: str) -> None:
    assert said(repository, tmp_path, script) == []


def test_two_calls_lose_nothing_by_what_the_first_left(repository: Path, tmp_path: Path) -> None:
    first = said(repository, tmp_path, "git reset -q --hard HEAD~1", NO_LOG)
    assert "refs/heads/main" in first[0]
    assert said(repository, tmp_path, "git branch keep; git reset -q --hard HEAD~1", NO_LOG) == []


@pytest.mark.parametrize(
    "value, lands", [("now", False), ("5.days", False), ("90.days", True), ("never", True)]
)
def test_reflogs_count_as_long_as_settings_let_git_keep_them(
    repository: Path, tmp_path: Path, value: str, lands: bool
) -> None:
    prepare = f"git config gc.reflogExpireUnreachable {value}"
    found = said(repository, tmp_path, "git reset -q --hard HEAD~1", prepare)
    assert (found == []) is lands
