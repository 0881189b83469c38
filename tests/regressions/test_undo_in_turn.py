# SPDX-License-Identifier: Apache-2.0
"""Undoing several calls, newest first: putting a file back gives it a new ctime, which is ours."""

from __future__ import annotations

import pytest

from sandbox.cell.landing import land as landing
from tests.conftest import cannot_run
from tests.sandbox.overlays import Overlay, missing


@pytest.fixture(autouse=True)
def _overlays() -> None:
    if reason := missing():
        cannot_run(reason)


def _landed(overlay: Overlay, command: str, call: str) -> Overlay:
    """Land one more call over the same workspace."""
    fresh = Overlay()
    fresh.lower = overlay.lower
    fresh.open()
    fresh.call(command)
    result = landing.land(str(overlay.lower), "", fresh.walk(), call)
    assert result.state == "landed"
    return fresh


def test_calls_on_one_file_are_undone_newest_first() -> None:
    with Overlay(prepare="echo zero >a") as overlay:
        root = str(overlay.lower)
        layers = [
            _landed(overlay, f"echo {text} >a; echo {text} >d{text}", f"c{text}")
            for text in ("one", "two", "three")
        ]
        for text, left in (("three", "two"), ("two", "one"), ("one", "zero")):
            result = landing.undo(root, f"c{text}", f"u{text}")
            assert (result.state, result.refused) == ("undone", ())
            assert (overlay.lower / "a").read_text() == f"{left}\n"
        assert sorted(p.name for p in overlay.lower.iterdir()) == [".lockgate", "a"]
        for layer in layers:
            layer.close()


def test_files_of_a_new_folder_are_undone_before_the_folder() -> None:
    with Overlay() as overlay:
        root = str(overlay.lower)
        layers = [
            _landed(overlay, "mkdir d; echo one >d/a", "c1"),
            _landed(overlay, "echo two >d/a", "c2"),
        ]
        assert landing.undo(root, "c2", "u2").state == "undone"
        assert landing.undo(root, "c1", "u1").state == "undone"
        assert not (overlay.lower / "d").exists()
        for layer in layers:
            layer.close()


def test_a_persons_edit_in_between_is_still_not_lost() -> None:
    with Overlay(prepare="echo zero >a") as overlay:
        root = str(overlay.lower)
        layers = [_landed(overlay, f"echo {text} >a", f"c{text}") for text in ("one", "two")]
        assert landing.undo(root, "ctwo", "u2").state == "undone"
        overlay.edit("chmod 600 a")  # same content, same mtime, another ctime: not ours
        assert landing.undo(root, "cone", "u1").refused == ("a",)
        for layer in layers:
            layer.close()


def test_an_undone_move_onto_a_deleted_name_can_be_done_again() -> None:
    with Overlay(prepare="echo one >a; mkdir d; echo two >d/f") as overlay:
        overlay.call("rm a; chmod 700 d; mv d a")
        assert overlay.land(overlay.walk()).state == "landed"
        after = overlay.real()
        assert overlay.undo("c1", "u1").state == "undone"
        assert overlay.undo("u1", "u2").state == "undone"
        assert overlay.real() == after
