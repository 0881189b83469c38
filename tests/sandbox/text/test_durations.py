# SPDX-License-Identifier: Apache-2.0
"""How times are said to people."""

from __future__ import annotations

import pytest

from sandbox.text.durations import say_duration

CASES = {
    "nothing": (0, "0 s"),
    "what is over": (-3, "0 s"),
    "less than two minutes": (119.4, "119 s"),
    "two minutes": (119.6, "2 min"),
    "half an hour": (1800, "30 min"),
    "a working day": (8 * 3600, "8 hours"),
    "a day": (86_400, "24 hours"),
    "what has just begun": (8 * 3600 - 5, "8 hours"),
    "ninety days": (129_600 * 60, "90 days"),
    "a moment less than ninety days": (90 * 86_400 - 0.3, "90 days"),
}


@pytest.mark.parametrize("seconds, words", CASES.values(), ids=CASES)
def test_a_time_in_words(seconds: float, words: str) -> None:
    assert say_duration(seconds) == words
