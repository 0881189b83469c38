# SPDX-License-Identifier: Apache-2.0
"""A person's settings asked for signed commits, and commits without one landed in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy.gate2.git.signing import unsigned_notice
from sandbox.cell.git_folder.changes import note_folders
from sandbox.cell.git_losses.signed import note_unsigned
from sandbox.gates.shown_changes import changes_of
from sandbox.workspaces.git_obeyed import asked_to_sign
from tests.gitchanges import REPOSITORY, changes, copy, sh

SIGN = (
    "sign() { git cat-file $1 $2 | sed '/^$/,$!s/^committer.*/&\\ngpgsig x/' |"
    " git hash-object -t $1 -w --stdin; }; "
)
CASES = {
    "a commit": ("git commit -qm x", "the new commit at `main` is not signed"),
    "a merge": ("git commit -qm s; git merge -q topic", "the new commit at `main` is not signed"),
    "a detached one": (
        "git checkout -q --detach; git commit -qm x",
        "at `.git/HEAD` is not signed",
    ),
    "a packed one": (
        "git commit -qm x; git repack -adq; git prune-packed",
        "the new commit at `main` is not signed",
    ),
    "a tag": ("git tag -a v3 -m v3", "the new tag at `v3` is not signed"),
    "a commit with a made-up signature": (
        f"{SIGN} git commit -qm x; git update-ref refs/heads/main $(sign commit HEAD)",
        "the new commit at `main` is not signed",
    ),
    "a tag with a made-up signature": (
        "git tag -a v3 -m \"$(printf 'v\\n-----BEGIN SSH SIGNATURE-----')\"",
        "the new tag at `v3` is not signed",
    ),
    "a commit in a list of references": (
        "git update-ref refs/heads/z $(git commit-tree -m x HEAD^{tree}); git pack-refs --all",
        "the new commit at `.git/packed-refs` is not signed",
    ),
    "a branch of what was there": ("git branch more topic; git tag plain", ""),
    "a stash": ("git stash -q", ""),
}


@pytest.fixture
def ws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository of a person whose settings ask for signatures."""
    home, root = tmp_path / "home", tmp_path / "ws"
    home.mkdir()
    root.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    (home / "more").write_text("[tag]\n\tgpgSign = yes\n")
    (home / ".gitconfig").write_text("[commit]\n\tgpgsign\n[include]\n\tpath = more\n")
    sh(root, REPOSITORY)
    return root


def told(ws: Path, script: str) -> str:
    """Return what a person is told of what a script did."""
    before = copy(ws, ws.parent / "before")
    sh(ws, script)
    raw = changes(before, ws)
    note_folders(raw, str(before), str(ws))
    note_unsigned(raw, str(before), str(ws))
    found = changes_of(raw)
    return unsigned_notice(found, asked_to_sign(str(ws), [one.path for one in found]))


@pytest.mark.parametrize("script, said", CASES.values(), ids=CASES)
def test_what_lacks_a_signature_is_told(ws: Path, script: str, said: str) -> None:
    found = told(ws, script)
    assert said in found
    assert bool(said) == bool(found)


def test_the_last_word_of_the_settings_counts(ws: Path) -> None:
    sh(ws, "git config commit.gpgsign false")
    assert told(ws, "git commit -qm x") == ""
    assert told(ws, "git tag -a v4 -m v4") != ""
