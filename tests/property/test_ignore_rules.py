# SPDX-License-Identifier: Apache-2.0
"""Ignore rules mean what git takes them for, and no rule and no name take more than linear work."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policy.gate2.ignore_rules import Rules
from policy.gate2.wildmatch import WORD, Budget, Pattern, TooMuchWork

PIECES = (
    *("a", "b", "foo", "*", "**", "***", "/", "?", "[", "]", "!", "\\", "-", "^", " ", "#", "é"),
    *("[a-b]", "[!a]", "[^a]", "[]a]", "[[:alpha:]]", "[[:nothing:]]", "**/", "/**", "[\\", "a-"),
)
NAMES = ("a", "b", "ab", "aa", "foo", "foob", "-", "]", "é", "a b", "ba", "!a", "#a", "\\a", "[a")
FILES = st.lists(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join), min_size=1, max_size=4
).map(lambda lines: "\n".join(lines) + "\n")
PATHS = st.lists(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join),
    min_size=1,
    max_size=30,
    unique=True,
)
MUCH = 10**9


def ignored(rules: Rules, path: str) -> bool:
    """Whether a path is ignored, or a folder that it lies in."""
    parts = path.split("/")
    return any(
        rules.answer(
            "/".join(parts[:depth]).encode(), is_folder=depth < len(parts), budget=Budget(MUCH)
        )
        for depth in range(1, len(parts) + 1)
    )


def git_ignores(folder: Path, paths: Sequence[str]) -> set[str]:
    """Return what git itself takes for ignored."""
    done = subprocess.run(
        ["git", "check-ignore", "--no-index", "-z", "--stdin"],
        cwd=folder,
        input="\0".join(paths).encode(),
        capture_output=True,
        check=False,
    )
    return {one for one in done.stdout.decode().split("\0") if one}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rules")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=FILES, paths=PATHS)
def test_the_answers_are_gits_own(folder: Path, text: str, paths: list[str]) -> None:
    (folder / ".gitignore").write_text(text)
    rules = Rules(text.encode())
    assert {one for one in paths if ignored(rules, one)} == git_ignores(folder, paths)


@given(
    pattern=st.lists(st.sampled_from((*PIECES, "*a", "?*", "[a-z]*")), max_size=120).map("".join),
    name=st.text("ab/é", max_size=300),
)
def test_a_match_takes_one_step_for_each_byte_and_word_of_parts(pattern: str, name: str) -> None:
    budget = Budget(MUCH)
    Pattern(pattern.encode()).matches(name.encode(), budget)
    parts = len(pattern.encode()) + 2  # `**/` is two parts, of three bytes
    seen = len(set(name.encode()))
    assert budget.spent <= 1 + len(name.encode()) * (parts // WORD + 1) + seen * parts


@pytest.mark.parametrize("size", [50, 500, 5000])
def test_stars_that_meet_a_long_name(size: int) -> None:
    """Thirty stars and a name of two hundred letters once took longer than anybody waited."""
    budget = Budget(MUCH)
    assert not Pattern(b"*a" * 30 + b"*b").matches(b"a" * size, budget)
    assert budget.spent <= 1 + 2 * size


def test_a_file_of_many_rules_ends_with_the_budget() -> None:
    rules = Rules(b"\n".join(b"*%d*" % n for n in range(10_000)))
    budget = Budget(50_000)
    with pytest.raises(TooMuchWork):
        for _ in range(100):
            rules.answer(b"name", is_folder=False, budget=budget)
    assert budget.spent <= 50_001
    assert Rules(b"\n".join(b"name%d" % n for n in range(10_000))).answer(
        b"name77", is_folder=False, budget=Budget(10)
    )
