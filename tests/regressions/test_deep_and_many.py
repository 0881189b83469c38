# SPDX-License-Identifier: Apache-2.0
"""Trees deeper than Python recurses, and more changes than a frame holds, do not end the keeper."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.cell import fs, protocol
from sandbox.cell.journal.removal import remove
from sandbox.cell.keeper.answers import pack_answer
from tests.conftest import cannot_run, opened_below
from tests.sandbox.overlays import Overlay, missing


def _deepen(folder: Path, name: str, depth: int) -> int:
    """Make folders within each other; return the innermost, open."""
    here = os.open(folder, os.O_DIRECTORY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=here)
        inner = os.open(name, os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = inner
    return here


@pytest.fixture
def overlay() -> Iterator[Overlay]:
    if reason := missing():
        cannot_run(reason)
    with Overlay(prepare="echo a >a") as opened:
        opened.close()
        os.close(_deepen(opened.lower, "d", 780))
        opened.open()
        yield opened
        opened.close()
        for folder in (opened.lower, opened.upper):
            for path in list(folder.iterdir()):
                remove(str(folder), path.name)


def test_a_deep_folder_is_moved_further_down_and_back(overlay: Overlay) -> None:
    inner = _deepen(overlay.merged, "e", 280)
    root = os.open(overlay.merged, os.O_DIRECTORY)
    os.rename("d", "d", src_dir_fd=root, dst_dir_fd=inner)
    os.close(inner)
    os.close(root)
    walked = overlay.walk()
    assert len(walked.changes) == 280 + 780
    assert overlay.land(walked).state == "landed"
    assert sorted(path.name for path in overlay.lower.iterdir()) == [".lockgate", "a", "e"]
    assert overlay.undo("c1", "u1").state == "undone"
    assert sorted(path.name for path in overlay.lower.iterdir()) == [".lockgate", "a", "d"]


def test_what_becomes_deeper_before_the_landing_is_a_conflict(overlay: Overlay) -> None:
    overlay.call("rm -r d")
    walked = overlay.walk()
    os.close(_deepen(overlay.lower / "d" / "d", "q", 1_500))
    result = overlay.land(walked)
    assert (result.state, result.conflicts[0]) == ("conflict", "d/d/q")
    assert len(result.conflicts) == 1_500
    assert (overlay.lower / "d" / "d" / "d").is_dir()


def test_a_tree_is_listed_parents_first_and_leaves_nothing_open(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "f").touch()
    (tmp_path / "z").touch()
    root = os.open(tmp_path, os.O_DIRECTORY)
    found = [path for path, _ in fs.tree(root)]
    assert [path for path in found if path != "z"] == ["a", "a/b", "a/b/f"]
    assert "z" in found
    listing = fs.tree(root, "x/")
    assert next(path for path, _ in listing if path != "x/z") == "x/a"
    del listing  # in the middle
    assert opened_below(tmp_path) == [str(tmp_path)]  # the root itself: opened folders are seen
    os.close(root)
    assert opened_below(tmp_path) == []


@pytest.fixture
def short_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "MAX_BODY", 2_000)


def _told(answer: dict[str, Any]) -> dict[str, Any]:
    [(_, told)] = protocol.Decoder().feed(pack_answer(answer))
    assert isinstance(told, dict)
    return told


@pytest.mark.parametrize("op", ["look_held", "outlook"])
@pytest.mark.usefixtures("short_frames")
def test_an_answer_that_is_too_long_is_an_error_where_nothing_was_done(op: str) -> None:
    short = {"op": op, "n": 3, "changes": [["x" * 100]]}
    assert _told(short) == short
    error = "more changed than can be listed; make fewer changes in one call"
    assert _told({"op": op, "n": 3, "changes": [["x" * 3_000]]}) == {
        "op": op,
        "n": 3,
        "error": error,
    }


@pytest.mark.usefixtures("short_frames")
def test_a_call_whose_changes_are_too_many_to_tell_lands_nothing() -> None:
    assert _told({"op": "close", "n": 3, "changes": [["x" * 3_000], ["y"]], "diff": "d"}) == {
        "op": "close",
        "n": 3,
        "changes": [[], []],
        "empty": True,
        "diff": "",
        "unlisted": "more changed than can be listed; make fewer changes in one call",
    }


@pytest.mark.parametrize("op", ["land", "land_held", "undo"])
@pytest.mark.usefixtures("short_frames")
def test_what_was_done_is_told_however_long_the_answer_is(op: str) -> None:
    changes = [[{"path": f"f{n}"} for n in range(500)], [{"path": "g"}]]
    told = _told({"op": op, "n": 3, "changes": changes, "diff": "x" * 5_000, "conflicts": []})
    assert told["total"] == {"changes": 501}
    assert (told["n"], told["conflicts"], told["changes"][1]) == (3, [], [{"path": "g"}])
    assert told["changes"][0] == changes[0][: len(told["changes"][0])] != []
    assert "x" * 5_000 != told["diff"] != ""


def test_a_folder_that_is_opened_as_a_file_is_closed_again(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    with fs.reading(os.open(tmp_path / "file", os.O_RDONLY)) as file:
        assert opened_below(tmp_path) == [str(tmp_path / "file")]
        assert file.read() == b"text"
    with pytest.raises(IsADirectoryError):
        fs.reading(os.open(tmp_path, os.O_RDONLY))
    assert opened_below(tmp_path) == []
