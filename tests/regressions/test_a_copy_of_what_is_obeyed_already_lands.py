# SPDX-License-Identifier: Apache-2.0
"""`git worktree add` and `git clone` were held for the workflows that came with them unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy.model import Outcome
from tests.gitchanges import copy, judged, make_repository, sh

PREPARE = """
git init -q -b main; mkdir -p .github/workflows .vscode .husky
echo 'on: push' > .github/workflows/ci.yml; echo '{"tasks": []}' > .vscode/tasks.json
printf '#!/bin/sh\\ntrue\\n' > .husky/pre-commit; chmod +x .husky/pre-commit
echo '*.py filter=clean' > .gitattributes; echo a > a
echo '{"scripts": {"postinstall": "./x"}}' > package.json; git add -A; git commit -qm one
git branch other; git checkout -qb changed; echo 'on: never' > .github/workflows/ci.yml
git commit -qam two; git checkout -q main
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_repository(tmp_path_factory, PREPARE)


def held(repository: Path, tmp_path: Path, script: str, prepare: str = "true") -> list[str]:
    """Return the paths that are held after a script."""
    before = copy(repository, tmp_path / "work")
    sh(before, prepare)
    old = copy(before, tmp_path / "before")
    sh(before, script)
    found = judged(old, before, named=("**",))
    assert found.outcome is not Outcome.DISCARD
    return sorted({one.path for one in found.reasons})


@pytest.mark.parametrize("script", [
    "git worktree add -q wt other",
    "git worktree add -q out/wt -b new",
    "git clone -q . out/clone",
])  # fmt: skip
def test_what_stands_beside_it_lands(repository: Path, tmp_path: Path, script: str) -> None:
    assert held(repository, tmp_path, script) == []


WORK_TREE = "git worktree add -q wt other"
OTHERWISE = {
    "another content": ("git worktree add -q wt changed", "wt/.github/workflows/ci.yml"),
    "changed after": (f"{WORK_TREE}; echo x >> wt/.husky/pre-commit", "wt/.husky/pre-commit"),
    "both changed": (
        f"{WORK_TREE}; for i in . wt; do echo x >> $i/.husky/pre-commit; done",
        "wt/.husky/pre-commit",
    ),
    "one more": (f"{WORK_TREE}; echo x > wt/.husky/post-merge", "wt/.husky/post-merge"),
    "another manifest": (
        f"{WORK_TREE}; sed -i s/x/y/ wt/package.json",
        "wt/package.json",
    ),
    "other attributes": (
        f"{WORK_TREE}; echo '*.c filter=x' >> wt/.gitattributes",
        "wt/.gitattributes",
    ),
    "elsewhere in it": (
        f"{WORK_TREE}; mkdir wt/s; cp -r .husky wt/s/.husky",
        "wt/s/.husky/pre-commit",
    ),
    "no check-out": ("mkdir s; cp -r .husky s/.husky", "s/.husky/pre-commit"),
    "a folder that stood": (
        "git clone -q --bare . s/.git; cp -r .husky s/.husky",
        "s/.husky/pre-commit",
    ),
}


@pytest.mark.parametrize("script, path", OTHERWISE.values(), ids=OTHERWISE)
def test_what_is_new_waits(repository: Path, tmp_path: Path, script: str, path: str) -> None:
    prepare = "mkdir s" if script.endswith("s/.husky") and "--bare" in script else "true"
    assert path in held(repository, tmp_path, script, prepare)


def test_a_program_that_the_host_may_run_only_there_waits(repository: Path, tmp_path: Path) -> None:
    script = "git worktree add -q wt other"
    prepare = "chmod -x .husky/pre-commit; git commit -qam plain"
    assert "wt/.husky/pre-commit" in held(repository, tmp_path, script, prepare)
