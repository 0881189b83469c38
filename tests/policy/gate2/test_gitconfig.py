# SPDX-License-Identifier: Apache-2.0
"""Git's settings are read as git reads them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.gate2.git import config as gitconfig
from policy.protected.paths import PathPolicy
from tests.conftest import cannot_run
from tests.examples import examples

KEYS = PathPolicy.default().git_keys

CASES = {
    "nothing": ("", []),
    "a setting": ("[core]\n\tbare = false\n", [("core.bare", "false")]),
    "on the header's line": ("[core] bare = false", [("core.bare", "false")]),
    "a subsection": ('[remote "Origin"]\nurl = x', [("remote.Origin.url", "x")]),
    "an old subsection": ("[remote.Origin]\nurl=x", [("remote.origin.url", "x")]),
    "case of section and key": ("[CORE]\nBare=1", [("core.bare", "1")]),
    "without a value": ("[core]\nbare\n", [("core.bare", None)]),
    "comments": ("# a\n[core] ; b\nx = y # z\n", [("core.x", "y")]),
    "a comment does not continue": ("[a]\nx = y # z \\\nb = c\n", [("a.x", "y"), ("a.b", "c")]),
    "a value continues": ("[a]\nx = y \\\n[b]\nc = d\n", [("a.x", "y [b]"), ("a.c", "d")]),
    "quotes": ('[a]\nx = " y # "z\n', [("a.x", " y # z")]),
    "escapes": ('[a]\nx = "\\t\\"\\\\"\n', [("a.x", '\t"\\')]),
    "carriage returns": ("[a]\r\nx = y\r\n", [("a.x", "y")]),
    "a byte order mark": ("\ufeff[a]\nx=y", [("a.x", "y")]),
    "up to an error": ("[a]\nx = y\n]\nb = c\n", [("a.x", "y")]),
}


@pytest.mark.parametrize("text, expected", CASES.values(), ids=CASES)
def test_reading(text: str, expected: list[gitconfig.Setting]) -> None:
    assert gitconfig.settings(text) == expected


@pytest.mark.parametrize("text, expected", CASES.values(), ids=CASES)
def test_git_reads_the_same(text: str, expected: list[gitconfig.Setting], tmp_path: Path) -> None:
    found = _git(text, tmp_path)
    if found is not None:
        assert found == expected


def _git(text: str, folder: Path) -> list[gitconfig.Setting] | None:
    """Return what git reads; None where git refuses the text."""
    if shutil.which("git") is None:
        cannot_run("git is not installed")
    file = folder / "config"
    file.write_bytes(text.encode())
    command = ["git", "config", "--file", str(file), "--null", "--list", "--no-includes"]
    run = subprocess.run(command, capture_output=True, check=False)
    if run.returncode != 0:
        return None
    found: list[gitconfig.Setting] = []
    for item in run.stdout.decode().split("\0")[:-1]:
        name, separator, value = item.partition("\n")
        found.append((name, value if separator else None))
    return found


PIECES = st.lists(
    st.sampled_from(
        [
            "[a]",
            "[b]",
            '[a "B"]',
            "\n",
            " ",
            "x",
            "y-1",
            "=",
            "#",
            ";",
            '"',
            "\\",
            "\t",
            "\r\n",
            "z",
        ]
    ),
    max_size=20,
)


@settings(max_examples=examples(150), deadline=None)
@given(PIECES)
def test_whatever_git_reads_is_read(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str]
) -> None:
    text = "[s]\nk = v\n" + "".join(pieces)
    found = _git(text, tmp_path_factory.mktemp("git"))
    if found is not None:
        assert _blanks(gitconfig.settings(text)) == _blanks(found)


def _blanks(found: list[gitconfig.Setting]) -> list[gitconfig.Setting]:
    """Make all blanks in values spaces: older versions of git do."""
    return [(name, value and re.sub(r"\s", " ", value)) for name, value in found]


ADDED = {
    "a harmless key": ("", "[user]\nname = a", []),
    "a monitor program": ("", "[core]\nfsmonitor = ./x", ["core.fsmonitor"]),
    "git's own monitor": ("", "[core]\nfsmonitor = true", []),
    "a hooks path": ("", "[core]\nhooksPath = x", ["core.hookspath"]),
    "a filter": ("", '[filter "z"]\nclean = x', ["filter.z.clean"]),
    "a merge driver": ("", '[merge "z"]\ndriver = x', ["merge.z.driver"]),
    "an alias": ("", "[alias]\nst = status", ["alias.st"]),
    "an include": ("", "[include]\npath = x", ["include.path"]),
    "a conditional include": ("", '[includeIf "gitdir:/"]\npath = x', ["includeif.gitdir:/.path"]),
    "a signing program": ("", '[gpg "ssh"]\nprogram = x', ["gpg.ssh.program"]),
    "another address": ("", '[url "x"]\ninsteadOf = y', ["url.x.insteadof"]),
    "a text conversion": ("", '[diff "a"]\ntextconv = x', ["diff.a.textconv"]),
    "a remote": ("", '[remote "o"]\nurl = https://h.invalid/x', []),
    "a remote that is a command": ("", '[remote "o"]\nurl = ext::sh -c x', ["remote.o.url"]),
    "it was there": ("[core]\npager = x", "[core]\npager = x\n[user]\nname = a", []),
    "it was changed": ("[core]\npager = x", "[core]\npager = y", ["core.pager"]),
    "it was removed": ("[core]\npager = x", "", []),
}


@pytest.mark.parametrize("before, after, expected", ADDED.values(), ids=ADDED)
def test_added_settings(before: str, after: str, expected: list[str]) -> None:
    assert gitconfig.added(before, after, KEYS) == expected
