# SPDX-License-Identifier: Apache-2.0
"""What settings of git do stands in one table: both gates read it, and neither knows more."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from policy.gate2.git.config import read
from policy.gate2.judge import judge
from policy.model import Change, FileType, Kind, Tier, Verdict
from policy.protected.git_settings import Does, GitSettings
from policy.protected.paths import PathPolicy
from sandbox.cell.git.config import settings
from tests.gitchanges import DECISION, POLICY
from tests.policy.asking import bash

TABLE = GitSettings.default()
KEYS = [(key, one) for one in TABLE.settings for key in one.keys]


def example(pattern: str) -> str:
    """Return a setting that a pattern fits."""
    return pattern.replace("*", "x")


def test_gate_1_asks_about_all_that_gate_2_holds_everywhere() -> None:
    for pattern in PathPolicy.default().git_keys:
        known = TABLE.of(example(pattern))
        assert known is not None and known.tier is Tier.DANGER, pattern
        assert known.always, pattern
    for pattern, one in KEYS:
        assert pattern == pattern.lower()
        assert (
            (one.tier is Tier.CAUTION) == (one.does is Does.NOTHING)
            or "push" in pattern
            or (pattern == "branch.*")
        ), pattern


def test_no_entry_stands_behind_one_that_fits_all_it_names() -> None:
    for pattern, one in KEYS:
        assert TABLE.of(example(pattern)) is one, pattern


def test_what_gate_2_holds_in_a_repository_gate_1_lets_pass_only_where_it_does_nothing() -> None:
    for pattern, one in KEYS:
        key = example(pattern)
        section, _, last = key.rpartition(".")
        name, _, inner = section.partition(".")
        header = f'[{name} "{inner}"]' if inner else f"[{name}]"
        text = f"{header}\n{last} = some-thing\n"
        users = Change(".gitconfig", Kind.MODIFIED, FileType.FILE, before_text="", after_text=text)
        held = judge(DECISION, [users], POLICY, workspace="/w").outcome.value == "hold"
        assert held is (one.does is not Does.NOTHING), key


def test_a_word_of_each_kind_at_gate_1() -> None:
    for setting, asked in (
        ("core.fsmonitor ./x", True),
        ("gc.recentObjectsHook ./x", True),
        ("maintenance.auto true", True),
        ("gc.reflogExpire now", True),
        ("gpg.minTrustLevel never", True),
        ("safe.directory /", True),
        ("nobody.knows it", True),
        ("color.ui auto", False),
        ("pull.rebase false", False),
        ("core.pager cat", False),
    ):
        assert (bash(f"git config {setting}").verdict is Verdict.ASK) is asked, setting


_LINES = st.sampled_from(
    ["[a]", '[a "b"]', '[a "b\\\\c"]', "[A.b]", "x = 1", "x", "x = \"a;b\" # c", "; x = 2", "y=a\\",
     "  z = b \\", "z2 = \"q\\\"r\"", "[c] k = v", "\tk = v ; w", "", "X=1#2", "k = a  b"]
)  # fmt: skip


@given(st.lists(_LINES, max_size=8))
def test_both_readers_of_settings_read_the_same(lines: list[str]) -> None:
    text = "\n".join(["[s]", *lines]) + "\n"
    found, whole = read(text)
    try:
        other = [(key.decode(), value.decode()) for key, value in settings(text.encode())]
    except ValueError:
        assert not whole
        return
    assert whole
    assert other == [(key, value or "") for key, value in found]
