# SPDX-License-Identifier: Apache-2.0
"""Huge files with holes: they land with their holes, and only what they hold is read."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.sandbox.overlays import Overlay, open_overlay

SIZE = 10 << 30
MOST_READ = 64 << 20
"""Bytes; the holes alone are 160 times as much."""


@pytest.fixture
def overlay() -> Iterator[Overlay]:
    yield from open_overlay(f"truncate -s {SIZE} old; echo end >>old; echo a >a")


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the size of every piece that is read."""
    sizes: list[int] = []
    original = os.pread

    def noting(descriptor: int, size: int, offset: int) -> bytes:
        data = original(descriptor, size, offset)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", noting)
    return sizes


def holes(overlay: Overlay, name: str) -> bool:
    """Whether a real file takes less of the disk than it is long."""
    status = (overlay.lower / name).stat()
    return status.st_size >= SIZE and status.st_blocks * 512 < MOST_READ


CASES = {
    "a new one": (f"truncate -s {SIZE} new; printf x >>new", "created", "new"),
    "one that is written to": ("printf y | dd of=old bs=1 seek=5000000000 conv=notrunc status=none",
                               "modified", "old"),
    "one that is cut and made anew": (f"truncate -s 0 old; truncate -s {SIZE} old; echo n >>old",
                                      "modified", "old"),
}  # fmt: skip


@pytest.mark.parametrize(("script", "kind", "name"), CASES.values(), ids=CASES)
def test_a_sparse_file_lands_sparse_and_is_read_once(
    overlay: Overlay, read: list[int], script: str, kind: str, name: str
) -> None:
    overlay.call(script)
    expected = (overlay.merged / name).stat().st_size
    walked = overlay.walk()
    assert [(one["kind"], one["path"], one["size"]) for one in walked.changes] == [
        (kind, name, expected)
    ]
    assert overlay.land(walked, quota=MOST_READ).state == "landed"  # what they take up counts
    assert (overlay.lower / name).stat().st_size == expected
    assert holes(overlay, name)
    assert overlay.undo("c1", "u1").state == "undone"
    assert 0 < sum(read) < MOST_READ
    assert not (overlay.lower / "new").exists()
    assert holes(overlay, "old")


def test_one_that_is_only_opened_for_writing_is_no_change(
    overlay: Overlay, read: list[int]
) -> None:
    overlay.call(": >>old")
    assert overlay.walk().changes == []
    assert sum(read) < MOST_READ
