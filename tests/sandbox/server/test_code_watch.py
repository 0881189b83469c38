# SPDX-License-Identifier: Apache-2.0
"""A supervisor says that its code is as it was only while that is so."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox.host.version import PACKAGES, code_digest, code_place
from sandbox.server.code_watch import CodeWatch


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for package in PACKAGES:
        (tmp_path / "code" / package / "inner/__pycache__").mkdir(parents=True)
        (tmp_path / "code" / package / "inner/one.py").write_text("ONE = 1\n")
    return tmp_path / "code"


@pytest.fixture
def watch(root: Path) -> Iterator[CodeWatch]:
    made = CodeWatch(str(root), code_digest(str(root)))
    yield made
    made.close()


HARMLESS: dict[str, Callable[[Path], object]] = {
    "nothing": lambda inner: None,
    "a compiled file": lambda inner: (inner / "__pycache__/one.pyc").write_bytes(b"1"),
    "the folder of compiled files": lambda inner: shutil.rmtree(inner / "__pycache__"),
    "a draft that an editor takes back": lambda inner: (
        (inner / "draft").write_bytes(b""),
        (inner / "draft").rename(inner.parent.parent / "draft"),
    ),
}
CHANGES: dict[str, Callable[[Path], object]] = {
    "written in place": lambda inner: (inner / "one.py").write_text("ONE = 22\n"),
    "replaced": lambda inner: [
        (inner / "new").write_text("ONE = 33\n"),
        (inner / "new").rename(inner / "one.py"),
    ],
    "a new file": lambda inner: (inner / "two.py").write_text(""),
    "a file removed": lambda inner: (inner / "one.py").unlink(),
    "a folder made": lambda inner: (inner / "more").mkdir(),
    "a folder removed": lambda inner: shutil.rmtree(inner),
    "a folder replaced": lambda inner: [
        shutil.copytree(inner, inner.parent / "copy"),
        inner.rename(inner.parent / "old"),
        (inner.parent / "copy").rename(inner),
    ],
}


@pytest.mark.parametrize("change", HARMLESS.values(), ids=HARMLESS)
def test_what_is_no_code_changes_nothing(
    root: Path, watch: CodeWatch, change: Callable[[Path], object]
) -> None:
    change(root / "policy/inner")
    assert watch.unchanged_place() == code_place(str(root)) != ""


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changed_code_is_noticed_at_once(
    root: Path, watch: CodeWatch, change: Callable[[Path], object]
) -> None:
    assert watch.unchanged_place()
    change(root / "policy/inner")
    assert watch.unchanged_place() == ""


def test_a_file_that_is_as_it_was_again_counts_as_unchanged(root: Path, watch: CodeWatch) -> None:
    one = root / "sandbox/inner/one.py"
    one.rename(root / "one.py")
    assert watch.unchanged_place() == ""
    (root / "one.py").rename(one)
    assert watch.unchanged_place() == code_place(str(root))


def test_code_in_place_of_other_code_has_another_place(root: Path, watch: CodeWatch) -> None:
    shutil.copytree(root, root.parent / "next")
    root.rename(root.parent / "before")
    (root.parent / "next").rename(root)  # of which nothing is heard
    assert watch.unchanged_place() != code_place(str(root))


def test_code_that_changed_before_it_was_watched_is_not_taken_for_unchanged(root: Path) -> None:
    watch = CodeWatch(str(root), "0")
    assert watch.unchanged_place() == ""
    watch.close()


def test_nothing_is_known_without_a_watch(root: Path, watch: CodeWatch) -> None:
    watch.close()
    assert watch.unchanged_place() == ""
