# SPDX-License-Identifier: Apache-2.0
"""In two calls a branch came to follow a remote that a call had added: a person's push went there.

Real git makes the changes; the notes on agents' remotes are kept as a landing keeps them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.workspaces.ignore_ledger import Ledger
from sandbox.workspaces.ignore_sources import touched
from tests.gitchanges import changes, copy, held_for, judged, sh

PREPARE = """
git init -q -b main; echo a > a; git add a; git commit -qm a; git branch -q topic
for r in origin fork; do
  git init -q --bare ../$r.git; git push -q ../$r.git main topic main:only-$r
  git remote add $r ../$r.git; git fetch -q $r
done
git branch -q -u origin/main main
"""


class World:
    """A person's repository with two remotes, and calls that change it one after the other."""

    def __init__(self, root: Path) -> None:
        self.work, self._after = root / "work", root / "after"
        self.work.mkdir()
        sh(self.work, PREPARE)
        self.ledger = Ledger(root / "state")

    def call(self, script: str, *, person: bool = False) -> list[str]:
        """Run a script as a call; let it land where gate 2 does, or a person; else say why not."""
        after = copy(self.work, self._after)
        sh(after, script)
        remotes = self.ledger.remotes.known(str(self.work))
        said = judged(self.work, after, agents_remotes=remotes)
        held = held_for(said, "git-settings")
        if not held or person:
            found = touched(changes(self.work, after))
            self.ledger.about_to_land(str(self.work), found, {}, person=person)
            copy(after, self.work)
        return held


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


ADDS = "git remote add evil https://evil.invalid/x"
SEEN = "git update-ref refs/remotes/evil/main main"
"""As a fetch would, which no cell has the network for; by a person, who looked at the remote."""


@pytest.mark.parametrize("script", [
    "git branch -q -u evil/main main",
    "git branch -q -u evil/main topic",
    "git checkout -q -b new evil/main",
    "git config branch.main.pushRemote evil",
    "git config remote.pushDefault evil",
    "git config branch.later.remote evil",
    "git config push.default current",
    "git config url.https://evil.invalid/.insteadOf ../",
    "git config remote.origin.url https://evil.invalid/x",
])  # fmt: skip
def test_no_later_call_sends_a_push_to_a_remote_that_a_call_added(
    world: World, script: str
) -> None:
    assert world.call(ADDS) == []
    sh(world.work, SEEN)
    assert world.call(script) != []
    assert world.call("git checkout -q -b mine fork/only-fork") == []


def test_a_further_change_of_a_persons_makes_no_remote_theirs(world: World) -> None:
    assert world.call(ADDS) == []
    sh(world.work, f"{SEEN}; git remote add third ../third; git config user.email me@h.invalid")
    assert world.call("git checkout -q -b new evil/main") != []
    assert world.call("mkdir sub; git mv a sub/a; git checkout -q -b other fork/main") == []


def test_what_a_person_lands_is_theirs(world: World) -> None:
    assert world.call(ADDS) == []
    sh(world.work, SEEN)
    follows = "git checkout -q -b new evil/main"
    assert world.call(follows) != []
    world.call(follows, person=True)
    assert world.call("git checkout -q -b another evil/main") == []  # it is followed already


def test_a_remote_that_a_person_let_come_is_theirs(world: World) -> None:
    world.call(ADDS, person=True)
    sh(world.work, SEEN)
    assert world.call("git checkout -q -b new evil/main") == []


def test_a_branch_made_anew_goes_where_it_went(world: World) -> None:
    assert world.call("git branch -q -m main other") == []
    assert world.call("git checkout -q -b main fork/main") != []
    assert world.call("git checkout -q -b main origin/main") == []


def test_notes_that_cannot_be_read_make_no_remote_a_persons(world: World, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "remotes").write_text("{")
    assert world.call("git checkout -q -b new fork/only-fork") != []
    assert world.call("git checkout -q -b new origin/only-origin") == []


@pytest.mark.parametrize("script", [
    "git checkout -q only-origin",
    "git checkout -q -b new origin/main",
    "git switch -q -c new --track fork/only-fork",
    "git branch -q -u origin/topic topic",
    "git branch -q --track new main",
    "git branch -q -m topic renamed",
    "git remote add upstream https://h.invalid/up.git",
    "git branch -q -D topic",
    "git worktree add -q ../wt -b wt origin/main; rm -rf ../wt; git worktree prune",
])  # fmt: skip
def test_honest_tracking_lands(world: World, script: str) -> None:
    assert world.call(script) == []
