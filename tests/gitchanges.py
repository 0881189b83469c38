# SPDX-License-Identifier: Apache-2.0
"""Git repositories before and after something, and what gate 2 says of it, without any cell."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from policy.gate2.judge import judge
from policy.model import (
    Access,
    Change,
    Decision,
    FileType,
    Judgement,
    Kind,
    Rights,
    Tier,
    Verdict,
)
from policy.protected.paths import PathPolicy
from sandbox.cell.git.commits import note_commits
from sandbox.cell.git.dropped import note_dropped
from sandbox.cell.git.entries import Contents
from sandbox.cell.git_folder.changes import note_folders
from sandbox.cell.git_folder.copies import note_copies
from sandbox.cell.git_losses.index_entries import note_entries
from sandbox.cell.git_losses.lost import note_lost
from sandbox.cell.overlay.lower import CONFIG_NAMES
from sandbox.cell.overlay.masks import Patterns
from sandbox.cell.overlay.steps import type_name
from sandbox.workspaces.git_obeyed import configured

POLICY = PathPolicy.default()
DECISION = Decision(
    verdict=Verdict.REPORT,
    tier=Tier.CAUTION,
    rights=Rights(workspace=Access.WRITE),
    layers=(),
    message="",
    named_deletions=(),
)
NAMES = {
    f"GIT_{who}_{what}": "a@b.invalid" for who in ("AUTHOR", "COMMITTER")
    for what in ("NAME", "EMAIL")
}  # fmt: skip
ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TEMPLATE_DIR": "",
    "GIT_EDITOR": "true",
    "GIT_ALLOW_PROTOCOL": "file",
    **NAMES,
}
REPOSITORY = """
git init -q -b main; echo one > a; mkdir -p src/deep; echo two > src/deep/b; git add -A
git commit -qm one; echo more >> a; git commit -qam two; git tag v1; git tag -a v2 -m v2
git checkout -qb topic; echo t > t; git add t; git commit -qm topic; git checkout -q main
git checkout -qb merged; echo m > m; git add m; git commit -qm merged; git checkout -q main
git merge -q --no-ff -m merge merged; git branch -q behind HEAD~1
echo stashed >> a; git stash -q; echo staged > s; git add s
"""
"""Branches `main`, `topic` (not merged), `merged`; two tags; a stash; something staged."""


def sh(folder: Path, script: str, **env: str) -> str:
    """Run a script with git as nobody in particular."""
    done = subprocess.run(
        ["bash", "-ec", script], cwd=folder, env={**ENV, **env}, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    return done.stdout


def copy(source: Path, target: Path) -> Path:
    """Copy a tree as it is; remove what is there."""
    remove(target)
    shutil.copytree(source, target, symlinks=True)
    return target


def make_repository(factory: pytest.TempPathFactory, script: str) -> Path:
    """Return a folder in which a script was run, for the tests of a module to copy."""
    folder = factory.mktemp("git") / "before"
    folder.mkdir()
    sh(folder, script)
    return folder


def judge_script(repository: Path, tmp_path: Path, script: str, prepare: str = "true") -> Judgement:
    """Return what gate 2 says of a script in a copy of a repository, with all deletions named."""
    old = copy(repository, tmp_path / "before")
    sh(old, prepare)
    new = copy(old, tmp_path / "after")
    sh(new, script)
    return judged(old, new, named=("**",))


def remove(folder: Path) -> None:
    """Remove a tree of whatever modes."""
    for base, _, _ in os.walk(folder):
        Path(base).chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def listed(folder: Path) -> dict[str, tuple[os.stat_result, bytes]]:
    """Return everything below a folder: its status, and content or target."""
    found = {}
    for base, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(base, name)
            info = path.lstat()
            content = b""
            if stat.S_ISREG(info.st_mode):
                content = path.read_bytes()
            elif stat.S_ISLNK(info.st_mode):
                content = os.fsencode(path.readlink())
            found[str(path.relative_to(folder))] = (info, content)
    return found


def changes(before: Path, after: Path) -> list[dict[str, Any]]:
    """Return what differs, as a walk lists it, but for moves, which are a deletion and a file."""
    old, new = listed(before), listed(after)
    found = []
    for path in sorted(old.keys() | new.keys()):
        was, is_ = old.get(path), new.get(path)
        same_type = was and is_ and stat.S_IFMT(was[0].st_mode) == stat.S_IFMT(is_[0].st_mode)
        if was and not same_type:
            found.append(_change(path, "deleted", was, None))
        if is_ and not same_type:
            found.append(_change(path, "created", is_, None))
        if was and is_ and same_type and was[1] != is_[1]:
            found.append(_change(path, "modified", is_, was))
        elif was and is_ and same_type and was[0].st_mode != is_[0].st_mode:
            found.append(_change(path, "meta", is_, was))
    return found


def _change(
    path: str,
    kind: str,
    side: tuple[os.stat_result, bytes],
    was: tuple[os.stat_result, bytes] | None,
) -> dict[str, Any]:
    mode = side[0].st_mode
    change: dict[str, Any] = {"path": path, "kind": kind, "type": type_name(mode)}
    change["mode"] = stat.S_IMODE(mode)
    if change["type"] == "file":
        change["size"] = side[0].st_size
    if change["type"] == "symlink" and kind != "deleted":
        change["target"] = os.fsdecode(side[1])
    if change["type"] == "file" and path.rpartition("/")[2] in CONFIG_NAMES and kind != "deleted":
        change["after_text"] = side[1].decode("utf-8", "replace")
        if was is not None:
            change["before_text"] = was[1].decode("utf-8", "replace")
    return change


def judged(
    before: Path,
    after: Path,
    *,
    now: float | None = None,
    named: tuple[str, ...] = (),
    agents_remotes: frozenset[tuple[str, str]] | None = frozenset(),
) -> Judgement:
    """Return what gate 2 says where a call turned `before` into `after`."""
    raw = changes(before, after)
    (hide, show), pin = POLICY.mask_expressions(), POLICY.pin_expressions()
    patterns = Patterns(
        [*hide], [*show], [*pin], POLICY.pin_folder_expressions(), POLICY.obey_expressions()
    )
    note_dropped(raw, str(before), str(after), [])
    note_folders(raw, str(before), str(after))
    counts_or_reads = lambda path: patterns.counts(path) or POLICY.reads(path)  # noqa: E731
    note_copies(raw, str(before), str(after), counts_or_reads)
    contents = Contents(POLICY.reads, POLICY.condenses)
    note_commits(raw, str(before), str(after), patterns.counts, contents)
    note_entries(raw, str(before), str(after), patterns.counts, contents)
    note_lost(raw, str(before), str(after), time.time() if now is None else now)
    decision = DECISION.model_copy(update={"named_deletions": named})
    typed = [_typed(one) for one in raw]
    named_ = [path for one in typed for path in (one.path, *one.commits_others)]
    obeyed = configured(str(before), named_, POLICY.git_keys)
    return judge(
        decision,
        typed,
        POLICY,
        workspace=str(after),
        configured=obeyed,
        agents_remotes=agents_remotes,
    )


def _typed(one: dict[str, Any]) -> Change:
    fields = {name: value for name, value in one.items() if name in Change.__dataclass_fields__}
    return Change(**{**fields, "kind": Kind(one["kind"]), "type": FileType(one["type"])})


def held_for(judgement: Judgement, rule: str) -> list[str]:
    """Return paths and reasons of one rule."""
    return [f"{one.path}: {one.reason}" for one in judgement.reasons if one.rule == rule]
