# SPDX-License-Identifier: Apache-2.0
"""A tree deeper than can be listed ends its call with one clear line, and the next calls go on."""

from __future__ import annotations

import os

from policy.model import Outcome
from sandbox.cell.journal.removal import remove
from sandbox.results import CallResult
from tests.container.lab import Lab

DEEP = """python3 - <<'X'
import os
for level in range({levels}):
    os.mkdir({name})
    os.chdir({name})
X
"""
TREES = {
    "4,000 levels": (4_000, "'d'"),
    "names as long as they get, beyond what a path may hold": (40, "'n' * 255"),
}


def _discarded(done: CallResult) -> bool:
    line = "discarded, nothing landed: what it changed cannot be listed: "
    return (done.judgement, done.landed) == (
        Outcome.DISCARD.value,
        False,
    ) and done.message.startswith(line)


def test_what_is_too_deep_is_discarded_and_the_workspace_goes_on(lab: Lab) -> None:
    for what, (levels, name) in TREES.items():
        done = lab.sh(DEEP.format(levels=levels, name=name))
        assert _discarded(done), (what, done.message, done.stderr)
        assert "\n" not in done.message
        after = lab.sh(f"echo {levels} > after.txt; ls")
        assert after.landed, (what, after.message)
        assert "d" not in (after.stdout or "").split()
        assert lab.text("after.txt") == f"{levels}\n"

    done = lab.sh(DEEP.format(levels=290, name="'d'"))
    assert done.landed, done.message
    assert (lab.ws / "d" / "d").is_dir()
    lab.run(lab.supervisor.undo(done.id))
    assert not (lab.ws / "d").exists()


def test_a_persons_deep_tree_does_not_stop_calls(lab: Lab) -> None:
    here = os.open(lab.ws, os.O_DIRECTORY)
    for _ in range(900):
        os.mkdir("p", dir_fd=here)
        inner = os.open("p", os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    moved = lab.sh("mv p q", derived_from="deletes")
    assert _discarded(moved), moved.message
    removed = lab.sh("rm -rf p", derived_from="deletes")
    assert _discarded(removed), removed.message
    assert (lab.ws / "p" / "p").is_dir()
    done = lab.sh("echo x > p/x; echo y > p/p/p/p/y")
    assert done.landed, done.message
    remove(str(lab.ws), "p")  # deeper than what pytest tidies up with goes
