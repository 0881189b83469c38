# SPDX-License-Identifier: Apache-2.0
"""A held call could not be landed, nor a landed one undone, in the moment after it returned: how
it had ended was written by another thread."""

from __future__ import annotations

from tests.container.lab import Lab


def test_a_held_call_can_be_landed_at_once(lab: Lab) -> None:
    for number in range(10):
        done = lab.sh(f"mv README.md other; mv other README.md; echo {number} > n; rm -f tool.sh")
        if done.judgement == "hold":
            lab.run(lab.supervisor.land(done.id))
        (lab.ws / "tool.sh").write_text("again\n")
        assert lab.text("n") == f"{number}\n"


def test_a_landed_call_can_be_undone_at_once(lab: Lab) -> None:
    for number in range(10):
        done = lab.sh(f"echo {number} > n")
        lab.run(lab.supervisor.undo(done.id))
        assert not (lab.ws / "n").exists()
