# SPDX-License-Identifier: Apache-2.0
"""Git on the host after a call committed in a cell: everything clean, undo works, secrets stay."""

from __future__ import annotations

import os
import subprocess

import pytest

from sandbox.errors import BadInput
from tests.container.lab import OWNERS, Lab, give


@pytest.fixture
def lab(shared_lab: Lab) -> Lab:
    """Return the lab of all tests here that need nothing special."""
    return shared_lab


COMMIT = "git -c user.name=A -c user.email=a@example.invalid commit -q -m cell"


def _tracked_secret(lab: Lab) -> None:
    lab.git("add", "-f", ".env")
    lab.git("commit", "-q", "-m", "a secret, by mistake")
    give(lab.ws, lab.ws.stat().st_uid)


@pytest.mark.parametrize("owner", OWNERS)
def test_a_commit_of_everything_does_not_remove_a_tracked_secret(lab: Lab) -> None:
    _tracked_secret(lab)
    before = lab.git("rev-parse", "HEAD")
    for command in (f"{COMMIT} -a", f"git add -A; {COMMIT}"):
        done = lab.sh(f"echo more >> README.md; {command}")
        assert (done.exit_status, done.judgement, done.landed) == (0, "hold", False)
        assert "hidden-tracked" in done.message
        assert "`.env`" in done.message
        assert "git commit FILE" in done.message
    assert lab.git("rev-parse", "HEAD") == before
    assert ".env" in lab.git("ls-files")


@pytest.mark.parametrize("owner", OWNERS)
def test_a_commit_of_named_files_lands_beside_a_tracked_secret(lab: Lab) -> None:
    _tracked_secret(lab)
    for command in (f"{COMMIT} README.md", f"git add README.md; {COMMIT}"):
        done = lab.sh(f"echo more >> README.md; {command}")
        assert (done.exit_status, done.judgement) == (0, "land")
        assert ".env" in lab.git("ls-tree", "--name-only", "HEAD")
    assert lab.git("status", "--short") == ""
    refreshed = lab.sh("touch -d @1700000000 README.md; git update-index -q --refresh || true")
    assert (refreshed.exit_status, refreshed.judgement) == (0, "land")


@pytest.mark.parametrize("owner", OWNERS)
def test_a_commit_is_clean_outside_and_undone_after_a_persons_status(lab: Lab) -> None:
    lab.git("status", "--short")
    owner = lab.ws.stat()
    # the index alone: to give a file to its owner again changes its ctime, which git compares
    os.chown(lab.ws / ".git/index", owner.st_uid, owner.st_gid)
    head, before = lab.git("rev-parse", "HEAD"), lab.text("README.md")
    done = lab.sh(f"echo more >> README.md; echo new > new.txt; git add new.txt; {COMMIT} -a")
    assert (done.exit_status, done.judgement, done.landed) == (0, "land", True)
    _clean(lab)
    index = lab.ws / ".git" / "index"
    assert index.stat().st_uid == lab.ws.stat().st_uid
    committed = lab.git("rev-parse", "HEAD")
    assert committed != head
    call = done.id
    for wanted in (head, committed, head):
        inode = index.stat().st_ino
        (lab.ws / "tool.sh").touch()
        lab.git("status")
        assert index.stat().st_ino != inode
        undone = lab.run(lab.supervisor.undo(call))
        assert lab.git("rev-parse", "HEAD") == wanted
        assert lab.git("diff-files", "README.md") == ""
        assert lab.git("status", "--short") == ""
        call = undone.id
    assert lab.text("README.md") == before


@pytest.mark.parametrize("owner", OWNERS)
def test_an_entry_added_after_a_commit_still_stops_its_undo(lab: Lab) -> None:
    done = lab.sh(f"echo more >> README.md; {COMMIT} -a")
    assert done.landed
    (lab.ws / "mine.txt").write_text("mine\n")
    lab.git("add", "mine.txt")
    with pytest.raises(BadInput, match=r"\.git/index"):
        lab.run(lab.supervisor.undo(done.id))
    assert lab.git("diff", "--cached", "--name-only") == "mine.txt\n"


EVIL = "evil=$(echo evil | git hash-object -w --stdin)"
PAST = f"{EVIL}; export GIT_INDEX_FILE=/tmp/index; git read-tree HEAD"
PROTECTED = "100644,$evil,devkit.config.json"
WRITE_IT = (
    f"{PAST}; git update-index --cacheinfo {PROTECTED}; t=$(git write-tree);"
    " c=$(git -c user.name=A -c user.email=a@example.invalid commit-tree -p HEAD -m x $t)"
)


@pytest.mark.parametrize("owner", OWNERS)
def test_a_commit_past_the_index_with_another_protected_file_is_held(lab: Lab) -> None:
    head = lab.git("rev-parse", "HEAD")
    for command in (f"{WRITE_IT}; git update-ref refs/heads/main $c", WRITE_IT):
        done = lab.sh(command)
        assert (done.exit_status, done.judgement, done.landed) == (0, "hold", False)
        assert "`devkit.config.json`: a new commit holds it" in done.message
    assert lab.git("rev-parse", "HEAD") == head


@pytest.mark.parametrize("owner", OWNERS)
def test_ordinary_work_with_git_lands(lab: Lab) -> None:
    work = (
        f"echo x >> README.md; {COMMIT} README.md",
        f"git checkout -q -b topic; echo y > y.txt; git add y.txt; {COMMIT} y.txt",
        "git -c user.name=A -c user.email=a@example.invalid merge -q --no-ff -m merged topic",
    )
    for command in work[:2]:
        done = lab.sh(command, derived_from="deletes")
        assert (done.exit_status, done.judgement, done.message) == (0, "land", "")
    lab.git("checkout", "-q", "--", "devkit.config.json")  # the person takes a change back
    for command in ("git checkout -q main", work[2]):
        done = lab.sh(command, derived_from="deletes")
        assert (done.exit_status, done.judgement, done.message) == (0, "land", "")
    assert lab.git("log", "-1", "--format=%s") == "merged\n"
    lab.git("fsck", "--strict", "--no-dangling")


@pytest.mark.parametrize("owner", OWNERS)
def test_files_that_an_older_setting_names_are_held(lab: Lab) -> None:
    command = "mkdir -p tools/gates; echo exit >> tools/gates/pre-commit"
    assert lab.sh(command).landed
    lab.git("config", "core.hooksPath", "tools/gates")
    give(lab.ws, lab.ws.stat().st_uid)
    done = lab.sh(command)
    assert (done.judgement, done.landed) == ("hold", False)
    assert "`core.hookspath` is set to it" in done.message
    assert lab.sh("echo x > tools/other").landed


def _clean(lab: Lab) -> None:
    """Assert that git finds nothing changed without refreshing its index."""
    lab.git("diff-index", "--quiet", "HEAD")
    assert lab.git("diff-files") == ""
    lab.git("fsck", "--strict", "--no-dangling")
    status = (lab.ws / "README.md").stat()
    shown = lab.git("ls-files", "--debug", "README.md")
    assert f"ino: {status.st_ino}" in shown
    assert f"size: {status.st_size}" in shown


def test_commits_in_a_sparse_index_land(lab: Lab) -> None:
    script = (
        "mkdir -p near far/c; echo 1 >near/1; echo 2 >far/c/2; git add near far; git commit -qm a;"
        "git sparse-checkout set --cone --sparse-index near"
    )
    subprocess.run(script, shell=True, cwd=lab.ws, check=True)
    done = lab.sh("echo z >> near/1; git commit -qam z")
    assert done.landed, done.message
    look = ["git", "ls-files", "--sparse", "-s", "far/"]
    kept = subprocess.run(look, cwd=lab.ws, check=True, capture_output=True, text=True).stdout
    assert kept.startswith("040000 ")
    assert subprocess.run(["git", "fsck"], cwd=lab.ws, check=False).returncode == 0
