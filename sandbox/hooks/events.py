# SPDX-License-Identifier: Apache-2.0
"""What hooks say and hear, whatever the dialect. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class BadEvent(ValueError):
    """What an agent sent cannot be read; the message says why in one line. Nothing may run."""


class Kind(str, Enum):
    """What an agent says."""

    BEFORE = "before"
    """A tool is about to be used."""
    AFTER = "after"
    """A tool was used."""
    PROMPT = "prompt"
    """A person typed something."""
    CHILD_BEGINS = "child-begins"
    CHILD_ENDS = "child-ends"
    BEGINS = "begins"
    """A session begins."""
    ENDS = "ends"
    OTHER = "other"
    """Something that is of no concern; never a tool."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that an agent's hook was told."""

    kind: Kind
    name: str
    """The agent's own name for it."""
    session: str = ""
    cwd: str | None = None
    tool: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    server: str = ""
    """The MCP server that a tool belongs to, where the agent says so beside the name."""
    use: str = ""
    """The agent's own id of the tool call."""
    child: str = ""
    """The id of the sub-agent that speaks; empty for the main one."""
    child_type: str = ""
    text: str = ""
    """What the person typed."""
    failed: bool = False
    """For AFTER: whether the tool failed."""
    output: str = ""
    """For AFTER: what the tool gave back, as far as it is text."""


@dataclass(frozen=True, slots=True)
class Say:
    """What is answered. `allowed` None is no opinion: the agent goes on as without a hook."""

    allowed: bool | None = None
    reason: str = ""
    command: str | None = None
    """What is to run instead of the command."""
    stop: bool = False
    """End the agent's run."""
    output: str | None = None
    """For AFTER: what the model is to see instead of the tool's output."""


@dataclass(frozen=True, slots=True)
class Printed:
    """What the hook program prints, and its exit status."""

    stdout: str = ""
    stderr: str = ""
    status: int = 0


def blocked(reason: str) -> Printed:
    """Return what blocks in every dialect: status 2 with a line on standard error.

    Without that line two agents let the call run.
    """
    line = " ".join(reason.split()) or "the call is not permitted"
    return Printed(stderr=f"lockgate: {line}\n", status=2)
