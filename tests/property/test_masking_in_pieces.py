# SPDX-License-Identifier: Apache-2.0
"""A long text is masked as a short one is, though only a piece of it is looked at in one go."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.text import redaction as masking
from sandbox.text import secret_shapes
from sandbox.text.redaction import MORE, PIECE, mask, replaced

WORDS = (
    *(
        "password",
        "=",
        ":",
        " ",
        "hunter2x",
        "token",
        '"',
        "'",
        "\n",
        "  ",
        "key",
        "-",
        "a1b2c3d4e5",
    ),
    *("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "https://", "@", "bearer ", "|"),
    *("sk-abcdefgh12345678", "echo ", "--password-stdin", "AB_KEY=", "mysql -p"),
)
TEXTS = st.lists(st.sampled_from(WORDS), max_size=60).map("".join)
PATTERNS = {
    "_BLOCK": masking._BLOCK,
    "_SHAPES": secret_shapes.pattern(),
    "_NAMED": masking._NAMED,
    "_BELOW": masking._BELOW,
    "_SPOKEN": masking._SPOKEN,
    "_ADDRESS": masking._ADDRESS,
}


def mark(found: re.Match[str]) -> str:
    """Return what shows where a match began and ended."""
    return f"<{found[0]}>"


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
@given(text=TEXTS, piece=st.integers(1, 40))
def test_pieces_are_no_other_than_the_whole(
    pattern: re.Pattern[str], text: str, piece: int
) -> None:
    longest = max((len(found[0]) for found in pattern.finditer(text)), default=0)
    more = max(100, longest + 10)  # as `MORE` is more than a match needs
    assert replaced(pattern, mark, text, piece=piece, more=more) == pattern.sub(mark, text)


@pytest.mark.parametrize("before", [0, PIECE - 20, PIECE - 5, PIECE, PIECE + MORE - 9, 3 * PIECE])
def test_a_secret_across_the_end_of_a_piece_is_masked(before: int) -> None:
    line = "x" * before + " password=hunter2x " + "x" * 2 * PIECE
    assert mask(line) == line.replace("hunter2x", "[masked]")
    key = "-----BEGIN PRIVATE KEY-----\n" + "QUJD\n" * PIECE + "-----END PRIVATE KEY-----"
    text = "x\n" * (before // 2) + key + "\nx" * PIECE
    assert mask(text) == text.replace(key, "[masked]")
