# SPDX-License-Identifier: Apache-2.0
"""Ways in which a call reached what the host obeys, each beside what may go on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from policy.gate2.judge import judge
from policy.model import Access, Change, Decision, FileType, Kind, Outcome, Rights, Tier, Verdict
from policy.protected.paths import PathPolicy
from sandbox.workspaces.gitignore import Ignored
from sandbox.workspaces.ignore_ledger import Ledger

DECISION = Decision(
    verdict=Verdict.REPORT,
    tier=Tier.CAUTION,
    rights=Rights(workspace=Access.WRITE),
    layers=(),
    message="",
)
DIRECTORY, FILE, LINK = FileType.DIRECTORY, FileType.FILE, FileType.SYMLINK


def _settings(before: str | None, after: str) -> Change:
    kind = Kind.CREATED if before is None else Kind.MODIFIED
    return Change(".git/config", kind, FILE, before_text=before, after_text=after)


ORIGIN = '[remote "origin"]\n\turl = https://good.invalid/x\n'
CASES = {
    "the mode of the hooks' folder": (Change(".git/hooks", Kind.META, DIRECTORY), "hold"),
    "the mode of a folder above it": (Change(".git", Kind.META, DIRECTORY), "hold"),
    "a workspace that others may write": (Change(".", Kind.META, DIRECTORY, mode=0o777), "hold"),
    "a workspace that they may not": (Change(".", Kind.META, DIRECTORY, mode=0o755), "land"),
    "the mode of another folder": (Change("src", Kind.META, DIRECTORY), "land"),
    "a file that names another repository": (Change("sub/.git", Kind.CREATED, FILE), "hold"),
    "a new repository's folder": (Change("sub/.git", Kind.CREATED, DIRECTORY), "land"),
    "settings that are a link": (Change("x.d/config", Kind.CREATED, LINK, target="n"), "hold"),
    "an ordinary link": (Change("x.d/notes", Kind.CREATED, LINK, target="n"), "land"),
    "a program that garbage collection runs": (
        _settings("", "[gc]\n\trecentObjectsHook = ./x\n"),
        "hold",
    ),
    "another address for a remote": (
        _settings(ORIGIN, ORIGIN.replace("good", "evil")),
        "hold",
    ),
    "another address to push to": (
        _settings(ORIGIN, ORIGIN + "\tpushurl = https://evil.invalid/x\n"),
        "hold",
    ),
    "a further remote": (
        _settings(ORIGIN, ORIGIN + '[remote "two"]\n\turl = https://h.invalid/x\n'),
        "land",
    ),
    "a task file of a shell": (Change("mise.toml", Kind.CREATED, FILE), "hold"),
}


@pytest.mark.parametrize("change, outcome", CASES.values(), ids=CASES)
def test_rows(change: Change, outcome: str) -> None:
    found = judge(DECISION, [change], PathPolicy.default(), workspace="/w")
    assert found.outcome is Outcome(outcome)


def test_a_tracked_file_is_not_ignored_whatever_gitignore_says(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True, capture_output=True)

    git("init", "-q")
    (tmp_path / "src").mkdir()
    for name in ("src/kept.py", "README.md"):
        (tmp_path / name).write_text("x\n")
    git("add", "-A")
    (tmp_path / ".gitignore").write_text("src/\nREADME.md\nbuild/\n")
    ignored = Ignored(tmp_path, Ledger(tmp_path / ".git" / "ledger"))
    assert "src/kept.py" not in ignored
    assert "README.md" not in ignored
    assert "build/out.o" in ignored
