# SPDX-License-Identifier: Apache-2.0
"""Names that appear in a workspace while its cell is warm, by times and by the kernel's word."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.cell.overlay import newcomers
from sandbox.cell.overlay.newcomers import Newcomers

Make = Callable[[], Newcomers]
BY = {"times": 10_000, "the kernel": 0}
"""How many folders are compared."""


@pytest.fixture(params=list(BY.values()), ids=list(BY))
def make(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    monkeypatch.setattr(newcomers, "MOST_COMPARED", request.param)
    for folder in ("src/app", "docs"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "old").touch()
    return lambda: watching(tmp_path)


def watching(root: Path, *, quiet: bool = True) -> Newcomers:
    """Return what watches all folders of a workspace, once nothing of it is new."""
    one = Newcomers(str(root))
    since = time.time_ns()
    one.watch([str(at.relative_to(root)) if at != root else "" for at in folders(root)], since)
    while quiet and any(names(one)):
        time.sleep(0.01)
    return one


def folders(root: Path) -> list[Path]:
    """Return all folders of a workspace."""
    return [root, *(path for path in root.rglob("*") if path.is_dir())]


def names(one: Newcomers) -> set[tuple[str, bool]]:
    """Return the names that have appeared, none of them missed."""
    found, missed = one.take()
    assert not missed
    return set(found)


def test_what_appears_is_told(make: Make, tmp_path: Path) -> None:
    one = make()
    assert names(one) == set()
    (tmp_path / "src/app/.env").touch()
    (tmp_path / "lib").mkdir()
    assert {("src/app/.env", False), ("lib", True)} <= names(one)
    one.watch(["lib"], time.time_ns())
    (tmp_path / "lib/.env").touch()
    assert ("lib/.env", False) in names(one)


def test_what_is_moved_there_and_what_takes_a_place_is_told(make: Make, tmp_path: Path) -> None:
    one = make()
    (tmp_path / "docs/old").rename(tmp_path / "src/.env")
    assert ("src/.env", False) in names(one)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/.env").touch()
    shutil.rmtree(tmp_path / "docs")
    (tmp_path / "other").rename(tmp_path / "docs")
    told = names(one)
    assert ("docs/.env", False) in told or ("docs", True) in told


def test_a_time_that_is_put_back_hides_nothing(make: Make, tmp_path: Path) -> None:
    one = make()
    before = (tmp_path / "src").stat()
    (tmp_path / "src/.env").touch()
    os.utime(tmp_path / "src", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert ("src/.env", False) in names(one)


def test_what_appears_between_the_look_and_the_watching_is_told(tmp_path: Path) -> None:
    since = time.time_ns()  # the look begins
    (tmp_path / ".env").touch()
    for most in BY.values():
        one = Newcomers(str(tmp_path))
        newcomers.MOST_COMPARED, before = most, newcomers.MOST_COMPARED
        try:
            one.watch([""], since)
        finally:
            newcomers.MOST_COMPARED = before
        assert (".env", False) in names(one)


def test_the_kernel_is_asked_for_large_workspaces_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    original = newcomers._libc.inotify_init1

    def init(flags: int) -> int:
        asked.append(flags)
        return int(original(flags))

    monkeypatch.setattr(newcomers._libc, "inotify_init1", init)
    for number in range(newcomers.MOST_COMPARED - 1):
        (tmp_path / f"f{number}").mkdir()
    watching(tmp_path)
    assert asked == []
    (tmp_path / "more").mkdir()
    one = watching(tmp_path)
    assert len(asked) == 1
    (tmp_path / "f7/.env").touch()
    assert ("f7/.env", False) in names(one)


@pytest.mark.parametrize("refused", ["inotify_init1", "inotify_add_watch"])
def test_where_the_kernel_watches_no_more_times_count_in_every_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    monkeypatch.setattr(newcomers, "MOST_COMPARED", 0)
    monkeypatch.setattr(newcomers._libc, refused, lambda *_: -1)
    (tmp_path / "a/b").mkdir(parents=True)
    one = watching(tmp_path)
    (tmp_path / "a/b/.env").touch()
    assert ("a/b/.env", False) in names(one)


def test_what_the_kernel_watched_is_given_back_and_nothing_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(newcomers, "MOST_COMPARED", 0)
    (tmp_path / "a").mkdir()
    one = watching(tmp_path)
    (tmp_path / "a/.env").touch()  # heard, and not read yet
    before = len(inotifies())
    one.release()
    assert len(inotifies()) == before - 1
    assert ("a/.env", False) in names(one)
    (tmp_path / "a/.env.local").touch()
    assert ("a/.env.local", False) in names(one)
    for number in range(3):
        (tmp_path / f"n{number}").mkdir()
    one.watch([f"n{number}" for number in range(3)], time.time_ns())
    assert len(inotifies()) == before - 1  # and never asked for again


def inotifies() -> list[str]:
    """Return the descriptors of this process on which the kernel tells of files."""
    found = []
    for path in Path("/proc/self/fd").iterdir():
        try:
            if str(path.readlink()) == "anon_inode:inotify":
                found.append(path.name)
        except FileNotFoundError:
            continue
    return found
