# SPDX-License-Identifier: Apache-2.0
"""How times are said to people. Pure; for times of a person's scale, not for measurements."""

from __future__ import annotations

_UNITS = ((86_400, "days"), (3_600, "hours"), (60, "min"))


def say_duration(seconds: float) -> str:
    """Return a time in the largest unit of which there are two or more: `90 days`, `5 min`."""
    whole = max(0, round(seconds))
    for size, unit in _UNITS:
        if whole >= 2 * size:
            return f"{round(whole / size)} {unit}"
    return f"{whole} s"
