# SPDX-License-Identifier: Apache-2.0
"""How much of a text is read: a text that needs more is opaque."""

from __future__ import annotations

from policy.values.partial import HOLE

MOST_STEPS = 500


MOST_WORDS = 8_000
"""Words that are expanded and handed on, however often they are the same."""


_MANY_WORDS = 256
"""A command of fewer words costs no more than its step."""


MOST_TEXT = 1024 * 1024


class ReadingBudget:
    """How much of a text is still read; a text that needs more is opaque."""

    def __init__(self, steps: int = MOST_STEPS, text: int = MOST_TEXT) -> None:
        self.steps = steps
        self.text = text
        self.words = MOST_WORDS
        self.spent = False

    def hold(self, value: str) -> str:
        """Return the value, or a hole once expansions have made too much text."""
        self.text -= len(value)
        if self.text < 0:
            self.spent = True
            return HOLE
        return value

    def take(self) -> bool:
        """Use one step; False when none is left."""
        self.steps -= 1
        if self.steps < 0:
            self.spent = True
        return self.steps >= 0

    def weigh(self, words: int) -> bool:
        """Use the words of a long command; False when too many were read before it."""
        if words > _MANY_WORDS:
            if self.words < 0:
                self.spent = True
                return False
            self.words -= words
        return True
