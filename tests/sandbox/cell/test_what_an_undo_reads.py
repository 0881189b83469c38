# SPDX-License-Identifier: Apache-2.0
"""An undo reads its own record, and of the others those that were completed last, as far as it
must: not all that a workspace keeps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox.cell.journal import format as journal
from tests.sandbox.overlays import Overlay, open_overlay

MANY = 30


@pytest.fixture
def overlay() -> Iterator[Overlay]:
    yield from open_overlay("echo a >a; echo b >b")


def land(overlay: Overlay, call: str, script: str) -> None:
    """Land another call in the same workspace."""
    with Overlay() as fresh:
        fresh.lower = overlay.lower
        fresh.close()
        fresh.open()
        fresh.call(script)
        assert fresh.land(fresh.walk(), call).state == "landed"


def read_for(overlay: Overlay, monkeypatch: pytest.MonkeyPatch, call: str, name: str) -> int:
    """Undo a call; return how many records that read."""
    read: list[int] = []
    really = journal.read

    def counted(folder: int) -> journal.Journal | None:
        read.append(folder)
        return really(folder)

    with monkeypatch.context() as patched:
        patched.setattr(journal, "read", counted)
        assert overlay.undo(call, name).state == "undone"
    return len(read)


def test_one_after_the_other_each_reads_a_few(
    overlay: Overlay, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = overlay.real()
    for number in range(MANY):
        land(overlay, f"c{number}", f"echo {number} >>a")
    read = [
        read_for(overlay, monkeypatch, f"c{number}", f"u{number}")
        for number in reversed(range(MANY))
    ]
    assert overlay.real() == before
    assert max(read) < 8


def test_what_was_undone_long_ago_is_found_all_the_same(
    overlay: Overlay, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = overlay.real()
    land(overlay, "c1", "echo 1 >>a")
    land(overlay, "c2", "echo 2 >>a")
    assert read_for(overlay, monkeypatch, "c2", "u2") == 1
    for number in range(MANY):
        land(overlay, f"b{number}", f"echo {number} >b")
    assert read_for(overlay, monkeypatch, "c1", "u1") > MANY
    assert overlay.real()["a"] == before["a"]


def test_a_change_that_no_record_explains_is_not_lost(overlay: Overlay) -> None:
    land(overlay, "c1", "echo 1 >>a")
    for number in range(6):
        land(overlay, f"b{number}", f"echo {number} >b")
    overlay.edit("echo mine >a")
    refused = overlay.undo("c1", "u1")
    assert (refused.state, refused.conflicts) == ("conflict", ("a",))
    assert overlay.real()["a"][3] == b"mine\n"
