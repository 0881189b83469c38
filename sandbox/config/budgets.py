# SPDX-License-Identifier: Apache-2.0
"""The key `budgets` of the settings: what an agent may use before it is paused or stopped."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from pydantic import Field

from policy.model import Frozen

Count = Annotated[int, Field(ge=1)]
Amount = Annotated[float, Field(gt=0)]


class Then(str, Enum):
    """What happens to an agent that has used a budget up."""

    PAUSE = "pause"
    """Its calls are refused for a time; what runs goes on, but for running time, which ends it."""
    STOP = "stop"
    """It is stopped with all below it, as by `lockgate stop --agent`, until a person resumes it."""


class AgentBudget(Frozen):
    """What one agent may use; what is not set is not limited."""

    calls_per_minute: Count | None = None
    running_seconds: Amount | None = None
    """Time of all its calls together."""
    failures_in_a_row: Count | None = None
    """Calls one after the other that ended with another status than 0, or could not be made."""
    denials_in_a_row: Count | None = None
    """Calls one after the other that gate 1, or a person, refused."""
    output_mib: Amount | None = None
    """What its calls wrote to their output, together."""
    changed_mib: Amount | None = None
    """What its calls left in changed files, together."""
    then: Then = Then.PAUSE
    pause_seconds: Amount = 300.0
    """How long a pause lasts; its use of budgets begins anew then."""


class BudgetSettings(Frozen):
    """The key `budgets` of the settings: for every agent, and for named ones."""

    everybody: AgentBudget = AgentBudget()
    agents: dict[str, AgentBudget] = Field(default_factory=dict)
    """By name; globs. All that fit count beside `everybody`, so that a name can only tighten."""
