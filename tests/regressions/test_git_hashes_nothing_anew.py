# SPDX-License-Identifier: Apache-2.0
"""Where root owns the workspace, git in a cell took every file for changed, since the index keeps
owners: each call hashed the whole repository and landed a new index."""

from __future__ import annotations

import pytest

from tests.container.lab import OWNERS, Lab, give


@pytest.mark.parametrize("owner", OWNERS)
def test_git_status_in_a_cell_leaves_the_index_as_it_is(lab: Lab) -> None:
    lab.git("status")
    give(lab.ws, lab.ws.stat().st_uid)
    index = (lab.ws / ".git" / "index").read_bytes()
    for _ in range(2):
        done = lab.sh("git status --short; git config user.name; true")
        assert done.changes == ()
    assert (lab.ws / ".git" / "index").read_bytes() == index


def test_git_in_a_cell_still_sees_a_change_of_the_same_size(lab: Lab) -> None:
    for number in range(5):
        (lab.ws / "README.md").write_text(f"Hell{number}\nworld\nagain\n")
        assert lab.read("git status --short").stdout == " M README.md\n"
