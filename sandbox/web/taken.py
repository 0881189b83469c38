# SPDX-License-Identifier: Apache-2.0
"""What resources take beside the table of operations: their fields, and their bounds."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from policy.agent_names import MOST_CHARS, PATTERN
from policy.model import Name
from policy.people.approval import GRANT_SECONDS, Scope
from sandbox.web.resources import Taken

MOST_ROWS = 500
MOST_WAIT = 1800.0
"""Seconds for which a call may wait for a person."""
Folder = Annotated[str, StringConstraints(pattern=r"^/", max_length=4096)]
Text = Annotated[str, StringConstraints(max_length=4096)]
AgentPath = Annotated[str, StringConstraints(pattern=PATTERN, max_length=MOST_CHARS)]


class Action(Taken):
    """A call: a command, or a tool with its parameters."""

    command: str | None = None
    tool: Name | None = None
    params: dict[str, Any] = Field(default_factory=dict)
    workspace: Folder
    """A registered workspace; `check` and `explain` take any folder."""
    cwd: Folder | None = None
    agent: AgentPath = "main"
    role: Name | None = None
    user: Name | None = None
    """Whose levels count; default: who runs the server."""
    intent: Text = ""
    derived_from: Text | None = None


class CallBody(Action):
    """A call that is to be made."""

    also: tuple[Folder, ...] = ()
    """Further workspaces that it may see."""
    env: dict[str, str] = Field(default_factory=dict)
    """Variables that are set for it."""
    stdin: str | None = None
    wait: Annotated[float, Field(ge=0, le=MOST_WAIT)] = 0
    """How long a person is waited for, in seconds; the question stays open after it."""
    background: bool = False
    """Start it, and answer at once."""
    timeout: Annotated[float, Field(gt=0, le=86_400)] | None = None
    """End the command after so many seconds."""


class CallsQuery(Taken):
    """Which calls are listed."""

    agent: Name | None = None
    tool: Name | None = None
    verdict: Literal["allow", "report", "ask", "deny"] | None = None
    rule: Name | None = None
    session: Name | None = None
    text: Text | None = None
    """Only those in which this stands: in the id, the intent, or a parameter (a command, a file),
    of each its first 500 characters."""
    held: bool = False
    """Only what waits for a person to land or discard it."""
    since: Text | None = None
    """From then on: `2h`, `3d` (so long ago), or ISO 8601."""
    before: Annotated[int, Field(ge=1, le=2**53)] | None = None
    """Only earlier ones: `next` of the page before."""
    limit: Annotated[int, Field(ge=1, le=MOST_ROWS)] = 50


class SessionsQuery(Taken):
    """Which sessions are listed."""

    before: Annotated[int, Field(ge=1, le=2**53)] | None = None
    """Only earlier ones: `next` of the page before."""
    limit: Annotated[int, Field(ge=1, le=MOST_ROWS)] = 50


class RecordQuery(Taken):
    """Which records are listed."""

    event: Name | None = None
    call: Name | None = None
    before: Annotated[int, Field(ge=1, le=2**53)] | None = None
    """Only those with a lower number: `next` of the page before."""
    limit: Annotated[int, Field(ge=1, le=MOST_ROWS)] = 100


class TermsBody(Taken):
    """How far a person's yes goes."""

    scope: Scope = Scope.EXACT
    uses: Annotated[int, Field(ge=1, le=10_000)] = 1
    seconds: Annotated[float, Field(gt=0, le=90 * 86_400)] = GRANT_SECONDS
    task: Text | None = None


class ApproveBody(Taken):
    """A person's yes to what they were shown."""

    digest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    """That of the card: another question under the same call is not answered by it."""
    offer: Literal["once", "session", "always"] | None = None
    """One of the card's `offers`; default: what `terms` say, which is once."""
    terms: TermsBody = TermsBody()
    reason: Text = ""


class ReasonBody(Taken):
    """Why."""

    reason: Text = ""


class GrantBody(TermsBody):
    """What is approved before it is asked."""

    command: Annotated[str, StringConstraints(min_length=1)]
    workspace: Folder
    agent: AgentPath = "main"
    role: Name | None = None
    cwd: Folder | None = None
    reason: Text = ""


class EverythingQuery(Taken):
    """Whether what is over, or told already, is listed as well."""

    all: bool = False


class PlaceQuery(Taken):
    """A workspace, or any folder."""

    workspace: Folder


class StopBody(Taken):
    """Whom to stop: everything, or one agent with all below it."""

    reason: Text = "asked for"
    agent: Name | None = None


class ResumeBody(Taken):
    """Who may run again: everything, or one agent."""

    agent: Name | None = None


class ToldBody(Taken):
    """Calls of which the reports were told to the user."""

    calls: Annotated[tuple[Name, ...], Field(min_length=1, max_length=MOST_ROWS)]


class EventsQuery(Taken):
    """From where on events are told."""

    after: Annotated[int, Field(ge=0, le=2**53)] | None = None
    """The number of the last record that is known; `Last-Event-ID` says the same."""
