# SPDX-License-Identifier: Apache-2.0
"""A person's file was moved to where git ignores it, or may later, and went from there unasked:
into a folder that ignores itself, edited on the way, in place of another file, or elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.cli.calls.outcome import say_landed
from tests.container.conftest import MakeLab
from tests.container.lab import Lab, repository

PLAN = "".join(f"what a person means to do about {n}\n" for n in range(30))
HIDDEN = {
    "an ignored folder": "mkdir -p build && mv plan.txt build/",
    "an ignored name": "mv plan.txt plan.log",
    "edited on the way": "mkdir -p build && mv plan.txt build/ && echo more >> build/plan.txt",
    "in place of another file": "mv plan.txt old.log",
    "a folder": "mkdir -p build && mv own build/",
    "a folder that ignores itself": (
        "mkdir .pytest_cache; printf '*\\n' > .pytest_cache/.gitignore; mv own .pytest_cache/"
    ),
    "one that will ignore itself": "mkdir -p .venv && mv plan.txt .venv/",
    "one that is there": "mv own/plan.txt .mypy_cache/",
    "a cache in a folder": "mkdir -p src/__pycache__ && mv plan.txt src/__pycache__/",
}


@pytest.fixture
def full(shared_lab: Lab) -> Lab:
    lab = shared_lab
    (lab.ws / ".gitignore").write_text("build/\n*.log\n")
    for name in ("own", ".mypy_cache", "dist", "build"):
        (lab.ws / name).mkdir()
    for name in ("plan.txt", "own/plan.txt"):
        (lab.ws / name).write_text(PLAN)
    (lab.ws / "old.log").write_text("started\n")
    (lab.ws / "build" / "out.txt").write_text("built\n")
    (lab.ws / ".mypy_cache" / ".gitignore").write_text("*\n")
    (lab.ws / ".mypy_cache" / "one.json").write_text("{}\n")
    return lab


def _moves(lab: Lab, command: str, *also: str) -> tuple[str | None, bool]:
    result = lab.sh(command, derived_from="moves", also=also)
    return result.judgement, result.landed


@pytest.mark.parametrize("command", HIDDEN.values(), ids=HIDDEN)
def test_what_goes_out_of_sight_is_held(full: Lab, command: str) -> None:
    assert _moves(full, command) == ("hold", False)
    assert full.text("plan.txt") == full.text("own/plan.txt") == PLAN


SEEN = {
    "a move": "mv plan.txt own/other.txt",
    "a move and an edit": "mv plan.txt goal.txt && echo more >> goal.txt",
    "a folder": "mv own mine",
    "from one ignored place to another": "mv old.log older.log && mv build/out.txt build/in.txt",
    "within a folder that ignores itself": "mv .mypy_cache/one.json .mypy_cache/two.json",
    "a cache is renamed": "mkdir -p .tox && mv .mypy_cache .tox/",
    "what the call made": "printf 'x = 1\\n' > n.py; mv n.py build/",
    "a cache is deleted": "rm -rf .mypy_cache build",
}


@pytest.mark.parametrize("command", SEEN.values(), ids=SEEN)
def test_what_stays_in_sight_or_was_out_of_it_lands(full: Lab, command: str) -> None:
    assert _moves(full, command) == ("land", True)


def test_what_an_agent_made_may_go_anywhere(full: Lab) -> None:
    assert full.sh("seq 90 > n1; seq 80 > n2; seq 70 > n3").landed
    assert _moves(full, "mv n1 build/; mv n2 .mypy_cache/; mv n3 x.log; echo 1 >> x.log")[1]


def test_another_workspace_hides_as_well(make_lab: MakeLab, tmp_path: Path, owner: int) -> None:
    there = repository(tmp_path / "there", owner)
    lab = make_lab(repository(tmp_path / "here", owner), there)
    (there / ".gitignore").write_text("build/\n")
    for folder in ("build", "docs"):
        (there / folder).mkdir()
    for name in ("one.txt", "two.txt"):
        (lab.ws / name).write_text(name + PLAN)
    assert _moves(lab, f"mv one.txt {there}/build/", str(there)) == ("hold", False)
    assert (lab.ws / "one.txt").exists()
    assert _moves(lab, f"mv two.txt {there}/docs/", str(there)) == ("land", True)


@pytest.mark.parametrize("lost", [True, False])
def test_no_undo_is_promised_of_what_cannot_be(
    lost: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = "`c1`" if lost else "`c0`"
    said = f"no longer undoable, since `undo_mib` is reached: {gone}"
    say_landed({"id": "c1", "changes": [{}], "message": said, "undoable": not lost})
    text = capsys.readouterr().err
    assert ("it cannot be undone" in text) is lost
    assert ("`lockgate undo c1`" in text) is not lost
