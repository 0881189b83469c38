# SPDX-License-Identifier: Apache-2.0
"""Folders so deep that no path leads there neither stop the keeper nor show what is secret.

A call cannot make them at once, but by moving one deep folder into another.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandbox.cell.journal.removal import remove
from sandbox.cell.overlay import masks
from sandbox.cell.overlay.masks import Patterns

NAME = "n" * 200


@pytest.fixture
def deep(tmp_path: Path) -> Path:
    """Return a workspace with a secret at the end of a path of 8,000 characters."""
    root = tmp_path / "lower"
    root.mkdir()
    here = os.open(root, os.O_DIRECTORY)
    for _ in range(40):
        os.mkdir(NAME, dir_fd=here)
        inner = os.open(NAME, os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(os.open(".env", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    return root


def test_what_no_path_leads_to_is_hidden(deep: Path, tmp_path: Path) -> None:
    patterns = Patterns([r"(?:.*/)?\.env"], [], [])
    hidden, _ = masks.find(str(deep), patterns)
    assert len(hidden) == 2
    longest = hidden[-1]
    assert masks.LONGEST < len(longest) < masks.LONGEST + 256
    masks.build(str(tmp_path / "mask"), str(deep), hidden, {})
    assert os.path.lexists(tmp_path / "mask" / longest)
    remove(str(tmp_path), "lower")


def test_what_lies_beside_is_looked_at_as_ever(tmp_path: Path) -> None:
    folder = tmp_path.joinpath(*[NAME] * 12)
    folder.mkdir(parents=True)
    (folder / ".env").touch()
    (folder / "plain").touch()
    hidden, _ = masks.find(str(tmp_path), Patterns([r"(?:.*/)?\.env"], [], []))
    assert hidden == [".lockgate", str((folder / ".env").relative_to(tmp_path))]
