# SPDX-License-Identifier: Apache-2.0
"""Show what becomes of one file as a unified diff that a terminal can show. Pure."""

from __future__ import annotations

import difflib

from sandbox.text.terminal import safe_line

NOTHING = "/dev/null"


def unified(name: str, old: bytes | None, new: bytes | None) -> str:
    """Return how a file's content changes; None stands for no file. Every line is escaped."""
    lines = difflib.unified_diff(
        (old or b"").decode("utf-8", "replace").splitlines(),
        (new or b"").decode("utf-8", "replace").splitlines(),
        name if old is not None else NOTHING,
        name if new is not None else NOTHING,
        lineterm="",
    )
    return "\n".join(safe_line(line) for line in lines)
