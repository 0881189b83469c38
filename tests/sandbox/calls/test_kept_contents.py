# SPDX-License-Identifier: Apache-2.0
"""One file of a call that cannot be undone as a whole is read from what is kept of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox.calls.edits.kept_contents import read_before
from sandbox.errors import BadInput
from tests.sandbox.overlays import Overlay, open_overlay

PREPARE = "mkdir -p d/e; echo mine >a; echo b >b; echo deep >d/e/f; ln -s a link"


@pytest.fixture
def overlay() -> Iterator[Overlay]:
    yield from open_overlay(PREPARE)


def test_what_a_call_replaced_or_deleted_can_be_read(overlay: Overlay) -> None:
    overlay.call("echo x >a; rm b; rm -r d; ln -sf b link; echo new >n")
    assert overlay.land(overlay.walk()).state == "landed"
    overlay.edit("echo later >n")  # so that the call cannot be undone as a whole
    assert overlay.undo("c1", "u1").state == "conflict"
    root = str(overlay.lower)
    assert read_before(root, "c1", "a") == b"mine\n"
    assert read_before(root, "c1", "./b") == b"b\n"
    assert read_before(root, "c1", "d/e/f") == b"deep\n"
    for path in ("n", "other", "../a", "d/e/f/../../../a/x"):
        with pytest.raises(
            BadInput, match=r"replaced or deleted no|cannot be read|nothing is kept"
        ):
            read_before(root, "c1", path)
    with pytest.raises(BadInput, match=r"no ordinary file|cannot be read"):
        read_before(root, "c1", "link")
    with pytest.raises(BadInput, match="nothing is kept"):
        read_before(root, "c9", "a")
    with pytest.raises(BadInput, match="cannot be the id"):
        read_before(root, "../c1", "a")


def test_of_what_was_undone_nothing_is_read(overlay: Overlay) -> None:
    overlay.call("echo x >a")
    assert overlay.land(overlay.walk()).state == "landed"
    assert read_before(str(overlay.lower), "c1", "a") == b"mine\n"
    assert overlay.undo("c1", "u1").state == "undone"
    with pytest.raises(BadInput, match="was undone"):
        read_before(str(overlay.lower), "c1", "a")
