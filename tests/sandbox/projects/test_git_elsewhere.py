# SPDX-License-Identifier: Apache-2.0
"""Workspaces whose repository lies elsewhere: who says so counts, and what a person must do."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sandbox.agents.peer import Caller
from sandbox.host.dirs import Dirs
from sandbox.projects.git_elsewhere import advice, also_needed, find_elsewhere
from sandbox.questions.plans import Whereabouts, plan_of
from sandbox.workspaces.registry import Registry


def git(folder: Path, *words: str) -> None:
    """Run git."""
    named = ("-c", "user.name=T", "-c", "user.email=t@example.invalid")
    subprocess.run(["git", *named, *words], cwd=folder, check=True, capture_output=True)


class Homes:
    """A home with a repository `shop` and a work tree of it, `feat`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.shop, self.feat = root / "shop", root / "feat"
        self.shop.mkdir()
        git(self.shop, "init", "-q")
        git(self.shop, "commit", "-q", "--allow-empty", "-m", "one")
        git(self.shop, "worktree", "add", "-q", "../feat")
        self.registry = Registry(Dirs.under(root / "lockgate"), home=root)
        self.registry.add(self.feat)

    def holding(self, folder: str) -> str | None:
        """Return the workspace that holds a folder."""
        found = self.registry.holding(folder)
        return None if found is None else found.path

    def also(self) -> tuple[str, ...]:
        """Return what a plan of a call in the work tree has beside it."""
        caller = Caller(None)
        said = {"agent": "main", "tool": "Bash", "params": {"command": "git status"}}
        plan = plan_of(said, caller, Whereabouts.registered(self.registry, str(self.feat)))
        assert plan.workspace == str(self.feat)
        return plan.also

    def advice(self, workspace: Path) -> str:
        """Return what a person is told of a workspace."""
        elsewhere = find_elsewhere(str(workspace))
        assert elsewhere is not None
        return advice(elsewhere, self.registry)


@pytest.fixture
def homes(tmp_path: Path) -> Homes:
    """Return the two folders; only the work tree is registered."""
    return Homes(tmp_path)


def test_a_call_in_a_work_tree_sees_its_repository_where_that_is_registered(homes: Homes) -> None:
    assert homes.also() == ()
    assert f"`lockgate init {homes.shop}` makes git work here" in homes.advice(homes.feat)
    homes.registry.add(homes.shop)
    assert homes.also() == (str(homes.shop),)


def test_a_pointer_that_the_repository_does_not_know_opens_nothing(homes: Homes) -> None:
    homes.registry.add(homes.shop)
    other = homes.root / "other"
    other.mkdir()
    homes.registry.add(other)
    pointer = (homes.feat / ".git").read_text()
    (other / ".git").write_text(pointer)
    assert also_needed(str(other), homes.holding) == ()
    (other / ".git").write_text(f"gitdir: {homes.shop}/.git\n")
    assert also_needed(str(other), homes.holding) == ()
    assert also_needed(str(homes.feat), homes.holding) == (str(homes.shop),)


def test_a_work_tree_inside_the_workspace_needs_nothing(homes: Homes) -> None:
    git(homes.shop, "worktree", "add", "-q", ".claude/worktrees/x")
    homes.registry.add(homes.shop)
    assert also_needed(str(homes.shop), homes.holding) == ()
    inner = homes.shop / ".claude/worktrees/x"
    assert also_needed(str(inner), lambda _: str(inner)) == ()  # as if it held its own repository


def test_a_separate_git_folder_is_told_with_the_folder_that_holds_both(homes: Homes) -> None:
    apart = homes.root / "projects/apart"
    apart.mkdir(parents=True)
    git(apart, "init", "-q", "--separate-git-dir", "../apart.git")
    homes.registry.add(apart)
    assert f"`lockgate init {apart.parent}`, which holds both" in homes.advice(apart)
    assert also_needed(str(apart), homes.holding) == ()
    beside = homes.root / "beside"
    beside.mkdir()
    git(beside, "init", "-q", "--separate-git-dir", "../beside.git")
    assert "move it to `.git`" in homes.advice(beside)  # its home holds both


def test_an_ordinary_repository_is_not_elsewhere(homes: Homes) -> None:
    assert find_elsewhere(str(homes.shop)) is None
    (homes.root / "plain").mkdir()
    assert find_elsewhere(str(homes.root / "plain")) is None
