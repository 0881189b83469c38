# SPDX-License-Identifier: Apache-2.0
"""A person's file that an agent moved counted as the agent's: it was then deleted without a
question, and its last copy was the first to go."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from policy.model import ActionPlan, Params, Tier, Verdict
from sandbox.cell.landing import land as landing
from sandbox.cell.overlay import marks
from sandbox.results import CallResult, ChangeView, Ending
from sandbox.workspaces.project_files import ProjectFiles
from tests.conftest import cannot_run
from tests.regressions.test_last_copies_are_kept import Workspace, fill
from tests.sandbox.overlays import Overlay, missing

BEFORE = "echo precious > notes; echo other > other; mkdir plans; echo plan > plans/one"


@pytest.fixture
def workspace() -> Iterator[Workspace]:
    if reason := missing():
        cannot_run(reason)
    with Overlay(prepare=BEFORE) as base:
        yield Workspace(base)


MOVES = {
    "under another name": ("mv notes mine", "mine"),
    "into a new folder": ("mkdir new && mv notes new/mine", "new/mine"),
    "with another time": ("mv notes mine && touch -d 2001-01-01 mine", "mine"),
    "with more in it": ("mv notes mine && echo more >> mine", "mine"),
    "by a copy": ("cp -p notes mine && rm notes", "mine"),
    "by a second name": ("ln notes mine && rm notes", "mine"),
    "over what was its own": ("mv notes own", "own"),
    "with its folder": ("mv plans mine", "mine/one"),
    "out of its folder": ("mv plans/one mine && rmdir plans", "mine"),
}


@pytest.mark.parametrize("script, place", MOVES.values(), ids=MOVES)
def test_what_a_call_moved_is_whose_it_was(workspace: Workspace, script: str, place: str) -> None:
    assert workspace("a", "echo own > own").state == "landed"
    assert workspace("a", script).state == "landed"
    path = os.path.join(workspace.root, place)  # noqa: PTH118
    assert not marks.is_all(path, "a")
    assert workspace("a", f"rm {place}").state == "landed"
    for _ in range(4):
        assert workspace("a", fill(9000)).state == "landed"
    # One of the copies is there still: what was taken away, or what it was made of.
    kept = {call for call in ("c2", "c3") if call in workspace.calls()}
    assert kept
    for number, call in enumerate(sorted(kept, reverse=True)):
        assert landing.undo(workspace.root, call, f"u{number}").state == "undone"
    texts = [one.read_text() for one in Path(workspace.root).rglob("*") if _holds(one)]
    assert any(text.startswith(("precious", "plan")) for text in texts)


def _holds(path: Path) -> bool:
    return path.is_file() and ".lockgate" not in path.parts and path.name != "junk"


@pytest.mark.parametrize("script, place", [("mv own mine", "mine"), ("mv made mine", "mine/own")])
def test_what_an_agent_made_stays_its_own(workspace: Workspace, script: str, place: str) -> None:
    assert workspace("a", "echo own > own; mkdir made; echo own > made/own").state == "landed"
    assert workspace("a", script).state == "landed"
    path = os.path.join(workspace.root, place)  # noqa: PTH118
    assert marks.is_all(path, "a")
    assert not marks.is_all(path, "b")


def _landed(*changes: tuple[str, str, str | None]) -> CallResult:
    return CallResult(
        id="c1",
        tool="Bash",
        verdict=Verdict.REPORT,
        tier=Tier.CAUTION,
        rules=(),
        message="",
        ending=Ending.RAN,
        ms=1,
        landed=True,
        changes=tuple(
            ChangeView(path=path, kind=kind, type="file", source=source)
            for path, kind, source in changes
        ),
    )


MADE = [("made", "created", None)]
OWN = {
    "a new file": ([MADE], "made", True),
    "its own, moved": ([MADE, [("mine", "renamed", "made")]], "mine", True),
    "a person's, moved": ([[("mine", "renamed", "notes")]], "mine", False),
    "a person's, in a folder that moved": (
        [[("new", "renamed", "old"), ("new/mine", "renamed", "old/notes")]],
        "new/mine",
        False,
    ),
    "new, where a person's went away": (
        [[("notes", "deleted", None), ("mine", "created", None)]],
        "mine",
        False,
    ),
    "new, where its own went away": (
        [MADE, [("made", "deleted", None), ("mine", "created", None)]],
        "mine",
        True,
    ),
    "a person's, changed": ([[("mine", "modified", None)]], "mine", False),
}


@pytest.mark.parametrize("landings, name, own", OWN.values(), ids=OWN)
def test_what_moved_is_no_more_the_agents_than_before(
    tmp_path: Path, landings: list[list[tuple[str, str, str | None]]], name: str, own: bool
) -> None:
    plan = ActionPlan(tool="Bash", workspace=str(tmp_path), params=Params(command="true"))
    files = ProjectFiles()
    for changes in landings:
        for path, kind, source in changes:
            place = tmp_path / path
            place.parent.mkdir(exist_ok=True)
            if source is not None and (tmp_path / source).exists():
                (tmp_path / source).rename(place)
            elif kind == "deleted":
                place.unlink(missing_ok=True)
            elif path == "new":
                place.mkdir()
            else:
                place.write_text(path)
        files.note(plan, _landed(*changes))
    path = str(tmp_path / name)
    assert files.look(plan, [path])[path].own is own


def test_a_second_name_of_a_file_is_nobodys_own(tmp_path: Path) -> None:
    plan = ActionPlan(tool="Bash", workspace=str(tmp_path), params=Params(command="true"))
    files, mine = ProjectFiles(), tmp_path / "mine"
    (tmp_path / "notes").write_text("precious")
    mine.hardlink_to(tmp_path / "notes")
    files.note(plan, _landed(("mine", "created", None)))
    assert not files.look(plan, [str(mine)])[str(mine)].own
