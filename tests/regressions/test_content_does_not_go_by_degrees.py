# SPDX-License-Identifier: Apache-2.0
"""What a person had went away without a question: moved onto each other, moved to where git ignores
it, or emptied ten files at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from policy.gate2.judge import judge
from policy.model import Change, Decision, FileType, Kind, Outcome
from policy.protected.paths import PathPolicy
from sandbox.cell.overlay.onward import note_onward
from sandbox.cell.overlay.replaced import note_replaced
from sandbox.gates.shown_changes import changes_of
from sandbox.workspaces.replaced_ledger import ReplacedLedger
from tests.conftest import cannot_run
from tests.container.lab import Lab
from tests.policy.asking import bash
from tests.sandbox.overlays import Overlay, missing, open_overlay

PATHS = PathPolicy.default()
PREPARE = """
mkdir -p old docs
for n in a b c; do for i in $(seq 40); do echo "$n $i: what $n says about $i"; done >$n.txt; done
cp a.txt docs/guide.md; echo older >docs/older.md; : >empty.txt
touch -d 2020-01-01 *.txt docs/*
"""


@pytest.fixture
def overlay() -> Iterator[Overlay]:
    yield from open_overlay(PREPARE)


def _judged(overlay: Overlay, command: str, words: str | None = None) -> Outcome:
    """Return what gate 2 says of a command, whose words gate 1 read."""
    overlay.call(command)
    walked = overlay.walk()
    note_replaced(walked, str(overlay.lower), "main")
    note_onward([walked], [str(overlay.lower)])
    decision: Decision = bash(words or command)
    return judge(decision, changes_of(walked.changes), PATHS, workspace="/w").outcome


GONE = {
    "moved onto one name": "mv a.txt x; mv b.txt x; mv c.txt x",
    "moved onto each other": "mv a.txt b.txt; mv b.txt c.txt",
    "moved and overwritten": "mv a.txt x; echo other >x",
    "moved and removed by the new name": "mv a.txt x; rm x",
    "in a loop": "for f in *.txt; do mv $f x; done",
    "a folder onto which they go": "mkdir d; mv a.txt d/x; mv b.txt d/x",
}


@pytest.mark.parametrize("command", GONE.values(), ids=GONE)
def test_what_is_moved_and_gone_is_held(overlay: Overlay, command: str) -> None:
    assert _judged(overlay, command) is Outcome.HOLD


STAYS = {
    "a move": "mv a.txt x",
    "a move into a folder": "mv a.txt b.txt c.txt old/",
    "a move in a loop": "for f in *.txt; do mv $f old/; done",
    "a new file over an old one": "cp a.txt n; echo more >>n; mv n a.txt",
    "one file over another": "mv a.txt docs/older.md",
    "a move and an edit": "mv a.txt x; sed -i s/what/that/ x",
    "a move and an addition": "mv docs/guide.md docs/manual.md; echo more >>docs/manual.md",
    "files that trade places": "mv a.txt t; mv b.txt a.txt; mv t b.txt",
    "a folder that is moved and edited": "mv docs pages; echo more >>pages/guide.md",
    "an empty file": "mv empty.txt x; echo now >x",
}


@pytest.mark.parametrize("command", STAYS.values(), ids=STAYS)
def test_what_is_there_afterwards_lands(overlay: Overlay, command: str) -> None:
    assert _judged(overlay, command) is Outcome.LAND


def test_what_no_word_names_is_not_moved(overlay: Overlay) -> None:
    assert _judged(overlay, "mv b.txt old/", words="mv a.txt old/") is Outcome.HOLD


def test_what_is_moved_to_another_workspace_lives_on() -> None:
    if reason := missing():
        cannot_run(reason)
    with Overlay(prepare=PREPARE) as here, Overlay() as there:
        there.call(f"mv {here.merged}/a.txt .")
        walks, roots = [here.walk(), there.walk()], [str(here.lower), str(there.lower)]
        note_onward(walks, roots)
        (gone,) = walks[0].changes
    assert gone["lives_on"] is True


@pytest.mark.parametrize(
    "fields, outcome",
    [
        ({"goes_ignored": True}, Outcome.HOLD),
        ({"goes_ignored": True, "own": True}, Outcome.LAND),
        ({"goes_ignored": True, "ignored": True}, Outcome.LAND),
        ({}, Outcome.LAND),
    ],
)
def test_moved_to_where_git_ignores_it(fields: dict[str, bool], outcome: Outcome) -> None:
    change = Change("build/a.txt", Kind.RENAMED, FileType.FILE, source="a.txt", **fields)  # type: ignore[arg-type]
    found = judge(bash("mv a.txt build/"), [change], PATHS, workspace="/w")
    assert found.outcome is outcome


def _emptied(names: range) -> list[Change]:
    return [Change(f"src/{n}.py", Kind.MODIFIED, FileType.FILE, replaced="emptied") for n in names]


@pytest.mark.parametrize("count, outcome", [(25, Outcome.LAND), (26, Outcome.HOLD)])
def test_earlier_calls_are_counted_with_it(count: int, outcome: Outcome) -> None:
    earlier = frozenset(f"src/{n}.py" for n in range(100, 100 + count))
    decision = bash("python3 x.py")
    found = judge(decision, _emptied(range(5)), PATHS, workspace="/w", earlier=earlier)
    assert found.outcome is outcome
    again = frozenset(f"src/{n}.py" for n in range(5))  # the same files count once
    assert judge(decision, _emptied(range(5)), PATHS, earlier=again).outcome is Outcome.LAND
    none = [Change("src/new.py", Kind.CREATED, FileType.FILE)]
    assert judge(decision, none, PATHS, earlier=earlier).outcome is Outcome.LAND


def test_notes_are_an_agents_and_a_workspaces(tmp_path: Path) -> None:
    ledger = ReplacedLedger(tmp_path / "replaced")
    assert ledger.earlier("one", ["/w"]) == [frozenset()]
    ledger.note("one", "/w", ["a", "b"])
    ledger.note("one", "/w", ["b", "c"])
    again = ReplacedLedger(tmp_path / "replaced")
    assert again.earlier("one", ["/w", "/v"]) == [frozenset("abc"), frozenset()]
    assert again.earlier("two", ["/w"]) == [frozenset()]
    again.forget("one", ["/w"])
    assert ledger.earlier("one", ["/w"]) == [frozenset()]


def test_in_a_cell_ten_at_a_time_is_held_in_the_end(lab: Lab) -> None:
    for n in range(44):
        (lab.ws / f"m{n}.txt").write_text(f"what stands in {n}\n" * 8)
    wipe = "for n in $(seq {} {}); do : >m$n.txt; done"
    assert [lab.sh(wipe.format(n, n + 3)).landed for n in range(0, 28, 4)] == [True] * 7
    held = lab.sh(wipe.format(28, 31))
    assert held.judgement == "hold"
    assert "28 others in this agent's calls of the last day" in held.message
    assert lab.sh("echo more >>m40.txt").landed
    assert lab.run(lab.supervisor.land(held.id)).landed  # a person has looked
    assert lab.sh(wipe.format(32, 35)).landed
