# SPDX-License-Identifier: Apache-2.0
"""What had landed in one of several workspaces stayed there without a word where it could not be
taken back, and where an error other than a conflict ended the landing in the next one."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.cell.landing import land as landing
from sandbox.cell.landing import multi as together
from sandbox.cell.overlay.layer import LandingError
from sandbox.cell.overlay.walk import walk

Spaces = dict[str, str]


@pytest.fixture
def roots(tmp_path: Path) -> Spaces:
    found = {}
    for name in ("a", "b"):
        for folder, text in (("root", "old"), ("upper", "new")):
            (tmp_path / name / folder).mkdir(parents=True)
            (tmp_path / name / folder / "f").write_text(text)
        found[f"/w/{name}"] = str(tmp_path / name / "root")
    return found


@pytest.fixture
def notes(tmp_path: Path) -> str:
    return str(tmp_path / "notes")


def _land(root: str, call: str = "c1") -> None:
    upper = str(Path(root).parent / "upper")
    assert landing.land(root, upper, walk(upper, root), call, durable=False).state == "landed"


def _note(notes: str, roots: Spaces) -> None:
    Path(notes).mkdir(exist_ok=True)
    Path(notes, "c1").write_text(json.dumps({"name": "c1", "paths": list(roots)}))


def _texts(roots: Spaces) -> list[str]:
    return [Path(root, "f").read_text() for root in roots.values()]


def _fail_after_one(roots: Spaces, notes: str, *, edit: bool) -> None:
    first = roots["/w/a"]
    with together.whole("c1", roots, folder=notes) as done:
        _land(first)
        done.append("/w/a")
        if edit:
            Path(first, "f").write_text("a person's")
        raise LandingError("the disk is full")


def test_an_error_takes_back_what_was_done(roots: Spaces, notes: str) -> None:
    with pytest.raises(LandingError, match=r"^the disk is full$"):
        _fail_after_one(roots, notes, edit=False)
    assert _texts(roots) == ["old", "old"]
    assert list(Path(notes).iterdir()) == []
    assert landing.list_undo(roots["/w/a"]) == []
    _land(roots["/w/b"])  # under the same name


def _undo_one(roots: Spaces, notes: str) -> None:
    with together.whole("u1", roots, folder=notes) as done:
        assert landing.undo(roots["/w/a"], "c1", "u1").state == "undone"
        done.append("/w/a")
        raise LandingError("the disk is full")


def test_an_undo_that_was_taken_back_can_be_done_again(roots: Spaces, notes: str) -> None:
    for root in roots.values():
        _land(root)
    with pytest.raises(LandingError, match=r"^the disk is full$"):
        _undo_one(roots, notes)
    assert _texts(roots) == ["new", "new"]
    for root in roots.values():
        assert [one["call"] for one in landing.list_undo(root)] == ["c1"]
        assert landing.undo(root, "c1", "u1").state == "undone"
    assert _texts(roots) == ["old", "old"]


@pytest.mark.parametrize("undoes", [False, True])
def test_a_run_that_is_taken_back_may_be_cut_short_anywhere(
    roots: Spaces, notes: str, *, undoes: bool
) -> None:
    root = roots["/w/a"]
    _land(root)
    name, before = ("u1", "new") if undoes else ("c1", "old")
    if undoes:
        landing.undo(root, "c1", "u1")
    steps = 0
    while _crashes(lambda fault: landing.retract(root, name, fault=fault), steps):
        landing.recover(root)
        _note(notes, roots)
        text = Path(notes, "c1").read_text().replace('"c1"', f'"{name}"')
        Path(notes, "c1").rename(Path(notes, name)).write_text(text)
        assert together.settle(roots, notes) == [name]
        assert together.standing(name, notes) == {}
        assert Path(root, "f").read_text() == before
        assert [one["call"] for one in landing.list_undo(root)] == (["c1"] if undoes else [])
        if undoes:
            landing.undo(root, "c1", "u1")
        else:
            _land(root)
        steps += 1
    assert steps > 5


def _crashes(work: Callable[[Callable[[str], None]], object], at: int) -> bool:
    """Do some work in a process that dies at a step; return whether it came so far."""
    pid = os.fork()
    if pid == 0:
        left = [at]

        def fault(_step: str) -> None:
            if not left[0]:
                os._exit(9)
            left[0] -= 1

        try:
            work(fault)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9


def test_what_cannot_be_taken_back_is_said(roots: Spaces, notes: str) -> None:
    with pytest.raises(together.Parted) as caught:
        _fail_after_one(roots, notes, edit=True)
    assert str(caught.value) == (
        "the disk is full; in `/w/a` it is done and stays so: `f` changed since"
    )
    assert caught.value.stands == {"/w/a": "`f` changed since"}
    assert _texts(roots) == ["a person's", "old"]
    assert [one["call"] for one in landing.list_undo(roots["/w/a"])] == ["c1"]


def test_after_a_crash_it_is_put_down_where_it_stands(roots: Spaces, notes: str) -> None:
    _land(roots["/w/a"])
    Path(roots["/w/a"], "f").write_text("a person's")
    _note(notes, roots)
    assert together.settle(roots, notes) == ["c1"]
    assert together.standing("c1", notes) == {"/w/a": "`f` changed since"}
    assert together.standing("c2", notes) == {}
    assert _texts(roots) == ["a person's", "old"]
    assert together.settle(roots, notes) == []


def test_a_crash_after_it_was_taken_back_stops_nobody(roots: Spaces, notes: str) -> None:
    _land(roots["/w/a"])
    landing.undo(roots["/w/a"], "c1", "c1-back")
    _note(notes, roots)
    assert together.settle(roots, notes) == ["c1"]
    assert together.standing("c1", notes) == {}
    assert _texts(roots) == ["old", "old"]


@pytest.mark.parametrize("moment", ["before it is opened", "before it is locked"])
def test_two_keepers_that_start_at_once_settle_it_once(
    roots: Spaces, notes: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _land(roots["/w/a"])
    _note(notes, roots)
    found: list[list[str]] = []
    listdir, flock = os.listdir, fcntl.flock

    def listed(folder: str) -> list[str]:
        names = listdir(folder)
        if folder == notes:
            monkeypatch.setattr(os, "listdir", listdir)
            found.append(together.settle(roots, notes))  # another keeper, at this moment
        return names

    def locked(descriptor: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        found.append(together.settle(roots, notes))
        flock(descriptor, how)

    if moment == "before it is opened":
        monkeypatch.setattr(os, "listdir", listed)
    else:
        monkeypatch.setattr(fcntl, "flock", locked)
    assert together.settle(roots, notes) == []
    assert found == [["c1"]]
    assert _texts(roots) == ["old", "old"]
