# SPDX-License-Identifier: Apache-2.0
"""Tricks against gate 2, with real programs on real overlays: walk, judge, land as a call would.

Each trick is a list of steps; each step is a transaction of its own, landed only if it may land.
Whatever happens, the protected file ends as it began; a positive control shows that the same steps
without Lockgate change it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from policy.gate2.judge import judge
from policy.model import (
    Access,
    Change,
    Decision,
    FileType,
    Judgement,
    Kind,
    Outcome,
    Rights,
    Tier,
    Verdict,
)
from policy.protected.paths import PathPolicy
from sandbox.cell.git_folder.changes import note_folders
from tests.conftest import cannot_run
from tests.sandbox.overlays import Overlay, missing

PREPARE = """
export HOME=/nonexistent GIT_CONFIG_NOSYSTEM=1
git init -q -b main .
git config user.email a@b.invalid; git config user.name a
mkdir -p .github/workflows src
echo '{"strict": false}' >devkit.config.json; echo .env >.gitignore; echo Hello >README.md
printf 'name: old\\non: []\\n' >.github/workflows/ci.yml; echo 1 >src/app.py
git add -A; git commit -qm one
echo '{"strict": true}' >devkit.config.json
printf 'name: ci\\non: push\\njobs: {}\\n' >.github/workflows/ci.yml
git commit -qam two
printf '#!/bin/sh\\nexit 0\\n' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit
echo key >.env
"""
POLICY = PathPolicy.default()
GOVERNANCE, WORKFLOW, HOOK = (
    "devkit.config.json",
    ".github/workflows/ci.yml",
    ".git/hooks/pre-commit",
)
WAIVER = ".devkit-waiver.yml"
DECISION = Decision(
    verdict=Verdict.ALLOW,
    tier=Tier.CAUTION,
    rights=Rights(workspace=Access.WRITE),
    layers=(),
    message="",
    named_deletions=("**",),  # the weakest plan: gate 1 let everything pass
)

TRICKS = {
    "renamed, edited, renamed back": (
        GOVERNANCE,
        ["mv devkit.config.json t; echo '{}' >t; mv t devkit.config.json"],
    ),
    "renamed in one call, edited in the next": (
        GOVERNANCE,
        ["mv devkit.config.json t", "echo '{}' >t", "mv t devkit.config.json"],
    ),
    "the parent renamed, the file edited, renamed back": (
        WORKFLOW,
        ["mv .github .gh", "echo x >.gh/workflows/ci.yml", "mv .gh .github"],
    ),
    "the same in one call": (
        WORKFLOW,
        ["mv .github .gh; echo x >.gh/workflows/ci.yml; mv .gh .github"],
    ),
    "a new folder takes the name": (
        WORKFLOW,
        ["mkdir nw; echo x >nw/ci.yml", "mv .github/workflows .github/old",
         "mv nw .github/workflows"],
    ),
    "two names exchanged at once": (
        GOVERNANCE,
        ["echo '{}' >t; python3 -c 'import ctypes;"
         " ctypes.CDLL(None).renameat2(-100,b\"t\",-100,b\"devkit.config.json\",2)'"],
    ),
    "copied over from a tree that looks alike": (
        WORKFLOW,
        ["mkdir -p t/x; echo x >t/x/ci.yml", "cp t/x/ci.yml .github/workflows/"],
    ),
    "a hard link, then a write": (HOOK, ["ln .git/hooks/pre-commit h", "echo x >h"]),
    "a hard link and a write in one call": (HOOK, ["ln .git/hooks/pre-commit h; echo x >h"]),
    "a dangling link, then a write": (WAIVER, ["ln -s .devkit-waiver.yml later", "echo x >later"]),
    "a link as the output": (GOVERNANCE, ["ln -s devkit.config.json out", "echo x >out"]),
    "a folder replaced by a link to an edited copy": (
        WORKFLOW,
        ["cp -r .github fake; echo x >fake/workflows/ci.yml", "mv .github bak; ln -s fake .github"],
    ),
    "a link made by an archive": (
        WORKFLOW,
        ["ln -s .github/workflows d; tar -cf b.tar d; rm d", "tar -xf b.tar; echo x >d/ci.yml"],
    ),
    "a descriptor that was opened early": (
        GOVERNANCE,
        ["exec 3<>devkit.config.json; sleep 0.1; echo '[]' >&3"],
    ),
    "git reverts the commit": (GOVERNANCE, ["git revert --no-edit HEAD"]),
    "git takes the older commit": (GOVERNANCE, ["git checkout -q HEAD~1 -- ."]),
    "git resets": (WORKFLOW, ["git reset -q --hard HEAD~1"]),
    "plumbing builds a commit that is merged": (
        GOVERNANCE,
        ["export GIT_INDEX_FILE=.git/ix; git read-tree HEAD; git update-index --cacheinfo"
         " 100644,$(git hash-object -w README.md),devkit.config.json;"
         " git commit-tree $(git write-tree) -p HEAD -m x >.c", "git merge -q --ff-only $(cat .c)"],
    ),
    "a second working tree": (
        GOVERNANCE,
        ["git worktree add -q wt -b side",
         "echo '{}' >wt/devkit.config.json; git -C wt commit -qam s", "git merge -q side"],
    ),
    "a clone, pulled from": (
        GOVERNANCE,
        ["git clone -q . c; cd c; git config user.email a@b.invalid; git config user.name a",
         "cd c; echo '{}' >devkit.config.json; git commit -qam x",
         "git pull -q --no-rebase ./c HEAD"],
    ),
    "one file of another branch": (
        GOVERNANCE,
        ["git branch s HEAD~1; git checkout -q s -- devkit.config.json"],
    ),
    "sparse checkout removes the folder": (
        WORKFLOW,
        ["git status -s; git sparse-checkout init --cone", "git sparse-checkout set src"],
    ),
    "a patch for another name": (
        GOVERNANCE,
        ["printf -- '--- a/x/devkit.config.json\\n+++ b/x/devkit.config.json\\n@@ -1 +1 @@\\n"
         "-{\"strict\": true}\\n+{\"strict\": false}\\n' >f.diff", "git apply -p2 f.diff"],
    ),
    "a patch that renames it": (
        WORKFLOW,
        ["printf 'diff --git a/.github/workflows/ci.yml b/old\\nsimilarity index 100%%\\n"
         "rename from .github/workflows/ci.yml\\nrename to old\\n' >r.diff", "git apply r.diff"],
    ),
    "a clean filter": (
        GOVERNANCE,
        ["echo '*.txt filter=z' >.gitattributes; echo a >a.txt",
         "git config filter.z.clean 'cp README.md devkit.config.json; cat'", "git add a.txt"],
    ),
    "a monitor program": (
        GOVERNANCE,
        ["printf '#!/bin/sh\\ncp README.md devkit.config.json\\nexit 1\\n' >f.sh; chmod +x f.sh;"
         " git config core.fsmonitor ./f.sh", "git status -s"],
    ),
    "a hook that another call runs": (
        GOVERNANCE,
        ["printf '#!/bin/sh\\ncp README.md devkit.config.json\\n' >.git/hooks/post-commit;"
         " chmod +x .git/hooks/post-commit", "git commit -q --allow-empty -m x"],
    ),
    "a script writes it": (
        GOVERNANCE,
        ["echo \"open('dev'+'kit.config.json','w')\" >t.py", "python3 t.py"],
    ),
    "deleted with its folder": (WORKFLOW, ["rm -rf .github"]),
    "its mode taken": (HOOK, ["chmod 000 .git/hooks/pre-commit"]),
}  # fmt: skip


def judged(overlay: Overlay) -> Judgement:
    """Judge and land a transaction as the flow of a call does."""
    walked = overlay.walk()
    note_folders(walked.changes, str(overlay.lower), str(overlay.upper))
    known = Change.__dataclass_fields__
    changes = [
        Change(
            **{k: v for k, v in raw.items() if k in known and k not in ("kind", "type")},
            kind=Kind(raw["kind"]),
            type=FileType(raw["type"]),
        )
        for raw in walked.changes
    ]
    answer = judge(DECISION, changes, POLICY, workspace=str(overlay.merged))
    if answer.outcome is Outcome.LAND:
        assert overlay.land(walked, f"c{os.urandom(4).hex()}").conflicts == ()
    return answer


def perform(lower: Path, steps: Sequence[str]) -> list[str]:
    """Run steps, each in a transaction of its own; return the outcomes."""
    outcomes = []
    for step in steps:
        overlay = Overlay(".env", ".lockgate")
        overlay.lower = lower
        with overlay:
            script = f"export HOME=/nonexistent GIT_CONFIG_NOSYSTEM=1; {step}"
            subprocess.run(
                ["bash", "-c", script], cwd=overlay.merged, capture_output=True, check=False
            )
            outcomes.append(judged(overlay).outcome.value)
    return outcomes


def state(path: Path) -> tuple[bytes, int] | None:
    return (path.read_bytes(), path.lstat().st_mode) if path.exists() else None


@pytest.fixture(name="workspace")
def _workspace(tmp_path: Path) -> Path:
    if reason := missing():
        cannot_run(reason)
    if shutil.which("git") is None:
        cannot_run("git is not installed")
    root = tmp_path / "workspace"
    root.mkdir()
    subprocess.run(["bash", "-ec", PREPARE], cwd=root, check=True)
    return root


@pytest.mark.parametrize("protected, steps", TRICKS.values(), ids=TRICKS)
def test_a_protected_file_ends_as_it_began(
    workspace: Path, tmp_path: Path, protected: str, steps: list[str]
) -> None:
    control = tmp_path / "control"
    shutil.copytree(workspace, control, symlinks=True)
    before = state(workspace / protected)
    perform(workspace, steps)
    assert state(workspace / protected) == before
    for step in steps:
        script = f"export HOME=/nonexistent GIT_CONFIG_NOSYSTEM=1; {step}"
        subprocess.run(["bash", "-c", script], cwd=control, capture_output=True, check=False)
    assert state(control / protected) != before, "the trick does nothing even without Lockgate"


HARMLESS = {
    "a commit": ["echo x >>src/app.py; git commit -qam work"],
    "a branch": ["git checkout -q -b topic", "echo x >>src/app.py; git commit -qam x", "git log"],
    "a gc": ["git -c gc.writeCommitGraph=false gc -q"],  # as the cell's own settings say
    "a stash": ["echo x >>src/app.py; git stash -q", "git stash pop -q"],
    "an amended commit": ["git commit -q --amend -m better"],
    "a merge of source": [
        "git checkout -q -b t; echo x >>src/app.py; git commit -qam x",
        "git checkout -q main; git merge -q t",
    ],
    "a build": ["mkdir -p build/a; echo o >build/a/o; ln -s a build/b; cp -r src build/"],
    "a new repository below": ["git init -q n; cd n; git config user.name b; echo x >x; git add x"],
    "a file moved and a folder renamed": ["mv README.md r.md; mv src lib", "mv lib src"],
}


@pytest.mark.parametrize("steps", HARMLESS.values(), ids=HARMLESS)
def test_what_agents_do_all_day_lands(workspace: Path, tmp_path: Path, steps: list[str]) -> None:
    control = tmp_path / "control"
    shutil.copytree(workspace, control, symlinks=True)
    assert perform(workspace, steps) == ["land"] * len(steps)
    for step in steps:
        script = f"export HOME=/nonexistent GIT_CONFIG_NOSYSTEM=1; {step}"
        subprocess.run(["bash", "-ec", script], cwd=control, capture_output=True, check=True)
    fsck = subprocess.run(
        ["git", "-c", "safe.directory=*", "fsck", "--strict"], cwd=workspace, capture_output=True
    )
    assert fsck.returncode == 0, fsck.stderr
    found = {p.relative_to(workspace) for p in workspace.rglob("*") if ".git" not in p.parts}
    found = {path for path in found if path.parts[0] != ".lockgate"}
    assert found == {p.relative_to(control) for p in control.rglob("*") if ".git" not in p.parts}
