# SPDX-License-Identifier: Apache-2.0
"""In a cell: what everyday git leaves lands, and what a person's git would run or obey waits."""

from __future__ import annotations

import shlex
from pathlib import Path

from tests.container.lab import Lab, give

ME = "export GIT_{AUTHOR,COMMITTER}_NAME=a GIT_{AUTHOR,COMMITTER}_EMAIL=a@b.invalid; set -e; "
EVERYDAY = (
    "git checkout -q -b topic; echo 1 >one; git add one; git commit -qm one; git tag v1",
    "git worktree add -q wt -b side; echo 2 >wt/two; git -C wt add two; git -C wt commit -qm two",
    "git merge -q --no-ff -m merged side; git worktree remove wt; git branch -d side",
    "echo 3 >>one; git stash -q; git stash pop -q; git commit -qam three; git rebase -q main",
    "git checkout -q main; echo 4 >one; git add one; git commit -qm four",
    "! git merge topic",
    "echo 5 >one; git add one; git commit -qm five; git gc -q",
    "git init -q --bare store.git; git push -q ./store.git main",
    "mkdir thin; echo 6 >thin/x; git add thin; git commit -qm thin; git sparse-checkout set thin",
    "git sparse-checkout disable; git reset -q --hard HEAD~1; git branch -D topic",
)
OBEYED = (
    "GIT_SEQUENCE_EDITOR=\"printf 'break\\nexec touch PWNED\\n' >\" git rebase -qi HEAD~1",
    "printf 'exec touch PWNED\\n' >>.git/rebase-merge/git-rebase-todo",
    "git rebase --abort",
    "echo '* -text' >.git/info/attributes",
    "mkdir .git/remotes; echo 'URL: https://evil.invalid' >.git/remotes/origin",
    "git config user.email other@b.invalid",
    "git config --unset core.hooksPath",
    "git config branch.main.remote https://evil.invalid",
    "git update-index --skip-worktree README.md; echo hidden >README.md",
    "git update-index --assume-unchanged README.md; echo hidden >README.md",
    "git rev-parse HEAD >.git/MERGE_HEAD",
    "git tag main",
    "b=$(echo x | git hash-object -w --stdin);"
    " git update-index --add --cacheinfo 100644,$b,.githooks/x",
    "cd store.git; b=$(echo x | git hash-object -w --stdin); export GIT_INDEX_FILE=/tmp/i;"
    " git update-index --add --cacheinfo 100644,$b,.githooks/x;"
    " git commit-tree -m x $(git write-tree)",
    "git -C store.git config core.fsmonitor ./x",
    "git init -q new; git -C new config core.fsmonitor ./x",
)


def test_what_lands_of_git_and_what_waits(lab: Lab, owner: int) -> None:
    lab.git("rm", "-q", "--cached", "devkit.config.json")  # no call may check it out
    lab.git("commit", "-q", "-m", "without")
    give(lab.ws, owner)
    for script in EVERYDAY:
        result = lab.sh(ME + script, derived_from="deletes")
        assert (result.exit_status, result.landed) == (0, True), (script, result.message)
    assert lab.git("fsck", "--strict", "--no-dangling") == ""

    lab.git("config", "commit.gpgsign", "true")
    commit = "git -c commit.gpgsign=false commit -q --allow-empty -m"
    result = lab.sh(f"{ME} {commit} unsigned")
    assert (result.landed, "`main` is not signed" in result.message) == (True, True)
    lab.git("config", "--unset", "commit.gpgsign")
    assert lab.sh(f"{ME} {commit} unasked").message == ""

    lab.git("config", "core.hooksPath", "/usr/share/nothing")
    lab.git("-c", "sequence.editor=sed -i 1ibreak", "rebase", "-q", "-i", "HEAD~1")  # a person's
    give(lab.ws, owner)
    before = own(lab.ws / ".git")
    for script in OBEYED:
        result = lab.sh(f"{ME} bash -c {shlex.quote(script)} || true", derived_from="deletes")
        if "rebase -qi" in script:
            continue  # one is under way: git refuses
        assert (result.judgement, result.landed) == ("hold", False), script
    assert own(lab.ws / ".git") == before
    lab.git("rebase", "--quit")
    result = lab.sh(ME + OBEYED[0])
    assert (result.judgement, result.landed) == ("hold", False)


def own(folder: Path) -> dict[str, bytes]:
    """Return what a git folder holds but its objects and its index."""
    files = (one for one in folder.rglob("*") if one.is_file() and one.name != "index")
    return {str(one): one.read_bytes() for one in files if "objects" not in one.parts}
