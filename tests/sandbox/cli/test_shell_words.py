# SPDX-License-Identifier: Apache-2.0
"""What `lockgate shell` makes of the words that a shell is started with."""

from __future__ import annotations

import click
import pytest

from sandbox.cli.calls.shell import _text


@pytest.mark.parametrize(
    ("words", "text", "options", "rest"),
    [
        (["-c", "a b"], "a b", [], []),
        (["-lic", "a"], "a", [], []),
        (["-ec", "a", "name", "x"], "a", ["-e"], ["name", "x"]),
        (["-l", "-e", "-ux", "-c", "a"], "a", ["-e", "-ux"], []),
        (["-o", "pipefail", "+e", "-ec", "a"], "a", ["-o", "pipefail", "+e", "-e"], []),
        (["-O", "globstar", "-c", "a"], "a", ["-O", "globstar"], []),
        (["-e"], None, ["-e"], []),
        (["ls -la"], "ls -la", [], []),
        (["-e", "file.sh", "x"], "bash -e file.sh x", [], []),
    ],
)
def test_options_that_change_what_a_command_does_are_kept(
    words: list[str], text: str | None, options: list[str], rest: list[str]
) -> None:
    found: list[str] = []
    assert _text(words, found) == (text, rest)
    assert found == options


@pytest.mark.parametrize("words", [["-c"], ["-ec"], ["-o"], ["-e", "-O"]])
def test_what_is_missing_is_said(words: list[str]) -> None:
    with pytest.raises(click.UsageError, match="needs a"):
        _text(words, [])
