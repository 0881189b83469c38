# SPDX-License-Identifier: Apache-2.0
"""Numbers in texts of agents."""

from __future__ import annotations

BEYOND = 10**18
"""Stands for every number that is as large or larger: Python refuses to read very long ones."""


def natural(text: str) -> int | None:
    """Return the number that ASCII digits spell, at most `BEYOND`; None for any other text, also
    for what `str.isdigit` takes for digits (`²`) and `int` refuses."""
    if not (text.isascii() and text.isdigit()):
        return None
    digits = text.lstrip("0") or "0"
    return int(digits) if len(digits) < 19 else BEYOND
