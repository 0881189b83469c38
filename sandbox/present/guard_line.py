# SPDX-License-Identifier: Apache-2.0
"""How a supervisor's guard is, in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandbox.text.terminal import safe_line


def guard_line(state: Mapping[str, Any]) -> str:
    """Say in one line how the supervisor's guard is."""
    match state["state"]:
        case "off":
            return "off (`guard: {enabled: false}` in the settings)"
        case "starting":
            return "it starts"
        case "away":
            return "a guard that a person started has its place"
        case "failed":
            return safe_line(f"failed: {state['problem']}; it is started again")
    count = state["guarded"]
    said = f"watches {count} protected path{'' if count == 1 else 's'}"
    return safe_line("; ".join([said, *state["failed"]]))
