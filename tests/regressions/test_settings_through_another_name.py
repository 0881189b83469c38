# SPDX-License-Identifier: Apache-2.0
"""A file's mode, owner and times were changed through another of its names, which nobody judged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sandbox.overlays import Overlay, open_overlay

PREPARE = """
mkdir d; echo protected >protected; ln protected alias; ln protected d/alias; echo own >own
ln -s target link; ln link other
chmod 644 protected own; touch -h -d 2020-01-01 protected own link
"""


@pytest.fixture
def overlay() -> Iterator[Overlay]:
    yield from open_overlay(PREPARE)


CASES = {
    "a mode": ("chmod 777 alias", [("meta", "alias")]),
    "an owner": ("chown 7:7 alias", [("meta", "alias")]),
    "an attribute": ("setfattr -n user.x -v y alias", [("meta", "alias")]),
    "a time": ("touch alias", []),
    "a mode below a renamed folder": (
        "mv d e; chmod 777 e/alias",
        [("renamed", "e"), ("renamed", "e/alias")],
    ),
    "a mode of a file that is moved": ("chmod 777 alias; mv alias new", [("renamed", "new")]),
    "an owner of a symbolic link": ("chown -h 7:7 other", [("meta", "other")]),
}


@pytest.mark.parametrize(("script", "changes"), CASES.values(), ids=CASES)
def test_settings_are_changed_for_the_judged_name_alone(
    overlay: Overlay, script: str, changes: list[tuple[str, str]]
) -> None:
    before = overlay.real()
    overlay.call(script.replace("setfattr -n user.x -v y alias", SET))
    seen = overlay.seen()
    walked = overlay.walk()
    assert [(one["kind"], one["path"]) for one in walked.changes] == changes
    overlay.land(walked)
    after = overlay.real()
    kept = {path: after[path] for path in ("protected", "link", "own")}
    assert kept == {path: before[path] for path in kept}
    # the control: what was asked for is there, under the name that was judged
    timeless = {path: facts[:4] for path, facts in after.items()}
    assert timeless == {path: facts[:4] for path, facts in seen.items()}
    if changes:
        assert overlay.undo("c1", "u1").state == "undone"
    assert {p: f[:4] for p, f in overlay.real().items()} == {p: f[:4] for p, f in before.items()}


SET = 'python3 -c \'import os; os.setxattr("alias", "user.x", b"y")\''


def test_a_file_with_one_name_is_changed_in_place(overlay: Overlay) -> None:
    inode = (overlay.lower / "own").stat().st_ino
    overlay.call("chmod 777 own")
    overlay.land(overlay.walk())
    status = (overlay.lower / "own").stat()
    assert (status.st_ino, status.st_mode & 0o777) == (inode, 0o777)
