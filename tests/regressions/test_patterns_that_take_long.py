# SPDX-License-Identifier: Apache-2.0
"""No pattern of a policy file takes long, whatever the path: such a file may be a stranger's."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.values.filenames import MOST_ALTERNATIVES, alternatives, compiled, expression
from sandbox.cell.overlay.masks import _union

LONG = ["a" * 255, "/".join(["a"] * 2000), "/".join(["a" * 7] * 400), "/".join(["a" * 250] * 16)]
PATTERNS = [
    "*" * 200,
    "*a" * 60,
    "a*" * 100 + "b",
    "?*" * 60 + "b",
    "**/" * 50 + "b",
    "*/" * 40 + "b",
    "**/a/" * 30 + "b",
    "**/*a*/" * 25 + "b",
    "**/*/" * 30 + "b",
]


@pytest.mark.parametrize("pattern", PATTERNS, ids=[one[:12] for one in PATTERNS])
def test_a_pattern_is_answered_soon(pattern: str) -> None:
    for path in LONG:
        began = time.process_time()
        compiled([pattern]).fullmatch(path)
        assert time.process_time() - began < 5  # before: longer than anybody waited


def test_braces_that_stand_for_too_many_are_refused() -> None:
    assert len(list(alternatives("{a,b}" * 6))) == MOST_ALTERNATIVES
    for count in (7, 4_000):
        with pytest.raises(ValueError, match=f"stands for more than {MOST_ALTERNATIVES} patterns"):
            list(alternatives("{a,b}" * count))


def _fits(parts: list[str], names: list[str]) -> bool:
    """The model: what a pattern means, said plainly."""
    if not parts:
        return not names
    if parts[0] == "**":
        return any(_fits(parts[1:], names[at:]) for at in range(len(names) + 1))
    return bool(names) and _name(parts[0], names[0]) and _fits(parts[1:], names[1:])


def _name(part: str, name: str) -> bool:
    if not part:
        return not name
    if part[0] == "*":
        return any(_name(part[1:], name[at:]) for at in range(len(name) + 1))
    return bool(name) and part[0] in ("?", name[0]) and _name(part[1:], name[1:])


PARTS = st.lists(st.text("ab*?", min_size=1, max_size=5) | st.just("**"), min_size=1, max_size=5)
NAMES = st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=6)


@settings(max_examples=500, deadline=None)
@given(PARTS, NAMES, st.booleans())
def test_it_means_what_it_says(parts: list[str], names: list[str], anchored: bool) -> None:
    parts = ["*" if set(one) == {"*"} and one != "**" else one for one in parts]
    text = expression(("/" if anchored else "") + "/".join(parts))
    wanted = _fits(parts if anchored else ["**", *parts], names)
    assert (re.compile(text, re.DOTALL).fullmatch("/".join(names)) is not None) == wanted
    # as a keeper with an older Python has it
    old = re.compile(text.replace("(?>", "(?:"), re.DOTALL)
    assert (old.fullmatch("/".join(names)) is not None) == wanted


def test_a_keeper_takes_them() -> None:
    found = _union([expression("*a*b*")])
    assert found.match("x/aab")
    assert not found.match("x/ba")
