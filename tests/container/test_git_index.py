# SPDX-License-Identifier: Apache-2.0
"""Git on the host after a call committed in a cell: everything clean, undo works, secrets stay."""

from __future__ import annotations

import pytest

from sandbox.errors import BadInput
from tests.container.lab import OWNERS, Lab, give

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
    give(lab.ws, lab.ws.stat().st_uid)
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


def _clean(lab: Lab) -> None:
    """Assert that git finds nothing changed without refreshing its index."""
    lab.git("diff-index", "--quiet", "HEAD")
    assert lab.git("diff-files") == ""
    lab.git("fsck", "--strict", "--no-dangling")
    status = (lab.ws / "README.md").stat()
    shown = lab.git("ls-files", "--debug", "README.md")
    assert f"ino: {status.st_ino}" in shown
    assert f"size: {status.st_size}" in shown
