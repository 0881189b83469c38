# SPDX-License-Identifier: Apache-2.0
"""What a type of agent may do also binds an agent of that type that stands below another."""

from __future__ import annotations

import pytest

from policy.autonomy.levels import Level, Levels

CASES = {
    "an agent of a person's own": ("main", Level.RED),
    "a second session beside it": ("main:codex-2", Level.RED),
    "a sub-agent of it": ("main:sub:a1b2", Level.YELLOW),
    "a sub-agent of a second session": ("main:codex-2:sub:a1b2", Level.YELLOW),
    "a specialist below it": ("main:specialist:widget", Level.GREEN),
    "a name that only begins like a type": ("main:subway", Level.RED),
}


@pytest.mark.parametrize(("agent", "most"), CASES.values(), ids=CASES)
def test_the_highest_level(agent: str, most: Level) -> None:
    assert Levels.default().max_level(agent) is most
