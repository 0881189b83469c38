# SPDX-License-Identifier: Apache-2.0
"""The command that a ticket stands for, as a comment behind it, for whoever reads an agent's log.

INVARIANT (P8, label): nothing of it is evaluated. It is one line behind a `#`; and whatever a shell
could take for more than a word is another character, so that it is but words for a program that
looks at none of them even where a shell knows no comments. Pure.
"""

from __future__ import annotations

from sandbox.text.terminal import safe_line

MOST_CHARS = 200
_SIGNS = ";|&<>()$`\"'\\!#~*?[]{}^=%"
_ALIKE = {ord(sign): ord(sign) - 0x21 + 0xFF01 for sign in _SIGNS}
"""Fullwidth forms: they look like the signs, and mean nothing to a shell."""


def label_of(command: str) -> str:
    """Return what stands behind a ticket for a command: a blank, `#`, and its text on one line."""
    line = safe_line(" ".join(command[: 2 * MOST_CHARS].split())).translate(_ALIKE)
    cut = line if len(line) <= MOST_CHARS else line[: MOST_CHARS - 1] + "…"
    return f" # {cut}" if cut else ""
