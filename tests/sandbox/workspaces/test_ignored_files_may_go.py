# SPDX-License-Identifier: Apache-2.0
"""`land_freely: {deletions: [ignored]}`: no question where a call deletes what git ignores."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from policy.model import ActionPlan, Params, Verdict
from sandbox.host.dirs import Dirs
from sandbox.questions.offline import decide_offline
from sandbox.workspaces.ignore_ledger import Ledger
from sandbox.workspaces.ignore_sources import Touched
from tests.container.lab import ME, git, repository

ASK, REPORT = Verdict.ASK, Verdict.REPORT


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Return a repository with files that git ignores, one that it has all the same, and others."""
    work = repository(tmp_path / "work", ME)
    (work / ".gitignore").write_text("*.log\n/out/\n")
    (work / "out").mkdir()
    for name in ("a.log", "kept.log", "out/x", "mine.txt", ".env"):
        (work / name).write_text("x\n")
    git(work, "add", "-f", ".gitignore", "kept.log")
    (work / "link.log").symlink_to("mine.txt")
    return work


@pytest.fixture
def dirs(tmp_path: Path) -> Dirs:
    """Return folders in which the user's own policy lets ignored files go."""
    dirs = Dirs.under(tmp_path / "l").create()
    dirs.config.mkdir(exist_ok=True)
    (dirs.config / "policy.yaml").write_text("land_freely: {deletions: [ignored]}\n")
    return dirs


def verdict(dirs: Dirs, work: Path, command: str) -> Verdict:
    plan = ActionPlan(tool="Bash", workspace=str(work), params=Params(command=command))
    return decide_offline(dirs, plan)[0].decision.verdict


COMMANDS = {
    "rm a.log": REPORT,
    "rm out/x": REPORT,
    "rm a.log mine.txt": ASK,
    "rm kept.log": ASK,
    "rm mine.txt": ASK,
    "rm link.log": ASK,
    "echo '*' >> .gitignore; rm mine.txt": ASK,
}


@pytest.mark.parametrize("command", COMMANDS)
def test_what_git_ignores_may_be_deleted_by_name(dirs: Dirs, work: Path, command: str) -> None:
    assert verdict(dirs, work, command) is COMMANDS[command]
    assert verdict(dirs, work, "rm -rf out") is Verdict.DENY  # `lockgate clean` is the way


def test_without_the_word_it_is_asked_about(dirs: Dirs, work: Path) -> None:
    for other in ("land_freely: {deletions: ['*.log']}\n", "version: 1\n"):
        (dirs.config / "policy.yaml").write_text(other)
        assert verdict(dirs, work, "rm a.log") is ASK


def test_a_workspaces_file_says_it_only_once_it_is_trusted(dirs: Dirs, work: Path) -> None:
    own = work / ".lockgate" / "policy.yaml"
    own.parent.mkdir(exist_ok=True)
    (dirs.config / "policy.yaml").rename(own)
    assert verdict(dirs, work, "rm a.log") is ASK


def test_rules_that_an_agent_wrote_ignore_nothing(dirs: Dirs, work: Path) -> None:
    text = b"*.log\n/out/\n*.txt\n"
    digests = {".gitignore": hashlib.sha256(text).hexdigest()}
    Ledger.of(dirs).about_to_land(
        str(work), Touched(written=(".gitignore",)), digests, person=False
    )
    (work / ".gitignore").write_bytes(text)
    assert verdict(dirs, work, "rm mine.txt") is ASK
    assert verdict(dirs, work, "rm a.log") is REPORT  # as before it
    (work / ".gitignore").write_bytes(text + b"*.md\n")
    assert verdict(dirs, work, "rm mine.txt") is REPORT  # a person's by now
