# SPDX-License-Identifier: Apache-2.0
"""An undo was refused where a file had only been touched, or saved again as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.cell.landing import land as landing
from tests.conftest import cannot_run
from tests.sandbox.overlays import Overlay, missing

BEFORE = """
mkdir d; echo a >a; echo b >b; ln -s a link; echo r >run.sh
touch -d 2020-01-01 a b run.sh
"""
CALL = "echo x >>a; rm b; ln -sfn d link; chmod 755 run.sh; mkdir -p n/m; echo x >n/m/x"

THE_SAME = {
    "a touched file": "touch a",
    "a touched file of a new folder": "touch n/m/x",
    "the same bytes written again": "cat a >../held; cat ../held >a",
    "the same bytes in another file": "cp -p a ../held; touch ../held; mv ../held a",
    "a link made again": "ln -sfn d link",
    "a touched file whose mode the call set": "touch run.sh",
    "that, saved as another file": "cp -p run.sh ../held; touch ../held; mv ../held run.sh",
    "a file with another name as well": "touch a; ln a ../held",
}
ANOTHER = {
    "another content of that size": ("printf 'a\\ny\\n' >a", "a"),
    "another content in a new folder": ("echo y >n/m/x", "n/m/x"),
    "another mode": ("touch a; chmod 600 a", "a"),
    "another mode than the call set": ("chmod 700 run.sh", "run.sh"),
    "another content where the call set a mode": ("echo s >run.sh", "run.sh"),
    "another target": ("ln -sfn n link", "link"),
    "a link to the same": ("cp a ../held; ln -sf ../held a", "a"),
    "an attribute": ('python3 -c \'import os; os.setxattr("a", "user.mine", b"1")\'', "a"),
}


@pytest.fixture
def landed() -> Overlay:
    if reason := missing():
        cannot_run(reason)
    overlay = Overlay(prepare=BEFORE)
    overlay.open()
    overlay.call(CALL)
    assert overlay.land(overlay.walk()).state == "landed"
    return overlay


@pytest.mark.parametrize("later", THE_SAME.values(), ids=THE_SAME)
def test_what_is_the_same_by_content_does_not_stand_in_the_way(landed: Overlay, later: str) -> None:
    with landed:
        landed.edit(later)
        assert landed.undo("c1", "u1").state == "undone"
        assert (landed.lower / "a").read_text() == "a\n"
        assert (landed.lower / "link").readlink() == Path("a")
        assert not (landed.lower / "n").exists()
        assert (landed.lower / "run.sh").stat().st_mode & 0o777 == 0o644
        # and what the undo left may be touched as well
        landed.edit("touch -h a b link run.sh; cp b ../again; mv ../again b")
        assert landed.undo("u1", "u2").state == "undone"
        assert (landed.lower / "a").read_text() == "a\nx\n"
        assert not (landed.lower / "b").exists()
        assert (landed.lower / "n/m/x").read_text() == "x\n"


@pytest.mark.parametrize("later, path", ANOTHER.values(), ids=ANOTHER)
def test_what_differs_still_does(landed: Overlay, later: str, path: str) -> None:
    with landed:
        landed.edit(later)
        before = landed.real()
        result = landed.undo("c1", "u1")
        assert (result.state, result.refused) == ("conflict", (path,))
        assert landed.real() == before


def test_a_later_landing_of_the_same_content_is_a_later_change(landed: Overlay) -> None:
    with landed:
        landed.edit("echo between >a")
        again = Overlay()
        again.lower = landed.lower
        with again:
            again.call("printf 'a\\nx\\n' >a")
            landing.land(str(landed.lower), "", again.walk(), "c2")
        landed.edit("touch a")
        assert landed.undo("c1", "u1").refused == ("a",)
        assert landed.undo("c2", "u2").state == "undone"
        assert (landed.lower / "a").read_text() == "between\n"
