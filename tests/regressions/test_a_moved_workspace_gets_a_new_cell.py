# SPDX-License-Identifier: Apache-2.0
"""When another folder had taken the place of a workspace, a warm cell went on landing in the old
one, which had been moved away."""

from __future__ import annotations

from tests.container.lab import Lab, repository


def test_a_call_acts_on_what_stands_at_the_path(lab: Lab, owner: int) -> None:
    assert lab.sh("echo one > one.txt").landed
    old = lab.ws.rename(lab.ws.with_name("old"))
    repository(lab.ws, owner)
    assert lab.sh("ls one.txt; echo two > two.txt").exit_status == 0
    assert [(folder / "two.txt").exists() for folder in (old, lab.ws)] == [False, True]
