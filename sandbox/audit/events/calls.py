# SPDX-License-Identifier: Apache-2.0
"""What is written of a call, from gate 1's answer to its end."""

from __future__ import annotations

from typing import Any, Literal

from sandbox.audit.events.record import AuditRecord, Changes, Fields


class DecidedRecord(AuditRecord):
    """Gate 1's answer; on disk before anything of the call runs."""

    event: Literal["decided"] = "decided"
    call: str
    agent: str | None = None
    role: str | None = None
    user: str | None = None
    tool: str | None = None
    params: Fields | None = None
    digest: str | None = None
    intent: str | None = None
    workspace: str | None = None
    also: list[str] | None = None
    cwd: str | None = None
    session: str | None = None
    """The agent's session that it belongs to, where there is one."""
    env: Fields | None = None
    verdict: str | None = None
    tier: str | None = None
    rules: list[str] | None = None
    message: str | None = None
    layers: list[Fields] | None = None
    rights: Fields | None = None
    landing: str | None = None
    policy: str | None = None
    supervisor: str | None = None

    @property
    def subject(self) -> str:
        """The command, or the file, that the call is about."""
        params = self.params or {}
        return str(params.get("command") or params.get("file_path") or params.get("url") or "")


class AskedRecord(AuditRecord):
    """A question was put to a person; the user's channel gets the same."""

    event: Literal["asked", "reminded"] = "asked"
    call: str
    agent: str | None = None
    tool: str | None = None
    action: str | None = None
    of: str | None = None
    """The call that runs and wants to reach a host; then `call` is the question's own id."""
    host: str | None = None
    port: int | None = None
    workspace: str | None = None
    risk: str | None = None
    message: str | None = None
    stdin: Any = None
    answer: str | None = None


class AnsweredRecord(AuditRecord):
    """What became of a question, before the call goes on."""

    event: Literal["answered"] = "answered"
    call: str
    approved: bool = False
    approved_by: str | None = None
    answer_reason: str | None = None
    grant: str | None = None


class RefusedRecord(AuditRecord):
    """A person said no at a terminal."""

    event: Literal["refused"] = "refused"
    call: str
    by: str | None = None
    answer_reason: str | None = None


class NetworkRecord(AuditRecord):
    """What a call that might reach a host did with that; written when its command has ended."""

    event: Literal["network"] = "network"
    call: str
    names: list[str] | None = None
    """What it might reach: `NAME:PORT`."""
    connections: list[Fields] | None = None
    """Each with host, port, address, bytes sent and received, start, seconds and end."""
    connections_total: int | None = None
    sent: int | None = None
    received: int | None = None
    refused: list[str] | None = None
    """Hosts that it asked for and was not allowed to reach."""
    lost: str | None = None
    """How its gateway ended before it did."""
    credentials: dict[str, int] | None = None
    """How many requests got a credential, by its id."""
    unread: dict[str, str] | None = None
    """Why a credential could not be read, by its id."""


class HostRecord(AuditRecord):
    """A host was opened for a call by a grant, or not opened when a person was asked as it ran."""

    event: Literal["host-opened", "host-refused"]
    call: str
    host: str | None = None
    port: int | None = None
    question: str | None = None
    by: str | None = None
    grant: str | None = None
    because: str | None = None
    hosts: list[Fields] | None = None
    """All of the call until then, each with host, port, state (`opened`, `asked`, `refused`),
    question, who answered, why, and grant."""


class PortRecord(AuditRecord):
    """A person opened a port of a running call's cell on this host's loopback, or it was closed."""

    event: Literal["port-opened", "port-closed"]
    call: str
    port: int
    """In the cell."""
    host_port: int | None = None
    by: str | None = None
    """Who opened it."""
    because: str | None = None
    """Why it was closed."""
    ports: list[Fields] | None = None
    """All of the call until then, each with host, both ports, who opened it, connections, bytes
    sent and received, and why it was closed."""


class RehearsedRecord(AuditRecord):
    """A call was run for show, and which effects a person is shown."""

    event: Literal["rehearsed"] = "rehearsed"
    call: str
    rehearsal: Fields


class WaitingRecord(AuditRecord):
    """Changes wait a while before they land, so that a person can object."""

    event: Literal["waiting"] = "waiting"
    call: str
    seconds: float
    changes: Changes | None = None
    changes_total: int | None = None


class EndedRecord(AuditRecord):
    """How a call ended, what gate 2 said of its changes, and whether they landed."""

    event: Literal["ended"] = "ended"
    call: str
    ending: str | None = None
    judgement: str | None = None
    landed: bool | None = None
    exit_status: int | None = None
    landed_by: Fields | str | None = None
    changes: Changes | None = None
    changes_total: int | None = None
    size: int | None = None
    events: list[Fields] | None = None
    made: Fields | None = None
    """Files that its agent made, with what tells each from another, and the agent."""
    outcome: str | None = None
    ms: float | None = None


class OutcomeRecord(AuditRecord):
    """An agent says how a call went that it made itself, outside of a cell."""

    event: Literal["outcome"] = "outcome"
    call: str
    agent: str | None = None
    failed: bool | None = None
    made: Fields | None = None
    """Files that its agent made so, with what tells each from another, and the agent."""


class EditedRecord(AuditRecord):
    """What an agent's own tool changed in files of which a before-image is kept."""

    event: Literal["edited"] = "edited"
    call: str
    agent: str | None = None
    workspace: str | None = None
    also: list[str] | None = None
    """Where the files lie; a tool may name files of other workspaces than the one it stands in."""
    landed: bool | None = None
    changes: Changes | None = None
    changes_total: int | None = None
    outcome: str | None = None
