# SPDX-License-Identifier: Apache-2.0
"""One call as the record has it, put together from all records of it. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from sandbox.audit.events.record import Changes, Fields


class CallEntry(BaseModel):
    """One call, undo or landing of a part, with all that is recorded of it; None: nothing is.

    Where several records give a field, the newest counts, but `ts` is when it was decided.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    ts: str | None = None
    agent: str | None = None
    """Of an undo: who asked for it; None for a person's."""
    tool: str | None = None
    params: Fields | None = None
    workspace: str | None = None
    also: list[str] | None = None
    cwd: str | None = None
    intent: str | None = None
    verdict: str | None = None
    tier: str | None = None
    rules: list[str] | None = None
    message: str | None = None
    layers: list[Fields] | None = None
    approved_by: str | None = None
    grant: str | None = None
    answer_reason: str | None = None
    ending: str | None = None
    judgement: str | None = None
    landed: bool | None = None
    landed_by: Fields | str | None = None
    landing: str | None = None
    changes: Changes | None = None
    changes_total: int | None = None
    size: int | None = None
    """Bytes of the files that it changed."""
    undone: str | None = None
    """What an undo takes back."""
    of: str | None = None
    """The call whose part this lands, or that is undone."""
    asked_by: Fields | None = None
    parts: list[str] | None = None
    events: list[Fields] | None = None
    exit_status: int | None = None
    outcome: str | None = None
    ms: float | None = None
    session: str | None = None
    connections: list[Fields] | None = None
    refused: list[str] | None = None
    credentials: Fields | None = None
    """How many requests over its network got a credential, by its id."""
    unread: Fields | None = None
    """Why a credential could not be read, by its id."""
    sent: int | None = None
    """Bytes over its network, of all connections."""
    received: int | None = None
    ports: list[Fields] | None = None
    """Ports of it that a person opened, those that were closed too."""
    hosts: list[Fields] | None = None
    """Hosts that grants opened for it, and those that a person was asked about."""
    undone_by: str | None = None
    """The undo that took it back, and stands."""
    last: str
    """The last landing or undo of it."""

    @property
    def is_held(self) -> bool:
        """Whether it waits for a person to land or discard it."""
        return self.judgement == "hold" and not self.landed

    @property
    def workspaces(self) -> tuple[str, ...]:
        """Where it may change files, its own workspace first."""
        return (self.workspace or "", *(self.also or ()))

    @property
    def shown_digest(self) -> str:
        """Return what stands for what a person was shown last of a held call."""
        shown = [self.id, self.parts or [], self.changes or [], self.changes_total]
        text = json.dumps(shown, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def grounds(self) -> Mapping[str, Any]:
        """Who landed it: the call, the person and the grant, as far as they are known."""
        return self.landed_by if isinstance(self.landed_by, dict) else {}


FIELDS = frozenset(CallEntry.model_fields) - {"id", "undone_by", "last"}
"""What stands in records under the same name."""


def entry_of(fields: Mapping[str, Any]) -> CallEntry:
    """Return the entry of a call; a field that is not as it should be counts as not recorded.

    Raises ValueError where `id` or `last` is none.
    """
    try:
        return CallEntry.model_validate(fields)
    except ValidationError as error:
        odd = {problem["loc"][0] for problem in error.errors()}
        return CallEntry.model_validate({k: v for k, v in fields.items() if k not in odd})
