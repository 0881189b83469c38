# SPDX-License-Identifier: Apache-2.0
"""Which paths git ignores: the same answers as git's own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sandbox.workspaces.gitignore import Ignored
from sandbox.workspaces.ignore_ledger import Ledger

FILES = {
    ".gitignore": "*.log\nbuild/\n/only-here\n!keep.log\ndocs/*.tmp\nnode_modules\n**/cache/**\n",
    "sub/.gitignore": "!*.log\nlocal.txt\n*.bak\n!sub.bak\n",
    "sub/deep/.gitignore": "*\n!.gitignore\n",
    ".git/info/exclude": "excluded.txt\n*.secret\n",
}
PATHS = (
    *("a.log", "keep.log", "sub/b.log", "sub/keep.log", "only-here", "sub/only-here"),
    *("build/x.o", "build/deep/x.o", "src/build/y.o", "src/built/y.o", "build.txt"),
    *("docs/a.tmp", "docs/sub/a.tmp", "node_modules/p/index.js", "a/node_modules/x"),
    *("sub/local.txt", "local.txt", "sub/x.bak", "sub/sub.bak", "sub/deep/any", "x/cache/y"),
    *(
        "excluded.txt",
        "sub/excluded.txt",
        "a.secret",
        "README.md",
        ".gitignore",
        "é.log",
        "sp ace.log",
    ),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a repository with rules in several places."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for name in PATHS:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        if not (tmp_path / name).exists():
            (tmp_path / name).write_text("x")
    return tmp_path


def test_the_answers_are_gits_own(folder: Path) -> None:
    asked = subprocess.run(
        ["git", "check-ignore", "--no-index", "-z", "--stdin"],
        cwd=folder,
        input="\0".join(PATHS),
        capture_output=True,
        text=True,
        check=False,
    )
    wanted = {name for name in asked.stdout.split("\0") if name}
    ignored = Ignored(folder, Ledger(folder / ".git" / "ledger"))
    assert {name for name in PATHS if name in ignored} == wanted
    assert {"a.log", "build/x.o", "excluded.txt"} <= wanted


def test_without_rules_nothing_is_ignored(tmp_path: Path) -> None:
    assert "a.log" not in Ignored(tmp_path, Ledger(tmp_path / "ledger"))


def test_rules_that_cannot_be_read_ignore_nothing(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("*\n")
    work = tmp_path / "work"
    work.mkdir()
    ledger = Ledger(tmp_path / "ledger")
    (work / ".gitignore").symlink_to(outside)
    assert "a" not in Ignored(work, ledger)
    (work / "sub").mkdir()
    (work / "sub" / ".gitignore").mkdir()
    assert "sub/a" not in Ignored(work, ledger)
    (work / "big").mkdir()
    (work / "big" / ".gitignore").write_text("*\n" * 600_000)
    assert "big/a" not in Ignored(work, ledger)
