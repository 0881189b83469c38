# SPDX-License-Identifier: Apache-2.0
"""A file that another landing took away is not put back without a word, however it was rewritten.

An overlay keeps no trace of what a file took the place of by a rename, and inode numbers are given
again: only the records of landings, and file handles, tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from sandbox.cell.landing import land as landing
from tests.conftest import cannot_run
from tests.sandbox.overlays import Overlay, missing

Open = Callable[[], Overlay]


@pytest.fixture(autouse=True)
def _overlays() -> None:
    if reason := missing():
        cannot_run(reason)


@pytest.fixture
def base() -> Iterator[Overlay]:
    with Overlay(prepare="mkdir -p d/e; echo x >d/x; echo y >d/e/y; echo a >a") as overlay:
        yield overlay


@pytest.fixture
def opened(base: Overlay) -> Iterator[Open]:
    """Return what opens one more call over the same workspace."""
    with ExitStack() as stack:

        def another() -> Overlay:
            overlay = Overlay()
            overlay.lower = base.lower
            overlay.open()
            stack.callback(overlay.close)
            return overlay

        yield another


REWRITTEN = {
    "put anew by a rename": ("echo new >n; mv n d/x", ["d/x"]),
    "removed and made again": ("rm d/x; echo new >d/x", ["d/x"]),
    "written in place": ("echo new >>d/x", ["d/x"]),
    "a link in its place": ("ln -sf a d/x", ["d/x"]),
    "a folder in its place": ("rm d/x; mkdir d/x; echo new >d/x/new", ["d/x"]),
}
REMOVED = {
    "removed": "rm d/x",
    "moved": "mv d/x moved",
    "moved over another": "mv d/x a",
}


@pytest.mark.parametrize("removal", REMOVED.values(), ids=REMOVED)
@pytest.mark.parametrize("script, paths", REWRITTEN.values(), ids=REWRITTEN)
def test_what_was_removed_meanwhile_stays_so(
    base: Overlay, opened: Open, script: str, paths: list[str], removal: str
) -> None:
    one, other = opened(), opened()
    one.call(script)
    other.call(removal)
    assert other.land(other.walk(), "c1").state == "landed"
    before = base.real()
    result = one.land(one.walk(), "c2")
    assert (result.state, [path for path in paths if path in result.conflicts]) == (
        "conflict",
        paths,
    )
    assert base.real() == before
    # the controls: a person may want it all the same, and what came later knew of the removal
    assert one.land(one.walk(), "c3", force=True).state == "landed"
    later = opened()
    later.call("echo later >d/new; echo later >a")
    assert later.land(later.walk(), "c4").state == "landed"


def test_a_file_of_a_folder_that_was_moved_meanwhile_is_not_put_back(
    base: Overlay, opened: Open
) -> None:
    one, other = opened(), opened()
    one.call("echo new >n; mv n d/e/y")
    other.call("mv d/e elsewhere")
    assert other.land(other.walk(), "c1").state == "landed"
    assert one.land(one.walk(), "c2").state == "conflict"
    assert not (base.lower / "d/e").exists()


def test_what_an_undo_took_away_is_not_put_back(base: Overlay, opened: Open) -> None:
    first = opened()
    first.call("echo first >made")
    assert first.land(first.walk(), "c1").state == "landed"
    one = opened()
    one.call("echo new >n; mv n made; echo b >b")
    assert landing.undo(str(base.lower), "c1", "u1").state == "undone"
    result = one.land(one.walk(), "c2")
    assert (result.state, result.conflicts) == ("conflict", ("made",))


def test_what_an_undo_put_back_may_be_changed(base: Overlay, opened: Open) -> None:
    first = opened()
    first.call("rm d/x")
    assert first.land(first.walk(), "c1").state == "landed"
    assert landing.undo(str(base.lower), "c1", "u1").state == "undone"
    one = opened()
    one.call("echo new >n; mv n d/x; echo more >d/more")
    assert one.land(one.walk(), "c2").state == "landed"


def test_other_files_may_be_removed_meanwhile(base: Overlay, opened: Open) -> None:
    one, other = opened(), opened()
    one.call("echo new >d/new; mkdir -p n/m; echo new >n/m/new")
    other.call("rm d/x; rm -r d/e")
    assert other.land(other.walk(), "c1").state == "landed"
    assert one.land(one.walk(), "c2").state == "landed"


def test_a_number_that_was_given_again_is_not_the_old_file() -> None:
    # A file system that gives no number again so soon has nothing to be mistaken about.
    for _ in range(50):
        with Overlay(prepare="mkdir d; echo a >d/a") as overlay:
            number = (overlay.lower / "d/a").stat().st_ino
            overlay.call("echo x >>d/a")
            overlay.close()
            overlay.edit("rm -r d; echo y >d")
            again = (overlay.lower / "d").stat().st_ino == number
            assert "d/a" in overlay.walk().conflicts
        if again:
            return


@pytest.mark.parametrize("first", ["a", "n"])
def test_a_part_of_a_changed_and_moved_file_leaves_no_conflict(
    tmp_path_factory: pytest.TempPathFactory, base: Overlay, first: str
) -> None:
    from tests.sandbox.cell.test_parts import Held

    with Overlay(prepare="echo a >a; echo b >b") as overlay:
        overlay.call("echo 1 >a; mv a n; echo c >>b")
        seen, before = overlay.seen(), overlay.real()
        held = Held(overlay, tmp_path_factory.mktemp("held"))
        held.land(first)
        assert held.rest().conflicts == []
        overlay.edit("echo mine >>b")
        assert held.rest().conflicts == ["b"]  # the control
        overlay.edit("echo b >b")
        held.parts += 1
        rest = held.rest()
        result = landing.land(str(overlay.lower), rest.upper, rest, "rest", force=True)
        assert result.state == "landed"
        assert overlay.real().keys() == seen.keys()
        assert before.keys() != seen.keys()
