# SPDX-License-Identifier: Apache-2.0
"""Found: a name longer than a file may have ended a grant with a bare error of the system."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.approvals.pregrant import of_command
from sandbox.errors import BadInput
from sandbox.host.dirs import Dirs
from sandbox.workspaces.registry import Registry

LONG = "a" * 5000


@pytest.mark.parametrize("name", ["notes.txt", LONG, f"{LONG}/b", "x" * 256])
def test_a_grant_is_asked_for_whatever_the_name(tmp_path: Path, name: str) -> None:
    assert _asked(tmp_path, name, cwd=None) == f"deletes {tmp_path / 'w' / name}"


def test_a_folder_with_a_null_byte_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="null byte"):
        _asked(tmp_path, "notes.txt", cwd=f"{tmp_path}/w/\0")


def _asked(root: Path, name: str, *, cwd: str | None) -> str:
    place = root / "w"
    place.mkdir()
    (place / "notes.txt").touch()
    dirs = Dirs(root / "state", root / "config", root / "run").create()
    Registry(dirs).add(place, approved=True)
    request = of_command(
        dirs, ("rm", name), workspace=str(place), agent="main", role=None, cwd=cwd, here=None
    )
    assert request.wanted.paths is not None
    return request.wanted.paths[0]
