# SPDX-License-Identifier: Apache-2.0
"""What a git repository holds stays, in real cells: deletions are held, undoing breaks nothing."""

from __future__ import annotations

import pytest

from sandbox.errors import BadInput
from tests.container.lab import Lab, git, give

GIT = "git -c user.name=A -c user.email=a@example.invalid"
HELD = {
    "every object": "find .git/objects -type f -delete",
    "the folder of objects moved": "mv .git/objects .git/old; mkdir .git/objects",
    "the folder of references moved": "mv .git/refs x; mkdir -p .git/refs/heads",
    "a branch": "git branch -D topic",
    "a reflog": "rm .git/logs/HEAD",
    "a stash": "git stash drop -q",
    "the index": "rm .git/index",
    "unreadable objects": "chmod 000 .git/objects/??",
    "objects of a repository in it": "find in/objects -type f -delete",
    "the workspace's repository moved": "mv .git x; git init -q",
}
LANDS = {
    "a stash that is applied": "git stash pop -q; git stash -q",
    "all packed": f"{GIT} repack -adq; git prune-packed; git pack-refs --all --prune",
    "a branch deleted": "git branch -q -d merged",
    "an amended commit": f"echo x >> README.md; {GIT} commit -q --amend -am other",
}


def test_what_only_git_holds_stays(lab: Lab) -> None:
    lab.git("checkout", "-q", "-b", "topic")
    (lab.ws / "README.md").write_text("topic\n")
    lab.git("commit", "-q", "-a", "-m", "topic")
    lab.git("checkout", "-q", "main")
    lab.git("branch", "merged", "HEAD~1")
    (lab.ws / "README.md").write_text("Hello\nworld\nstashed\n")
    lab.git("stash")
    git(lab.ws.parent, "clone", "-q", "--bare", str(lab.ws), str(lab.ws / "in"))
    give(lab.ws, lab.ws.stat().st_uid)
    for name, script in HELD.items():
        done = lab.sh(script)
        assert (name, done.exit_status, done.judgement) == (name, 0, "hold")
        assert "(git-history)" in done.message or "(repository)" in done.message, name
        lab.run(lab.supervisor.discard(done.id))
    for name, script in LANDS.items():
        done = lab.sh(script)
        assert (name, done.exit_status, done.message, done.landed) == (name, 0, "", True)
    lab.git("fsck", "--strict")


def test_an_undo_takes_no_object_that_is_reached(lab: Lab) -> None:
    """The person made a branch of a call's commit: to undo the call would break that branch."""
    made = f"git checkout -q -b topic; echo x > x; git add x; {GIT} commit -qm x"
    done = lab.sh(f"{made}; git checkout -q main")
    assert (done.message, done.landed) == ("", True)
    before = lab.git("rev-parse", "main")
    undone = lab.run(lab.supervisor.undo(done.id))  # nobody has built upon it
    again = lab.run(lab.supervisor.undo(undone.id))
    lab.git("update-ref", "refs/heads/mine", "topic")
    with pytest.raises(BadInput, match=r"\.git/objects"):
        lab.run(lab.supervisor.undo(again.id))
    lab.git("fsck", "--strict")
    lab.git("update-ref", "-d", "refs/heads/mine")
    lab.run(lab.supervisor.undo(again.id))
    assert lab.git("rev-parse", "main") == before
    lab.git("fsck", "--strict")
