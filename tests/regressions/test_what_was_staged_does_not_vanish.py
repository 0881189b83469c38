# SPDX-License-Identifier: Apache-2.0
"""What was staged and nowhere else went unasked where its path stayed in the index."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gitchanges import held_for, judge_script, make_repository

PREPARE = """
git init -q -b main; mkdir src; echo one > src/m.py; echo a > a; git add -A; git commit -qm one
git branch other; echo two > a; git commit -qam two
echo staged > src/m.py; git add src/m.py; git show HEAD:src/m.py > src/m.py
"""
"""As after `git add -p`: what is staged is neither in the file nor in a commit."""
IN_THE_FILE = "echo staged > src/m.py"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_repository(tmp_path_factory, PREPARE)


def said(repository: Path, tmp_path: Path, script: str, prepare: str = "true") -> list[str]:
    return held_for(judge_script(repository, tmp_path, script, prepare), "git-history")


TAKEN = [
    *("git reset -q HEAD src/m.py", "git reset -q", "git read-tree HEAD", "git reset -q --hard"),
    *("git restore --staged src/m.py", "git checkout -q HEAD -- src/m.py", "git add src/m.py"),
    *("git reset -q --hard other", "git rm -q -f --cached src/m.py"),
]


@pytest.mark.parametrize("script", TAKEN)
def test_what_is_nowhere_else_is_held(repository: Path, tmp_path: Path, script: str) -> None:
    assert any("staged" in one for one in said(repository, tmp_path, script))


@pytest.mark.parametrize("script", [one for one in TAKEN if "git add" not in one])
def test_what_the_file_had_can_be_undone(repository: Path, tmp_path: Path, script: str) -> None:
    assert said(repository, tmp_path, script, IN_THE_FILE) == []


@pytest.mark.parametrize("script", [
    "git commit -qm staged",
    "git stash -q",
    "echo newer > src/m.py; git add src/m.py",
    "echo newer > src/m.py; git commit -qam newer",
    "git commit -qm a a; git commit -qm staged",
    "git commit -qm staged; git stash -q; git checkout -q other",
])  # fmt: skip
def test_what_goes_on_with_it_lands(repository: Path, tmp_path: Path, script: str) -> None:
    assert said(repository, tmp_path, script, "echo more >> a") == []
