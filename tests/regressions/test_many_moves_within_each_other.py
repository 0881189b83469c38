# SPDX-License-Identifier: Apache-2.0
"""Moves within each other were gone through once for each: 850 of them took a minute and a half to
choose from and to undo."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox.cell import fs
from sandbox.cell.journal.removal import remove
from sandbox.cell.landing import land as landing
from sandbox.cell.overlay import selection as choosing
from tests.conftest import cannot_run
from tests.sandbox.overlays import Overlay, missing

DEPTH = 200
"""Names of two bytes, so that all of a path fits what the system takes."""


@pytest.fixture
def overlay() -> Iterator[Overlay]:
    if reason := missing():
        cannot_run(reason)
    with Overlay() as opened:
        opened.close()
        for number in range(DEPTH):
            (opened.lower / f"x{number}" / "s").mkdir(parents=True)
        opened.open()
        for number in range(DEPTH - 1, 0, -1):
            place = opened.merged / f"x{number - 1}" / f"x{number}"
            (opened.merged / f"x{number}").rename(place)
        yield opened
        opened.close()
        for folder in (opened.lower, opened.upper):
            for path in list(folder.iterdir()):
                remove(str(folder), path.name)


def test_an_undo_lists_what_moves_along_once(
    overlay: Overlay, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert overlay.land(overlay.walk()).state == "landed"
    looked: list[str] = []
    tree = fs.tree

    def counting(
        directory: int, prefix: str = "", skipped: Callable[[str], bool] | None = None
    ) -> Iterator[tuple[str, os.stat_result]]:
        for path, status in tree(directory, prefix, skipped):
            looked.append(path)
            yield path, status

    monkeypatch.setattr(fs, "tree", counting)
    seen = landing.outlook(str(overlay.lower), "c1", lambda _: False, shown=False)
    assert len(seen.changes) == 2 * (DEPTH - 1)  # x0 stays
    assert len(looked) <= 2 * DEPTH
    assert landing.undo(str(overlay.lower), "c1", "u1").state == "undone"
    assert (overlay.lower / f"x{DEPTH - 1}").is_dir()


def test_a_part_of_them_is_chosen_without_comparing_each_with_each(overlay: Overlay) -> None:
    walked = overlay.walk()
    started = time.process_time()
    assert len(choosing.choose(walked, choosing.Names(["x0"]))) == len(walked.changes)
    assert time.process_time() - started < 5  # seconds; 0.1 on any machine
    whole = choosing.part(walked, set(range(len(walked.changes))))
    assert [put.path for put in whole.puts] == [put.path for put in walked.puts]


def test_files_of_a_large_folder_are_removed_in_part(tmp_path: Path) -> None:
    if reason := missing():
        cannot_run(reason)
    with Overlay() as large:
        large.close()
        (large.lower / "d").mkdir()
        for number in range(6_000):
            (large.lower / "d" / str(number)).touch()
        large.open()
        large.call("rm -r d")
        walked = large.walk()
        named = choosing.Names(f"d/{number}" for number in range(0, 6_000, 2))
        started = time.process_time()
        part = choosing.part(walked, choosing.choose(walked, named))
        assert time.process_time() - started < 5
        assert large.land(part).state == "landed"
        assert len(list((large.lower / "d").iterdir())) == 3_000
