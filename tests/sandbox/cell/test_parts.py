# SPDX-License-Identifier: Apache-2.0
"""Landing a held layer in parts, on real overlay mounts: what is chosen lands, the rest stays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox.cell.landing import land as landing
from sandbox.cell.landing.fates import became
from sandbox.cell.landing.held import Waiting
from sandbox.cell.overlay.layer import LandingError
from sandbox.cell.overlay.selection import Names, choose, part
from sandbox.cell.overlay.steps import Walk
from tests.conftest import cannot_run
from tests.sandbox.cell.test_landing import EVERYTHING, OPERATIONS, PREPARE, _perform
from tests.sandbox.overlays import Overlay, Tree, missing


@pytest.fixture(autouse=True)
def _overlays() -> None:
    if reason := missing():
        cannot_run(reason)


class Held:
    """A layer that waits, as a keeper keeps it, over a workspace."""

    def __init__(self, overlay: Overlay, folder: Path) -> None:
        self._overlay = overlay
        self._waiting = Waiting(str(folder), f"{folder}.beside")
        self._root = str(overlay.lower)
        (folder / "c" / "0").mkdir(parents=True)
        self.parts = 0

    def rest(self) -> Walk:
        """Return what has not landed yet."""
        assert self._overlay.since is not None
        walked = self._overlay.walk()
        return self._waiting.rest("c", 0, walked, self._overlay.since, self._landed)

    def land(self, *names: str) -> Walk:
        """Land what is named; all that is left where nothing is."""
        walked = self.rest()
        chosen = part(walked, choose(walked, Names(names))) if names else walked
        self.parts += 1
        name = f"c-{self.parts}"
        self._waiting.begin("c", 0, name, walked, chosen, self._landed)
        result = landing.land(self._root, chosen.upper, chosen, name)
        assert result.state in ("landed", "nothing"), result
        self._waiting.settle("c", 0, self._landed)
        return chosen

    def _landed(self, name: str) -> bool:
        return became(self._root, name) is not None


@pytest.fixture
def overlay() -> Iterator[Overlay]:
    with Overlay(prepare=PREPARE) as opened:
        yield opened


def brief(walked: Walk) -> list[str]:
    return [f"{change['kind']} {change['path']}" for change in walked.changes]


CASES = {
    "one file of several": (
        "echo x >>a; echo y >>b; echo n >n",
        ["a"],
        ["modified a"],
        ["modified b", "created n"],
    ),
    "a glob stays within one name": (
        "echo x >a.py; mkdir s; echo x >s/b.py",
        ["*.py"],
        ["created a.py"],
        ["created s", "created s/b.py"],
    ),
    "two stars go through folders": (
        "echo x >a.py; mkdir s; echo x >s/b.py; echo x >s/c.txt",
        ["**/*.py"],
        ["created a.py", "created s", "created s/b.py"],
        ["created s/c.txt"],
    ),
    "a folder stands for all it holds": (
        "echo x >>d/a; echo x >>d/e/b; echo y >>a",
        ["d/"],
        ["modified d/a", "modified d/e/b"],
        ["modified a"],
    ),
    "new folders above what is named": (
        "mkdir -p n/m; echo x >n/m/x; echo y >n/y",
        ["n/m/x"],
        ["created n", "created n/m", "created n/m/x"],
        ["created n/y"],
    ),
    "a part of a deletion": (
        "rm -r big",
        ["big/1"],
        ["deleted big/1"],
        ["deleted big", "deleted big/2"],
    ),
    "a folder in a deleted one": (
        "rm -r d",
        ["d/e"],
        ["deleted d/e", "deleted d/e/b"],
        ["deleted d", "deleted d/a", "deleted d/link"],
    ),
    "a renamed file by its new name": (
        "mv big/1 one; echo x >>a",
        ["one"],
        ["renamed one"],
        ["modified a"],
    ),
    "a renamed file by its old name": (
        "mv big/1 one; echo x >>a",
        ["big/1"],
        ["renamed one"],
        ["modified a"],
    ),
    "a renamed folder, with what changed in it": (
        "mv sub s; echo n >s/n; echo x >>a",
        ["s"],
        ["renamed s", "renamed s/hard", "created s/n", "renamed s/s", "renamed s/t"],
        ["modified a"],
    ),
    "a renamed folder by its old name": (
        "mv sub s; echo x >>a",
        ["sub"],
        ["renamed s", "renamed s/hard", "renamed s/s", "renamed s/t"],
        ["modified a"],
    ),
    "a mode": ("chmod 600 sub/t; chmod 700 big", ["sub/t"], ["meta sub/t"], ["meta big"]),
    "a type, whole": (
        "rm a; mkdir a; echo x >a/x; echo y >>b",
        ["a"],
        ["created a", "deleted a", "created a/x"],
        ["modified b"],
    ),
    "a name with the signs of a glob": (
        "echo x >'[id].txt'; echo x >i.txt",
        ["[id].txt"],
        ["created [id].txt", "created i.txt"],
        [],
    ),
    "a folder made anew": (
        "rm -r big; mkdir big; echo 3 >big/3",
        ["big/3"],
        ["created big/3"],
        ["deleted big/1", "deleted big/2"],
    ),
}


@pytest.mark.parametrize("script, names, landed, left", CASES.values(), ids=CASES)
def test_what_is_named_lands_and_the_rest_stays(
    overlay: Overlay,
    tmp_path: Path,
    script: str,
    names: list[str],
    landed: list[str],
    left: list[str],
) -> None:
    overlay.call(script)
    seen, before = overlay.seen(), overlay.real()
    held = Held(overlay, tmp_path)
    assert brief(held.land(*names)) == landed
    assert brief(held.rest()) == left
    assert not held.rest().conflicts
    if left:
        held.land()
    assert overlay.real() == seen
    for number in range(held.parts, 0, -1):
        assert overlay.undo(f"c-{number}", f"u{number}").state == "undone"
    assert overlay.real() == before


REFUSED = {
    "a file of a renamed folder": (
        "mv d x; echo x >>x/a",
        "x/a",
        "`x/a` goes with the move of `d` to `x`, which lands as a whole: name `x`",
    ),
    "what came out of a renamed folder": (
        "mv d x; mv x/e y",
        "y",
        "`y` goes with the move of `d` to `x`, which lands as a whole: name `x`",
    ),
    "what lies in a folder that replaces a file": (
        "rm a; mkdir a; echo x >a/x",
        "a/x",
        "`a/x` lies in `a`, which takes the place of something else: name `a`",
    ),
    "what lies in a folder in place of a moved one": (
        "mv d x; mkdir d; echo q >d/q",
        "d/q",
        "`d/q` lies in `d`, which takes the place of something else: name `d`",
    ),
}


@pytest.mark.parametrize("script, name, said", REFUSED.values(), ids=REFUSED)
def test_half_of_a_move_is_refused(
    overlay: Overlay, tmp_path: Path, script: str, name: str, said: str
) -> None:
    overlay.call(script)
    before = overlay.real()
    held = Held(overlay, tmp_path)
    with pytest.raises(LandingError) as caught:
        held.land(name)
    assert str(caught.value) == said
    assert overlay.real() == before
    held.land(
        name.split("/")[0] if "replaces" not in said else "a", *(["x"] if "x" in said else [])
    )


def test_names_that_fit_nothing_are_known() -> None:
    assert Names(["app/[post-id]/page.tsx"]).fit("app/[post-id]/page.tsx")  # it is no glob
    assert not Names(["app/[post-id]/page.tsx"]).fit("app/p/page.tsx")
    names = Names(["a", "b/*.py", "c"])
    assert [names.fit(path) for path in ("a", "b/x.py", "b/c/x.py", "b/x.pyc")] == [
        *(True, True, False, False),
    ]
    assert names.used == {"a", "b/*.py"}


def test_a_crash_between_a_part_and_its_note_neither_loses_nor_repeats_it(
    overlay: Overlay, tmp_path: Path
) -> None:
    overlay.call("rm b; echo x >>a; echo n >n")
    held = Held(overlay, tmp_path)
    walked = held.rest()
    chosen = part(walked, choose(walked, Names(["b", "a"])))
    held._waiting.begin("c", 0, "c-1", walked, chosen, held._landed)
    assert len(held.rest().changes) == 3  # it crashed before the landing: all of it is held
    landing.land(str(overlay.lower), chosen.upper, chosen, "c-1")
    assert brief(held.rest()) == ["created n"]  # it crashed after the landing
    held.parts = 1
    held.land()
    assert brief(held.rest()) == []


def test_what_was_landed_and_undone_is_not_held_again(overlay: Overlay, tmp_path: Path) -> None:
    overlay.call("rm b; echo x >>a; echo n >n")
    held = Held(overlay, tmp_path)
    held.land("a", "b")
    overlay.undo("c-1", "u1")
    assert brief(held.rest()) == ["created n"]


def test_an_edit_of_what_is_still_held_is_a_conflict_and_of_what_landed_is_none(
    overlay: Overlay, tmp_path: Path
) -> None:
    overlay.call("echo x >>a; echo y >>b")
    held = Held(overlay, tmp_path)
    held.land("a")
    overlay.edit("echo mine >>a")
    assert held.rest().conflicts == []
    overlay.edit("echo mine >>b")
    assert held.rest().conflicts == ["b"]


def test_what_takes_the_place_of_a_moved_folder_is_not_held_again(
    overlay: Overlay, tmp_path: Path
) -> None:
    overlay.call("mv big n; mkdir big; echo x >big/a")
    seen = overlay.seen()
    held = Held(overlay, tmp_path)
    held.land("n", "big")
    assert overlay.real() == seen
    assert brief(held.rest()) == []


PATHS = ("a", "b", "d", "d/a", "d/e", "d/e/b", "big", "big/1", "n", "n/m", "x", "*", "**/m", "?")


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(OPERATIONS, max_size=10),
    st.lists(st.lists(st.sampled_from(PATHS), min_size=1, max_size=3), max_size=3),
)
def test_parts_and_the_rest_together_are_the_whole(
    tmp_path_factory: pytest.TempPathFactory,
    operations: list[tuple[str, str, object]],
    rounds: list[list[str]],
) -> None:
    with Overlay(prepare=PREPARE) as overlay:
        for operation in operations:
            _perform(overlay.merged, *operation)
        seen, before = overlay.seen(), overlay.real()
        held = Held(overlay, tmp_path_factory.mktemp("held"))
        landed = 0
        for names in rounds:
            try:
                landed += bool(held.land(*names).changes)
            except LandingError:
                held.parts -= 0  # nothing of it has landed
        held.land()
        _same(overlay.real(), seen)
        assert held.rest().changes == []
        for number in range(held.parts, 0, -1):
            if became(str(overlay.lower), f"c-{number}") is not None:
                assert overlay.undo(f"c-{number}", f"u{number}").state == "undone"
        _same(overlay.real(), before)


def _same(found: Tree, wanted: Tree) -> None:
    assert found == wanted


def test_everything_lands_path_by_path(overlay: Overlay, tmp_path: Path) -> None:
    overlay.call(EVERYTHING)
    seen = overlay.seen()
    held = Held(overlay, tmp_path)
    for _ in range(100):
        left = held.rest().changes
        if not left:
            break
        for change in left:
            try:
                held.land(change["path"])
                break
            except LandingError:
                continue
    held.land()
    assert overlay.real() == seen
