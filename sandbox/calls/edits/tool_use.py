# SPDX-License-Identifier: Apache-2.0
"""What tells one use of an agent's own tool from others, before it and after it. Pure data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One use of a tool, as the agent's hooks name it."""

    session: str = ""
    use: str = ""
