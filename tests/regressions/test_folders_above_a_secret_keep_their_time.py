# SPDX-License-Identifier: Apache-2.0
"""The folders above a hidden file showed the time at which the mask was made."""

from __future__ import annotations

import os

from tests.container.lab import Lab


def test_folders_keep_their_time_in_a_cell(lab: Lab) -> None:
    folder = lab.ws / "a" / "b" / "c"
    folder.mkdir(parents=True)
    (folder / ".env").write_text("x")
    for depth, path in enumerate((folder, folder.parent, folder.parent.parent), 1):
        os.utime(path, (depth * 1000, depth * 1000))
    found = lab.read("stat -c %Y a/b/c a/b a; ls a/b/c")
    assert found.stdout == "1000\n2000\n3000\n"
