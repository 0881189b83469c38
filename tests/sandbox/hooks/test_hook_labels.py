# SPDX-License-Identifier: Apache-2.0
"""The comment behind a ticket: it shows the command, and no shell evaluates any of it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from sandbox.hooks.labels import MOST_CHARS, label_of

HOSTILE = (
    "echo a\ntouch ran",
    "x; touch ran",
    "$(touch ran) `touch ran` && touch ran | touch ran & touch ran > ran",
    "' ; touch ran ; '",
    '" ; touch ran ; "',
    "\\\n touch ran",
    "\r touch ran",
    "\u2028touch ran \x85touch ran \x1b[2Jtouch ran",
    "!! !touch ~ * {a,b} [x] #touch ran",
    "<(touch ran) <<E\ntouch ran\nE",
)


def test_a_label_shows_the_command_on_one_line() -> None:
    assert label_of("git push origin main") == " # git push origin main"
    assert label_of("") == ""
    assert len(label_of("x" * 10_000)) <= MOST_CHARS + 3
    for command in HOSTILE:
        assert "touch" in label_of(command)
        assert len(label_of(command).splitlines()) == 1


@pytest.mark.parametrize("command", HOSTILE)
def test_no_shell_evaluates_a_label(tmp_path: Path, command: str) -> None:
    """Also where a shell knows no comments: what stands there is words alone."""
    words = label_of(command)
    for text in (f"true x{words}", f"true x{words.replace('#', '')}"):
        for shell in ("bash", "sh", "dash", "zsh"):
            if shutil.which(shell):
                done = subprocess.run([shell, "-c", text], cwd=tmp_path, capture_output=True)
                assert (done.returncode, list(tmp_path.iterdir())) == (0, []), text
    # the control: the command itself, unlabelled, does what it says where it is one
    subprocess.run(["bash", "-c", "x; touch ran"], cwd=tmp_path, capture_output=True)
    assert [one.name for one in tmp_path.iterdir()] == ["ran"]
