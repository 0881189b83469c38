# SPDX-License-Identifier: Apache-2.0
"""A call left so much in a git folder that the keeper looked at it for minutes, and all waited."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from policy.model import Outcome
from sandbox.cell.git import index_format
from sandbox.cell.git_folder.cached import remembers_other_trees
from sandbox.cell.git_losses import lost, remains
from sandbox.cell.keeper.notes import note_git
from tests.gitchanges import ENV, REPOSITORY, changes, copy, held_for, judged, sh


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a workspace with a repository."""
    ws = tmp_path_factory.mktemp("made") / "ws"
    ws.mkdir()
    sh(ws, REPOSITORY)
    return ws


def _endless(*_: Any) -> Iterator[None]:
    while True:
        with contextlib.suppress(Exception):  # as who reads hostile files goes on
            sum(range(1000))


def test_a_look_ends_in_time_and_what_it_did_not_find_out_is_held(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = copy(made, tmp_path / "before")
    sh(made, "git branch new")

    def noted(seconds: float) -> list[dict[str, Any]]:
        found = changes(before, made)
        note_git(found, str(before), str(made), [], lambda _: False, seconds)
        return found

    assert not any("commits_odd" in one for one in noted(60.0))
    monkeypatch.setattr(lost, "note_lost", _endless)
    odd = noted(0.1)[0]["commits_odd"]
    assert odd == "it takes more than 0.1 s to look through"


def test_more_references_than_are_looked_at_are_held(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = copy(made, tmp_path / "before")
    sh(made, "for n in 1 2 3; do git branch many/$n; done")
    assert judged(before, made).outcome is Outcome.LAND
    monkeypatch.setattr(remains, "MOST_REFERENCES", 2)
    assert "more than 2 references" in " ".join(held_for(judged(before, made), "git-history"))


def test_names_of_an_index_are_spelled_out_up_to_a_limit(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sh(made, "git update-index --index-version 4")
    content = (made / ".git/index").read_bytes()
    found = index_format.parse(content)
    assert found is not None
    assert found.version == 4
    monkeypatch.setattr(index_format, "MOST_NAMED", 5)
    assert index_format.parse(content) is None


def test_a_remembered_tree_is_looked_at_once(made: Path) -> None:
    subprocess.run(["git", "write-tree"], cwd=made, env=ENV, check=True, capture_output=True)
    found = index_format.parse((made / ".git/index").read_bytes())
    assert found is not None
    held = dict(found.extensions)[b"TREE"]
    assert not remembers_other_trees(found)
    top = 1 + held.index(b"\n") + found.width
    count, _, below = held[1 : held.index(b"\n")].partition(b" ")
    twice = b"\0%s %d\n" % (count, 2 * int(below)) + held[top - found.width : top]
    twice += 2 * held[top:]
    assert remembers_other_trees(found._replace(extensions=[(b"TREE", twice)]))


def test_a_whole_folder_of_a_sparse_index_is_its_own_tree(made: Path) -> None:
    sh(made, "mkdir -p near far/c; echo 1 >near/1; echo 2 >far/c/2; git add near far")
    sh(made, "git commit -qm folders")
    sh(made, "git sparse-checkout set --cone --sparse-index near; git write-tree")
    found = index_format.parse((made / ".git/index").read_bytes())
    assert found is not None
    folders = [entry for entry in found.entries if entry.path == b"far/"]
    assert [oct(entry.mode) for entry in folders] == ["0o40000"]
    assert b"TREE" in dict(found.extensions)
    assert not remembers_other_trees(found)
    other = folders[0]._replace(oid=bytes(len(folders[0].oid)))
    entries = [other if entry.path == b"far/" else entry for entry in found.entries]
    assert remembers_other_trees(found._replace(entries=entries))
