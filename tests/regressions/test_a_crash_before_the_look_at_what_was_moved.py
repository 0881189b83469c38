# SPDX-License-Identifier: Apache-2.0
"""A keeper killed after it had exchanged a file, before it saw that somebody had put another one
there, left that other one among the before-images: recovery took it for the old file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox.cell.journal import apply as applying
from sandbox.cell.journal.format import Identity, Op
from sandbox.cell.landing import land as landing
from tests.conftest import cannot_run
from tests.sandbox.overlays import Overlay, missing

PREPARE = "echo old >a; echo b >b; mkdir d; echo d >d/f; touch -d 2020-01-01 a b d/f"
CALL = "echo new >a; rm b; rm -r d; echo n >n; echo z >z"
Edit = Callable[[Path], object]


def _replace(path: Path) -> None:
    (path.parent / "mine").write_text("a person's")
    (path.parent / "mine").rename(path)


EDITS: dict[str, tuple[str, Edit]] = {
    "a file that was to be replaced": ("a", _replace),
    "one edited in place": ("a", lambda path: path.write_text("a person's")),
    "a file that was to be removed": ("b", _replace),
    "a folder that was to be removed": ("d", lambda path: (path / "g").write_text("a person's")),
}
BACK = {
    "a file that was to be replaced": ("a", _replace),
    "one edited in place": ("a", lambda path: path.write_text("a person's")),
    "a file that was to be removed": ("n", _replace),
}


@pytest.fixture
def overlay() -> Iterator[Overlay]:
    if reason := missing():
        cannot_run(reason)
    with Overlay(prepare=PREPARE) as opened:
        opened.call(CALL)
        yield opened


def _dies(work: Callable[[Callable[[str], None]], object], path: Path, edit: Edit) -> None:
    """Do some work; at a path, somebody edits after the look before, and then it dies."""
    pid = os.fork()
    if pid == 0:
        original, edited = applying.Runner._expect, []

        def expecting(
            self: applying.Runner, op: Op, directory: int, name: str, expected: Identity | None
        ) -> Identity:
            found = original(self, op, directory, name, expected)
            if op.path == path.name:
                edit(path)
                edited.append(op.path)
            return found

        def fault(step: str) -> None:
            if edited and step.startswith(("exchanged", "moved")):
                os._exit(9)

        applying.Runner._expect = expecting  # type: ignore[method-assign]
        try:
            work(fault)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9


def _person_s(overlay: Overlay) -> list[str]:
    return [
        str(path.relative_to(overlay.lower))
        for path in overlay.lower.rglob("*")
        if ".lockgate" not in path.parts and path.is_file() and path.read_text() == "a person's"
    ]


@pytest.mark.parametrize(("name", "edit"), EDITS.values(), ids=EDITS)
def test_a_landing_is_taken_back_and_the_edit_stays(
    overlay: Overlay, name: str, edit: Edit
) -> None:
    walked = overlay.walk()
    _dies(lambda fault: overlay.land(walked, fault=fault), overlay.lower / name, edit)
    [done] = landing.recover(str(overlay.lower))
    assert done["state"] == "conflict"
    assert _person_s(overlay) == ["d/g" if name == "d" else name]
    assert not (overlay.lower / "z").exists()
    assert (overlay.lower / "d" / "f").read_text() == "d\n"
    assert landing.list_undo(str(overlay.lower)) == []


@pytest.mark.parametrize(("name", "edit"), BACK.values(), ids=BACK)
def test_an_undo_is_given_up_and_the_edit_stays(overlay: Overlay, name: str, edit: Edit) -> None:
    assert overlay.land(overlay.walk()).state == "landed"
    root = str(overlay.lower)
    _dies(lambda fault: landing.undo(root, "c1", "u1", fault=fault), overlay.lower / name, edit)
    [done] = landing.recover(root)
    assert done["state"] == "conflict"
    assert _person_s(overlay) == [name]
    assert (overlay.lower / "z").read_text() == "z\n"
    assert not (overlay.lower / "b").exists()
    assert [one["call"] for one in landing.list_undo(root)] == ["c1"]
    assert landing.undo(root, "c1", "u2").conflicts == (name,)


def test_without_an_edit_the_landing_is_brought_to_its_end(overlay: Overlay) -> None:
    walked = overlay.walk()
    _dies(lambda fault: overlay.land(walked, fault=fault), overlay.lower / "a", lambda _: None)
    [done] = landing.recover(str(overlay.lower))
    assert done["state"] == "landed"
    assert (overlay.lower / "a").read_text() == "new\n"
