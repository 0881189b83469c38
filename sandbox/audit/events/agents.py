# SPDX-License-Identifier: Apache-2.0
"""What is written of agents: trust, budgets, stops, and those below them."""

from __future__ import annotations

from typing import Literal

from sandbox.audit.events.record import AuditRecord


class ReputationRecord(AuditRecord):
    """An agent's level of trust changed, or it broke a rule that counts for it."""

    event: Literal["reputation"] = "reputation"
    agent: str
    domain: str | None = None
    because: str | None = None
    score: float | None = None
    level_before: str | None = None
    level_after: str | None = None
    by: str | None = None


class BudgetRecord(AuditRecord):
    """An agent used up its budget and is paused or stopped."""

    event: Literal["paused", "stopping"]
    agent: str
    reason: str | None = None
    until: float | None = None


class StopRecord(AuditRecord):
    """A stop: what it ended, what goes on all the same, and what can be undone."""

    event: Literal["stop"] = "stop"
    reason: str | None = None
    killed: list[str] | None = None
    left: list[str] | None = None
    last: list[str] | None = None
    rollback: list[str] | None = None
    agent: str | None = None
    at: str | None = None
    held: list[str] | None = None
    notes: list[str] | None = None


class ChildRecord(AuditRecord):
    """An agent says that one below it begins or ends."""

    event: Literal["child-begins", "child-ends"]
    agent: str | None = None
    type: str | None = None
    session: str | None = None
