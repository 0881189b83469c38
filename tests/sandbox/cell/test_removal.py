# SPDX-License-Identifier: Apache-2.0
"""Removing trees of any depth, size and shape, at once or in pieces."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.cell import fs
from sandbox.cell.journal.removal import Trash, remove


def _deep(path: Path) -> None:
    here = os.open(path, os.O_DIRECTORY)
    for _ in range(3_000):
        os.mkdir("d" * 20, dir_fd=here)
        os.mkdir(".0", dir_fd=here)
        os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        inner = os.open("d" * 20, os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


def _wide(path: Path) -> None:
    for number in range(2_000):
        (path / f"{number}").touch()
        (path / f".{number}").mkdir()


def _odd(path: Path) -> None:
    (path / "link").symlink_to(path.parent / "kept")
    (path / "dangling").symlink_to("nowhere")
    os.mkfifo(path / "fifo")
    (path / "\udcff").mkdir()
    (path / "\udcff" / "x y\n").write_text("x")
    (path / "\udcff" / "to").symlink_to("..")
    (path / ".0" / ".0" / ".0").mkdir(parents=True)
    (path / ".0" / ".0" / ".1").touch()
    (path / ".1").touch()
    (path / ".2" / "x").mkdir(parents=True)


SHAPES = {"deep": _deep, "wide": _wide, "odd": _odd, "empty": lambda _: None}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / "gone").mkdir()
    return tmp_path


@pytest.mark.parametrize("make", SHAPES.values(), ids=SHAPES)
def test_a_tree_is_removed_and_nothing_else(place: Path, make: Callable[[Path], object]) -> None:
    make(place / "gone")
    remove(str(place), "gone")
    assert sorted(path.name for path in place.rglob("*")) == ["file", "kept"]
    remove(str(place), "gone")  # absent is fine


@pytest.mark.parametrize("make", SHAPES.values(), ids=SHAPES)
def test_it_is_removed_in_pieces(place: Path, make: Callable[[Path], object]) -> None:
    make(place / "gone")
    trash = Trash()
    trash.add(str(place / "gone"))
    kept = True
    assert not trash.work(lambda _: kept, 0.01)
    assert (place / "gone").exists()  # the control: it is not removed before it may be
    kept = False
    pieces = 1
    while trash.work(lambda _: kept, 0.001):
        pieces += 1
    assert sorted(path.name for path in place.rglob("*")) == ["file", "kept"]
    assert pieces > 3 or make not in (_deep, _wide)


def test_a_link_and_a_file_are_removed_themselves(place: Path) -> None:
    (place / "link").symlink_to("kept")
    (place / "file").touch()
    directory = fs.open_directory(str(place))
    for name in ("link", "file"):
        remove(directory, name)
    os.close(directory)
    assert sorted(path.name for path in place.iterdir()) == ["gone", "kept"]


def test_what_cannot_be_removed_does_not_keep_the_rest(place: Path) -> None:
    trash = Trash()
    trash.add(str(place / "nowhere" / "x"))
    trash.add(str(place / "gone"))
    while trash.work(lambda _: False, 0.01):
        pass
    assert not (place / "gone").exists()
