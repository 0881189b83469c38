# SPDX-License-Identifier: Apache-2.0
"""What somebody did while a call ran is found where no file's own time tells of it.

A folder that is moved takes along files whose times are old. And the clock of a file system stands
still for milliseconds, so that an edit bore the same time as the opening before it.
"""

from __future__ import annotations

import os

import pytest

from sandbox.cell.landing import land as landing
from tests.conftest import cannot_run
from tests.sandbox import overlays
from tests.sandbox.overlays import Overlay, missing

PREPARE = """
mkdir -p d/s other/s e; echo x | tee d/x d/s/x >/dev/null; echo y | tee other/x other/s/x >/dev/null
echo e >e/e
"""


@pytest.fixture(autouse=True)
def _overlays() -> None:
    if reason := missing():
        cannot_run(reason)


IN_D, IN_S, INSTEAD = "mv other d/", "mv other d/s/", "mv d d.old; mv other d"
CASES = {
    "removed, with what was moved in": ("rm -r d", IN_D, "d/other"),
    "removed, with what was moved in further down": ("rm -r d", IN_S, "d/s/other"),
    "made anew": ("rm -r d; mkdir d", IN_S, "d/s/other"),
    "a file in its place": ("rm -r d; echo n >d", IN_S, "d/s/other"),
    "another folder moved into its place": ("rm -r d; mv e d", IN_S, "d/s/other"),
    "a folder in it removed": ("rm -r d/s", IN_S, "d/s/other"),
    "removed, another in its place": ("rm -r d", INSTEAD, "d"),
    "a file written to": ("echo new >>d/x", INSTEAD, "d/x"),
    "a file put anew": ("echo new >n; mv n d/x", INSTEAD, "d/x"),
    "a file removed": ("rm d/x", INSTEAD, "d/x"),
    "a file's mode": ("chmod 600 d/x", INSTEAD, "d/x"),
    "a file further down": ("echo new >>d/s/x", INSTEAD, "d/s/x"),
    "the folder's own mode": ("chmod 700 d", INSTEAD, "d"),
}


@pytest.mark.parametrize("masks", [(), ("d/secret",)], ids=["nothing hidden", "a secret in it"])
@pytest.mark.parametrize(("script", "meanwhile", "path"), CASES.values(), ids=CASES)
def test_a_folder_that_came_meanwhile_is_not_overruled(
    script: str, meanwhile: str, path: str, masks: tuple[str, ...]
) -> None:
    with Overlay(*masks, prepare=PREPARE) as overlay:
        overlay.call(script)
        overlay.edit(meanwhile)
        before = overlay.real()
        walked = overlay.walk()
        assert path in walked.conflicts
        assert overlay.land(walked).state == "conflict"
        assert overlay.real() == before


HARMLESS = {
    "beside it": "echo n >new; mkdir fresh",
    "in it, what is gone again": "echo n >d/s/t; rm d/s/t;",
    "in it, what stays, where the call changes another file": "echo n >d/new; mkdir new d/fresh",
}


@pytest.mark.parametrize("meanwhile", HARMLESS.values(), ids=HARMLESS)
def test_what_is_done_beside_is_no_conflict(meanwhile: str) -> None:
    script = "rm -r d" if "t;" in meanwhile else "echo new >>d/x; rm d/s/x; echo new >n; mv n e/e"
    with Overlay(prepare=PREPARE) as overlay:
        overlay.call(script)
        overlay.edit(meanwhile)
        assert overlay.land(overlay.walk()).state == "landed"


def test_an_edit_right_after_the_opening_is_a_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlays, "_wait_for_next_tick", lambda *_: None)
    for _ in range(20):
        with Overlay(prepare="echo 5 >n") as overlay:
            number = int((overlay.merged / "n").read_text())
            (overlay.lower / "n").write_text("7\n")
            (overlay.merged / "n").write_text(f"{number + 1}\n")
            assert overlay.walk().conflicts == ["n"]


def test_what_landed_right_before_the_opening_is_none() -> None:
    with Overlay(prepare="echo 0 >n") as overlay:
        lower = overlay.lower
        overlay.call("echo 1 >n")
        assert overlay.land(overlay.walk(), "c0").state == "landed"
        for call in range(1, 20):
            later = Overlay()
            later.lower = lower
            later.since = landing.stamp(str(lower))
            status = (lower / "n").stat()
            assert status.st_ctime_ns < later.since
            (later.upper / "n").write_text(f"{call}\n")
            os.utime(later.upper / "n", ns=(0, call))
            assert later.land(later.walk(), f"c{call}").state == "landed"


@pytest.mark.parametrize(("stands", "waited"), [(0, 0), (3, 3), (10**6, landing.MOST_TICKS)])
def test_a_clock_that_stands_still_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, stands: int, waited: int
) -> None:
    with Overlay(prepare="echo 0 >n") as overlay:
        overlay.call("echo 1 >n")
        assert overlay.land(overlay.walk()).state == "landed"
        landed = (overlay.lower / ".lockgate" / "undo").stat().st_mtime_ns
        looks = 0

        def still(_: int) -> int:
            nonlocal looks
            looks += 1
            return landed + (looks > stands)

        naps: list[float] = []
        monkeypatch.setattr(landing, "_fresh", still)
        monkeypatch.setattr("time.sleep", naps.append)
        assert landing.stamp(str(overlay.lower)) == landed + (stands < landing.MOST_TICKS)
        assert len(naps) == waited
