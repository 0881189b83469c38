# SPDX-License-Identifier: Apache-2.0
"""Words with globs stand for texts; no glob makes Python warn of what it might mean one day."""

from __future__ import annotations

import itertools
import warnings

import pytest

from policy.values.partial import SET, pattern


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_no_set_of_characters_is_warned_about(length: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for inside in itertools.product("a-[&|~^!\\", repeat=length):
            pattern(f"x{SET}{''.join(inside)}]y")


SETS = {
    "one of some": ("ab", "a", "c"),
    "a range": ("a-c", "b", "d"),
    "none of some": ("!ab", "c", "a"),
    "two dashes stand for any": ("a--b", "z", "/"),
}


@pytest.mark.parametrize(("inside", "fits", "other"), SETS.values(), ids=SETS)
def test_what_a_set_stands_for(inside: str, fits: str, other: str) -> None:
    found = pattern(f"x{SET}{inside}]y")
    assert found.fullmatch(f"x{fits}y")
    assert not found.fullmatch(f"x{other}y")
