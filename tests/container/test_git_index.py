# SPDX-License-Identifier: Apache-2.0
"""Git on the host after a call committed in a cell: everything clean, undo works, secrets stay."""

from __future__ import annotations

import pytest

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
