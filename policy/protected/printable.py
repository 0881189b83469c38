# SPDX-License-Identifier: Apache-2.0
"""Agents' text where a person reads it. Pure."""

from __future__ import annotations


def on_one_line(text: str) -> str:
    """Return agent-made text on one line, with nothing in it that a terminal would obey."""
    safe = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in safe).replace("`", "\\x60")


def briefly(text: str, most: int = 80) -> str:
    """Return the same, cut where it is long."""
    return on_one_line(text if len(text) <= most else text[:most] + "…")
