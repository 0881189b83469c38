# SPDX-License-Identifier: Apache-2.0
"""What is written of what people allow, connect and clear away, and of what did not reach them."""

from __future__ import annotations

from typing import Literal

from sandbox.audit.events.record import AuditRecord, Changes


class GrantedRecord(AuditRecord):
    """A person approved a call; `task` and `session` say for what alone."""

    event: Literal["granted"] = "granted"
    grant: str
    hosts: list[str] | None = None
    """What it opens for the command; then it answers no question."""
    digest: str | None = None
    action_id: str | None = None
    agent: str | None = None
    scope: str | None = None
    uses: int | None = None
    until: float | None = None
    task: str | None = None
    session: str | None = None
    """The agent's session for which alone it counts."""
    by: str | None = None
    answer_reason: str | None = None


class RevokedRecord(AuditRecord):
    """A person took a grant back."""

    event: Literal["revoked"] = "revoked"
    grant: str
    by: str | None = None


class WorkspaceRecord(AuditRecord):
    """A workspace was registered by a person's approval of an agent's request."""

    event: Literal["workspace"] = "workspace"
    path: str
    by: str | None = None


class CleanedRecord(AuditRecord):
    """A person moved an ignored folder out of a workspace, back, or deleted it for good."""

    event: Literal["cleaned", "clean-back", "clean-forgotten"]
    path: str
    id: str
    files: int | None = None
    by: str | None = None


class ConnectionRecord(AuditRecord):
    """A person connected or disconnected an agent, which changed its settings."""

    event: Literal["connected", "disconnected"]
    agent: str | None = None
    workspace: str | None = None
    changes: Changes | None = None
    by: str | None = None


class UndeliveredRecord(AuditRecord):
    """A question or a report did not reach its channel."""

    event: Literal["undelivered"] = "undelivered"
    what: str | None = None
    because: str | None = None
