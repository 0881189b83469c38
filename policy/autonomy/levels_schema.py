# SPDX-License-Identifier: Apache-2.0
"""The shape of `levels.yaml`: what users and types of agents configure (autonomy-levels.md,
"Configuration"). What it amounts to is `levels`' business.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import time
from typing import Any

from pydantic import ConfigDict, Field, model_serializer, model_validator

from policy.autonomy.categories import LEVELS, Category, Level
from policy.model import Frozen

_QUIET = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-3]):([0-5][0-9])")
_FULL = "23:00-08:00"


def _as_span(schema: dict[str, Any]) -> None:
    """Let the schema say how a span of hours is written."""
    schema.update(type="string", pattern=f"^{_QUIET.pattern}$")
    for key in ("properties", "required", "additionalProperties"):
        schema.pop(key, None)


def _with_categories(schema: dict[str, Any]) -> None:
    """Let the schema say that categories stand beside `max_level`."""
    schema["additionalProperties"] = schema["properties"]["levels"]["additionalProperties"]


class QuietHours(Frozen):
    """Hours in which YELLOW reports are held back; written `23:00-08:00`, the end excluded."""

    model_config = ConfigDict(json_schema_extra=_as_span)

    start: time
    end: time

    @model_validator(mode="before")
    @classmethod
    def _parsed(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        match = _QUIET.fullmatch(value.strip())
        if match is None:
            raise ValueError(f"`{value}` is not a span of hours; write it as `{_FULL}`")
        h1, m1, h2, m2 = map(int, match.groups())
        return {"start": time(h1, m1), "end": time(h2, m2)}

    @model_validator(mode="after")
    def _not_empty(self) -> QuietHours:
        if self.start == self.end:
            raise ValueError(f"quiet hours begin and end at {self.start:%H:%M}; write `{_FULL}`")
        return self

    @model_serializer
    def _written(self) -> str:
        return f"{self.start:%H:%M}-{self.end:%H:%M}"

    def covers(self, at: time) -> bool:
        """Whether a time of day in the user's own time zone lies in the quiet hours."""
        if self.start < self.end:
            return self.start <= at < self.end
        return at >= self.start or at < self.end


class UserLevels(Frozen):
    """What one user configures ("Per-User Autonomy Config")."""

    green: tuple[str, ...] = ()
    yellow: tuple[str, ...] = ()
    red: tuple[str, ...] = ()
    overrides: dict[str, Level] = Field(default_factory=dict)
    escalation_channel: str | None = None
    quiet_hours: QuietHours | None = None

    def listed(self) -> Iterable[tuple[str, Level]]:
        """Yield each category that a list names, with its level."""
        for level in LEVELS:
            for name in getattr(self, level.value):
                yield name, level


class AgentLevels(Frozen):
    """What one type of agent may at most ("Per-Agent-Type Overrides")."""

    model_config = ConfigDict(json_schema_extra=_with_categories)

    max_level: Level | None = None
    levels: dict[str, Level] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or "levels" in value:
            return value
        own = {name: one for name, one in value.items() if name == "max_level"}
        return {**own, "levels": {name: one for name, one in value.items() if name not in own}}


class LevelsFile(Frozen):
    """The file `levels.yaml`; every part may be left out."""

    categories: dict[str, Category] = Field(default_factory=dict)
    users: dict[str, UserLevels] = Field(default_factory=dict)
    agent_types: dict[str, str] = Field(default_factory=dict)
    agent_overrides: dict[str, AgentLevels] = Field(default_factory=dict)
