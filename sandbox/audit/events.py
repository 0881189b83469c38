# SPDX-License-Identifier: Apache-2.0
"""What a line of the record can say: one class per kind of record.

Whoever writes makes one of these; whoever reads gets them from `read`. Only what was given stands
in a line, in the order of the fields here. Lines of earlier and later versions are read as well: a
field that a class does not have is kept with the record (`model_extra`), and so is a line of a kind
that is not known, or whose fields are not what its kind has (`UnknownRecord`). Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

Fields = dict[str, Any]
"""What has a shape of its own, as it stands in the line."""
Changes = list[Fields]
"""Changed paths, each as `ChangeView` writes it."""


class AuditRecord(BaseModel):
    """One line of the record."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    n: int | None = None
    """Its number; the chain sets it, as it does `prev`."""
    ts: str | None = None
    """When it was written; the log sets it."""
    prev: str | None = None
    event: str
    """The kind."""
    call: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it as it stands in the log, without what the chain adds."""
        given = {*self.model_fields_set, "event"} - _CHAIN
        fields = {name: getattr(self, name) for name in type(self).model_fields if name in given}
        return {**fields, **(self.model_extra or {})}


_CHAIN = {"n", "prev"}


class UnknownRecord(AuditRecord):
    """A line of a kind that this version does not know, or that is not as its kind should be."""


# -- a call


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


# -- what a person does with changes


class CorrectionRecord(AuditRecord):
    """An undo, or a person's landing or discarding of what was held: announced, or done."""

    call: str
    supervisor: str | None = None
    undone: str | None = None
    """The call, landing or undo that an undo takes back."""
    of: str | None = None
    """The call whose part this lands, or that is undone."""
    agent: str | None = None
    asked_by: Fields | None = None
    tool: str | None = None
    workspace: str | None = None
    also: list[str] | None = None
    landed_by: Fields | str | None = None
    landed: bool | None = None
    judgement: str | None = None
    outcome: str | None = None
    changes: Changes | None = None
    changes_total: int | None = None


class UndoingRecord(CorrectionRecord):
    """An undo begins."""

    event: Literal["undoing"] = "undoing"
    undone: str


class UndoneRecord(CorrectionRecord):
    """An undo is done."""

    event: Literal["undone"] = "undone"
    undone: str


class LandingRecord(CorrectionRecord):
    """A person's landing of what was held begins.

    A call that lands by itself has `landed: true` in its `ended`.
    """

    event: Literal["landing"] = "landing"


class LandedRecord(CorrectionRecord):
    """What was held, or a part of it, landed by a person's word."""

    event: Literal["landed"] = "landed"


class DiscardingRecord(CorrectionRecord):
    """Throwing away what is held begins."""

    event: Literal["discarding"] = "discarding"


class DiscardedRecord(CorrectionRecord):
    """What was held is thrown away."""

    event: Literal["discarded"] = "discarded"
    discarded_by: str | None = None


class GivenUpRecord(AuditRecord):
    """What was announced was not done."""

    event: Literal["given-up"] = "given-up"
    call: str
    because: str | None = None


class PartedRecord(AuditRecord):
    """What of a call is still held after a part of it landed."""

    event: Literal["parted"] = "parted"
    call: str
    parts: list[str] | None = None
    judgement: str | None = None
    landed: bool | None = None
    changes: Changes | None = None
    changes_total: int | None = None
    size: int | None = None
    outcome: str | None = None


class LookedRecord(AuditRecord):
    """A person looked at held changes that are not what was shown before; from then on they are."""

    event: Literal["looked"] = "looked"
    call: str
    looked_by: str | None = None
    changes: Changes | None = None
    changes_total: int | None = None
    size: int | None = None


class ForgottenRecord(AuditRecord):
    """Calls that can no longer be undone: the quota of before-images is reached."""

    event: Literal["forgotten"] = "forgotten"
    calls: list[str]


# -- people, agents, workspaces


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


class WorkspaceRecord(AuditRecord):
    """A workspace was registered by a person's approval of an agent's request."""

    event: Literal["workspace"] = "workspace"
    path: str
    by: str | None = None


class VouchRecord(AuditRecord):
    """A person vouched for their own changes of protected paths, or takes that back."""

    event: Literal["vouched", "vouch-withdrawn"]
    workspace: str
    """The repository."""
    changes: Changes
    """Each with `path`; of what is vouched also `kind`, git's `mode` and the content's SHA-256,
    both None where the path is gone."""
    by: str | None = None
    answer_reason: str | None = None


class ConnectionRecord(AuditRecord):
    """A person connected or disconnected an agent, which changed its settings."""

    event: Literal["connected", "disconnected"]
    agent: str | None = None
    workspace: str | None = None
    changes: Changes | None = None
    by: str | None = None


class CleanedRecord(AuditRecord):
    """A person moved an ignored folder out of a workspace, back, or deleted it for good."""

    event: Literal["cleaned", "clean-back", "clean-forgotten"]
    path: str
    id: str
    files: int | None = None
    by: str | None = None


class AcknowledgedRecord(AuditRecord):
    """A person has seen what was changed around Lockgate, up to the line `until`."""

    event: Literal["acknowledged"] = "acknowledged"
    until: int
    by: str | None = None


class TamperedRecord(AuditRecord):
    """A protected path changed, and no landing did it."""

    event: Literal["tampered"] = "tampered"
    workspace: str
    path: str
    kind: str | None = None
    rule: str | None = None
    before: str | None = None
    after: str | None = None
    restored: bool | None = None
    kept: str | None = None
    note: str | None = None


class UndeliveredRecord(AuditRecord):
    """A question or a report did not reach its channel."""

    event: Literal["undelivered"] = "undelivered"
    what: str | None = None
    because: str | None = None


class OutputsDroppedRecord(AuditRecord):
    """What the oldest calls wrote was removed to make room."""

    event: Literal["outputs_dropped"] = "outputs_dropped"
    calls: int
    first: str | None = None
    last: str | None = None


# -- the log's own


class LogRecord(AuditRecord):
    """What the log writes of itself; nobody else's record may be one."""


class SegmentRecord(LogRecord):
    """A file of the log begins."""

    event: Literal["segment"] = "segment"
    segment: int | None = None


class RotatedRecord(LogRecord):
    """A file of the log ends, and which one follows."""

    event: Literal["rotated"] = "rotated"
    segment: int | None = None
    next: str | None = None


class RemovedRecord(LogRecord):
    """Old files of the log are removed, and where it begins from then on."""

    event: Literal["removed"] = "removed"
    segments: list[str] | None = None
    until: Fields | None = None


class LostRecord(LogRecord):
    """Lines that were there are not."""

    event: Literal["lost"] = "lost"
    found: Fields | None = None
    kept: Fields | None = None
    outcome: str | None = None


class RepairedRecord(LogRecord):
    """The log was mended, or a person accepted what it lost."""

    event: Literal["repaired"] = "repaired"
    by: str | None = None
    accepts: list[int] | None = None
    outcome: str | None = None
    head: Fields | None = None


def is_entry(record: AuditRecord) -> bool:
    """Whether a record is an entry of the log by itself: an undo, or a landing of a part."""
    return isinstance(record, UndoneRecord) or (
        isinstance(record, LandedRecord) and record.of is not None
    )


def kinds() -> Mapping[str, type[AuditRecord]]:
    """Return the class of each kind of record."""
    return _KINDS


def record_of(fields: Mapping[str, Any]) -> AuditRecord:
    """Return a record that was read; what its class cannot hold is an `UnknownRecord`."""
    kind = _KINDS.get(event) if isinstance(event := fields.get("event"), str) else None
    if kind is not None:
        try:
            return kind.model_validate(fields)
        except ValidationError:
            pass
    try:
        return UnknownRecord.model_validate(fields)
    except ValidationError:
        odd = {name: one for name, one in fields.items() if name not in AuditRecord.model_fields}
        return UnknownRecord.model_validate({"event": str(event or ""), **odd})


def read(raw: bytes) -> AuditRecord:
    """Return the record of a line. Raises ValueError where it holds none."""
    try:
        return _lines().validate_json(raw)
    except ValidationError:
        fields = json.loads(raw)
    if not isinstance(fields, dict):
        raise ValueError("not a record")
    return record_of(fields)


def unknown_part(record: AuditRecord) -> str:
    """Say what of a record this version does not know; nothing where it knows all."""
    if isinstance(record, UnknownRecord):
        return f"records of the kind `{record.event}`"
    if record.model_extra:
        return f"fields of `{record.event}`: {', '.join(sorted(record.model_extra))}"
    return ""


@cache
def _lines() -> TypeAdapter[AuditRecord]:
    """Return what reads a line of a known kind, in half the time of reading it as JSON first."""
    known = tuple(dict.fromkeys(_KINDS.values()))
    union: Any = Annotated[Union[known], Field(discriminator="event")]  # noqa: UP007
    return TypeAdapter(union)


def _each(kind: type[AuditRecord]) -> list[type[AuditRecord]]:
    return [kind, *(one for below in kind.__subclasses__() for one in _each(below))]


_KINDS = {
    str(name): kind
    for kind in _each(AuditRecord)
    for name in get_args(kind.model_fields["event"].annotation)
}
RESERVED = frozenset(name for name, kind in _KINDS.items() if issubclass(kind, LogRecord))
"""Kinds that the log writes of itself."""
