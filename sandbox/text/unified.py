# SPDX-License-Identifier: Apache-2.0
"""Show what becomes of one file as a unified diff that a terminal can show. Pure."""

from __future__ import annotations

import difflib

from sandbox.text.terminal import safe_line

NOTHING = "/dev/null"


def unified(name: str, old: bytes | None, new: bytes | None) -> str:
    """Return how a file's content changes; None stands for no file. Every line is escaped.

    A line ends at a line feed alone, and bytes that are no UTF-8 are kept apart: contents that
    differ show a difference.
    """
    found = []
    for line in difflib.unified_diff(
        _lines(old),
        _lines(new),
        name if old is not None else NOTHING,
        name if new is not None else NOTHING,
    ):
        found.append(safe_line(line.removesuffix("\n")))
        if not line.endswith("\n"):
            found.append("\\ No newline at end of file")
    return "\n".join(found)


def _lines(data: bytes | None) -> list[str]:
    *whole, rest = (data or b"").decode("utf-8", "surrogateescape").split("\n")
    return [f"{line}\n" for line in whole] + ([rest] if rest else [])
