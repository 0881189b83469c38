# SPDX-License-Identifier: Apache-2.0
"""Keepers that start at the same time over what a crash left do not stumble over each other."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from sandbox.cell.journal.removal import remove
from sandbox.cell.keeper import orphans as leftovers


@pytest.fixture
def live(tmp_path: Path) -> Path:
    for cell in ("one", "two"):
        (tmp_path / cell / "1.0" / "upper" / "d").mkdir(parents=True)
    return tmp_path


def test_what_another_one_removes_is_left_to_it(
    live: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[list[str]] = []

    def slowly(directory: int, name: str) -> None:
        if name == "one":
            monkeypatch.setattr(leftovers, "remove", remove)
            found.append(leftovers.sweep(str(live)))  # another keeper, in the middle of this
        remove(directory, name)

    monkeypatch.setattr(leftovers, "remove", slowly)
    assert leftovers.sweep(str(live)) == ["one"]
    assert found == [["two"]]
    assert list(live.iterdir()) == []


def test_what_cannot_be_removed_keeps_nobody_from_starting(
    live: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(directory: int, name: str) -> None:
        if name == "one":
            raise OSError(errno.EPERM, "Operation not permitted")
        remove(directory, name)

    monkeypatch.setattr(leftovers, "remove", failing)
    assert leftovers.sweep(str(live)) == ["two"]
    assert [path.name for path in live.iterdir()] == ["one"]
