# SPDX-License-Identifier: Apache-2.0
"""What may name an agent: one rule for every door. Imports nothing heavy, since a stop reads it."""

from __future__ import annotations

import re

MOST_CHARS = 200
"""Of a whole path."""
RULE = "1 to 64 letters, digits, `.`, `_` and `-` that begin with a letter, a digit or `_`"
_ID = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}"
PATTERN = rf"^{_ID}(?::{_ID})*$"
"""The same for a whole path, for a schema."""
_PATH = re.compile(rf"{_ID}(?::{_ID})*")


def is_agent_id(text: str) -> bool:
    """Return whether a text may name one agent."""
    return re.fullmatch(_ID, text) is not None


def is_agent_path(text: str) -> bool:
    """Return whether a text may name an agent with those above it (`main:sub:7`)."""
    return len(text) <= MOST_CHARS and _PATH.fullmatch(text) is not None
