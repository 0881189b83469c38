# SPDX-License-Identifier: Apache-2.0
"""A call switched `core.sparseCheckout` off: the index went on hiding what stood there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gitchanges import copy, held_for, judged, sh

PREPARE = """
git init -q -b main; mkdir src other; echo a > src/a; echo b > other/b; git add -A
git commit -qm one; git worktree add -q wt -b side; {} git sparse-checkout set src
"""
OFF = [
    "git config core.sparseCheckout false",
    "git config --worktree core.sparseCheckout false",
    "git config --worktree --unset core.sparseCheckout",
    "git config extensions.worktreeConfig false",
]


def said(tmp_path: Path, script: str, prepare: str) -> list[str]:
    before = tmp_path / "before"
    before.mkdir()
    sh(before, PREPARE.format(prepare))
    after = copy(before, tmp_path / "after")
    sh(after, script)
    found = judged(before, after, named=("**",))
    return [*held_for(found, "git-folder"), *held_for(found, "git-history")]


@pytest.mark.parametrize("script", OFF[1:3])
def test_what_is_left_out_stays_looked_at(tmp_path: Path, script: str) -> None:
    assert any("sparse checkout" in one for one in said(tmp_path, script, "")), script


def test_the_same_of_settings_for_all_work_trees(tmp_path: Path) -> None:
    shared = "git config core.sparseCheckout true; git config extensions.worktreeConfig false;"
    prepare = f"git sparse-checkout set --cone src; {shared} git read-tree -mu HEAD; :"
    assert any("sparse checkout" in one for one in said(tmp_path, OFF[0], prepare + ";"))


@pytest.mark.parametrize(
    "script", ["git sparse-checkout disable", "git sparse-checkout set other", "echo x > src/a"]
)
def test_what_git_does_itself_lands(tmp_path: Path, script: str) -> None:
    assert said(tmp_path, script, "") == []
