# SPDX-License-Identifier: Apache-2.0
"""What a call, an undo and a stop answer. Typed, frozen, and safe to print."""

from __future__ import annotations

import json
from enum import Enum
from typing import Any

from pydantic import ConfigDict

from policy.model import Enforcement, Frozen, MatchedRule, Tier, Verdict
from policy.people.reports import Escalation, YellowReport


class Ending(str, Enum):
    """How far a call came."""

    RAN = "ran"
    """The command ran to an end of its own."""
    TIMED_OUT = "timed-out"
    FLOODED = "flooded"
    """It wrote more output than its rights allow and was ended."""
    PROTECTED = "protected"
    """A protected path appeared while it ran, and it was ended at once."""
    UNWATCHED = "unwatched"
    """Nobody watched any more whether one does, and it was ended."""
    TRAFFIC = "traffic"
    """It sent or received more than it may over its network, and was ended."""
    CANCELLED = "cancelled"
    """A person or a stop ended it."""
    DENIED = "denied"
    """Gate 1 refused it; nothing ran."""
    NOT_APPROVED = "not-approved"
    """Gate 1 asked and nobody, or a person's no, answered; nothing ran."""
    OUTSIDE = "outside"
    """It was permitted and is run by the agent itself, outside of a cell."""
    RUNNING = "running"
    """A background call that has been started and goes on."""


class ChangeView(Frozen):
    """One changed path as it is shown. Names that are not UTF-8 are escaped (backslashreplace)."""

    path: str
    kind: str
    type: str
    source: str | None = None
    outcome: str | None = None
    """hold or discard where gate 2 objects to this path."""
    reason: str | None = None
    rule: str | None = None
    """The rule by which it objects."""
    protected: str | None = None
    """The rule by which the guard, `verify` or gate 2 looks at what this path holds; None for an
    ordinary one."""
    mode: int | None = None
    """Of a protected path: its permission bits since then."""
    sha256: str | None = None
    """Of a protected file: of its content since then; of a link: of its target."""
    leads_to: tuple[str, ...] | None = None
    """Of a protected link or git's settings: paths of the workspace that count by it."""
    leads_state: str | None = None
    """What told their content from any other when this was shown."""


class WatchEvent(Frozen):
    """Something that happened in the workspace while a call ran."""

    kind: str
    """created, copied (a file that was about to be written), linked, moved, deleted."""
    path: str
    source: str | None = None
    """Where a moved path was; what a link points at."""


class CallResult(Frozen):
    """The answer to one call (also one line of `lockgate replay --json`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    tool: str
    verdict: Verdict
    tier: Tier
    rules: tuple[str, ...]
    message: str
    """What an agent should read: a refusal with what to do instead, or notes; else empty."""
    ending: Ending
    matched_rules: tuple[MatchedRule, ...] = ()
    enforcement: Enforcement | None = None
    """What a matched rule demands: its check, what must be given, and what to do instead."""
    judgement: str | None = None
    """land, hold, discard; None when the call had no writable layer or did not run."""
    objected: bool = False
    """It is discarded since a person objected, not since gate 2 refused a change."""
    landed: bool = False
    undoable: bool = True
    """Of what landed: whether an undo can take it back."""
    changes: tuple[ChangeView, ...] = ()
    """Protected paths first; of very many, not all: see `changes_total`."""
    changes_total: int = 0
    changes_size: int = 0
    """Bytes of the files that they leave behind."""
    events: tuple[WatchEvent, ...] = ()
    """What led to a protected path that appeared, in order."""
    exit_status: int | None = None
    """As the shell gives it: 128+n for signal n; 124 on a time limit; None when nothing ran."""
    input_read: int | None = None
    """How many bytes of its input the command read; None: it had none, or all to its end."""
    stdout: str = ""
    stderr: str = ""
    """Text made safe for a terminal and cut at the limit with a note."""
    stdout_file: str | None = None
    stderr_file: str | None = None
    """Where the whole output is, when it was cut."""
    ms: float = 0.0
    value: dict[str, Any] | None = None
    """Structured result of a file tool."""
    escalation: Escalation | None = None
    """What a sub-agent's parent must ask for, where the sub-agent may not do it itself."""
    report: YellowReport | None = None
    """What the user is told of a YELLOW call, unless it waits (quiet hours)."""

    def demanded(self) -> dict[str, Any] | None:
        """Return what a matched rule demands, without what it leaves open."""
        if self.enforcement is None:
            return None
        said = self.enforcement.model_dump(mode="json", exclude_none=True)
        return {key: value for key, value in said.items() if value not in ("", [], {})}

    def told(self) -> str:
        """Return the message for whoever is given only text: with what a rule demands, as JSON."""
        said = self.demanded() or {}
        needed = {key: said[key] for key in _NEEDED if key in said}
        more = f" {json.dumps(needed)}" if "next_action_template" in needed else ""
        return self.message + more


_NEEDED = ("check_id", "required_fields", "allowed_path", "next_action_template")


class UndoResult(Frozen):
    """What an undo did: a landing of its own, with its own id, that can be undone in turn."""

    id: str
    """Empty where it was only looked at."""
    undone: str
    changes: tuple[ChangeView, ...]
    """Protected paths first; of very many, not all: see `changes_total`."""
    changes_total: int = 0
    diff: str = ""
    """Of what was only looked at: what it would change."""
    message: str = ""


class StayingCall(Frozen):
    """A call that was to be undone and cannot be."""

    id: str
    because: str


class UndoReport(Frozen):
    """What became of undoing several calls, newest first."""

    done: tuple[UndoResult, ...]
    stopped: str | None = None
    """Why the next one could not be undone; None when all were."""
    left: tuple[str, ...] = ()
    """Calls that were to be undone and were not."""
    stay: tuple[StayingCall, ...] = ()
    """Of several that were chosen: those that cannot be undone, and why."""
    diff: str = ""
    """Of what was only looked at: one diff of all."""
    changes: tuple[ChangeView, ...] = ()
    """Of what was only looked at: what would be another than now."""


class ChangedReport(Frozen):
    """What calls that were chosen changed on disk, all in all, as far as it stands."""

    calls: tuple[str, ...]
    """Newest first."""
    session: str = ""
    """The session that they were chosen by."""
    changes: tuple[ChangeView, ...] = ()
    diff: str = ""
    later: tuple[str, ...] = ()
    """Files that somebody else changed since; the diff shows what the calls changed in them."""


class HeldLook(Frozen):
    """What a held transaction would change as things stand now, as a person was shown it."""

    id: str
    changes: tuple[ChangeView, ...]
    changes_total: int
    diff: str
    differs: tuple[str, ...] = ()
    """Paths that count and are not what was shown before."""
    digest: str = ""
    """Stands for what is shown by this: a landing that gives it lands nothing else."""


class HeldCall(Frozen):
    """A transaction that waits for a person."""

    id: str
    agent: str = ""
    tool: str = ""
    workspace: str = ""
    because: str = ""
    proposal: bool = False
    """It waits since its agent may only propose; otherwise gate 2 held it."""
    changes: int = 0
    bytes: int = 0
    age: float = 0.0
    """Seconds."""
    there: bool | None = None
    """Whether its layer is there; None where no engine could be asked."""
    note: str = ""


class StopReport(Frozen):
    """What a stop ended and what, if anything, it could not."""

    reason: str
    killed: tuple[str, ...]
    left: tuple[str, ...]
    """What goes on all the same, one line each, with the reason; empty is what it should be."""
    last: tuple[str, ...] = ()
    """The last five actions, newest first."""
    rollback: tuple[str, ...] = ()
    """Commands that undo what has landed lately, newest first; they work while all is stopped."""
    agent: str | None = None
    """Whom it stopped, with all below it; None: everything."""
    at: str = ""
    """When, in local time."""
    held: tuple[str, ...] = ()
    """Commands that show what waits for a person; a stop leaves it alone."""
    notes: tuple[str, ...] = ()
    """What else is to be known."""
