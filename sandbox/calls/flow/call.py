# SPDX-License-Identifier: Apache-2.0
"""One call on its way through the supervisor, and the results that come of it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from policy.model import Access, ActionPlan, Context, Decision, Outcome, Verdict
from policy.people.openers import say_opener
from policy.people.shortfall import Seen, explain_failure
from policy.protected.paths import PathPolicy
from sandbox.approvals.approver import Approver, nobody
from sandbox.approvals.script_capture import Script
from sandbox.approvals.stdin_capture import Given
from sandbox.calls.flow.output import Output
from sandbox.cells.observation import Watched
from sandbox.cells.outlet import Outlet
from sandbox.cells.pair.clock import CallClock
from sandbox.cells.pair.outcomes import Exit
from sandbox.containers.plan import HOME, READING_HOME
from sandbox.gates.gate1 import Gate1Answer as GateAnswer
from sandbox.gates.gate2 import Effects
from sandbox.network.gateway import HostWord
from sandbox.results import CallResult, Ending

TIMED_OUT_STATUS = 124

OnOutput = Callable[[str, bytes], None]
Stdin = AsyncIterator[bytes] | bytes | str | None


class AsksForHosts(Protocol):
    """Asks a person about hosts of a call while it runs."""

    clock: CallClock
    """The call's time, which stands still while a question waits."""

    async def ask(self, name: str, port: int) -> HostWord:
        """Ask a person about a host; a failure is a no."""
        ...


@dataclass(frozen=True, slots=True)
class CallRequest:
    """What a door asks for: a plan, and what goes with it."""

    plan: ActionPlan
    approver: Approver = nobody
    """Who answers gate 1's question."""
    stdin: Stdin = None
    env: Mapping[str, str] | None = None
    on_output: OnOutput | None = None
    call_id: str | None = None
    """The id that the client chose; None: a new one."""
    on_host: bool = False
    """The agent makes the call itself, on the host."""
    admitted: Decision | None = None
    """The decision by which it was admitted before: that one is on disk, and answered."""
    preview: Mapping[str, Any] | None = None
    """What a person was shown of its effects when it was admitted."""
    scripts: tuple[Script, ...] = ()
    """The files that it runs, as a person approved them when it was admitted."""


@dataclass(slots=True)
class Call:
    """One call on its way."""

    id: str
    plan: ActionPlan
    answer: GateAnswer
    """Gate 1's word that counts when the call starts."""
    output: Output
    stdin: AsyncIterator[bytes] | None
    request: dict[str, Any]
    """What the runner is asked to do; empty for a plan that does not run."""
    workspaces: tuple[str, ...]
    context: Context
    """What was known beside the plan when gate 1 was asked first."""
    approver: Approver = nobody
    env: Mapping[str, str] | None = None
    preview: Mapping[str, Any] | None = None
    """What a person was shown of its effects when they approved it; None where nothing was."""
    scripts: tuple[Script, ...] = ()
    """The files that it runs, as a person approved them; none where nobody was asked."""
    given: Given | None = None
    """What it is given on standard input, where a person was asked about it."""
    on_host: bool = False
    """The agent runs it itself, on the host."""
    hosts: list[dict[str, Any]] = field(default_factory=list)
    """Hosts beside its rights, as records name them: what grants opened, what was asked about."""
    questions: AsksForHosts | None = None
    """Asks a person about hosts while it runs; None: nobody is asked."""
    network: Outlet | None = None
    """Its way out, while it has one; what went through it, afterwards."""
    category: str = ""
    """What a report calls it; looked up while its command runs."""
    started: float = field(default_factory=time.perf_counter)

    @property
    def decision(self) -> Decision:
        """Gate 1's decision."""
        return self.answer.decision

    @property
    def paths(self) -> PathPolicy:
        """What gate 2 goes by."""
        return self.answer.paths

    @property
    def writes(self) -> bool:
        """Whether the call gets a private layer that it can write to."""
        return self.decision.rights.workspace is Access.WRITE

    @property
    def has_outlet(self) -> bool:
        """Whether it runs in a cell of its own, with a gateway."""
        return bool(self.decision.rights.network) or self.questions is not None

    def connect(self, outlet: Outlet) -> None:
        """Take a way out, and tell the call's programs of it."""
        self.network = outlet
        self.request = {**self.request, "env": {**outlet.variables, **self.request["env"]}}

    @property
    def ms(self) -> float:
        """Milliseconds since the call came in."""
        return (time.perf_counter() - self.started) * 1000

    def refused(self, ending: Ending, message: str) -> CallResult:
        """Return the result of a call that did not run."""
        return self._base(ending, message)

    def in_background(self) -> CallResult:
        """Return the first answer to a call that goes on in the background."""
        message = f"it runs in the background; `lockgate end {self.id}` ends it"
        return self._base(Ending.RUNNING, message)

    def not_rehearsed(self) -> str:
        """Say why the call cannot be rehearsed; empty if it can."""
        if self.on_host or not self.request:
            return "it does not run in a cell"
        if self.plan.params.run_in_background:
            return "it runs in the background"
        if self.decision.rights.network:
            return "it reaches a host, and a rehearsal has no network"
        return ""

    def not_run(self) -> str:
        """Say why the call did not run at all."""
        if self.decision.verdict is Verdict.DENY:
            return self.decision.message
        return (
            f"{self.decision.message}; `{self.plan.tool}` is judged here, but not run by Lockgate"
        )

    def result(
        self,
        done: Exit,
        effects: Effects | None,
        watched: Watched,
        *,
        landed: bool,
        note: str = "",
    ) -> CallResult:
        """Return the result of a call that ran; `note` is said beside what its effects say."""
        ending = Ending(done.ended) if done.ended else Ending.RAN
        out, errors = self.output.text(1), self.output.text(2)
        notes = [*self._notes(ending, done, effects, watched), *([note] if note else [])]
        missed = self.network.notes(self._say_opener) if self.network is not None else []
        missed += self._unopened()
        notes += missed
        if ending is Ending.RAN and self.plan.params.command is not None:
            reach = "" if missed else self.decision.rights.network.words()
            here = self.plan.cwd or self.plan.workspace
            seen = Seen(here, self.workspaces, (str(Path.home()), HOME, READING_HOME))
            opener = None if self.network is not None else self._say_opener
            why = explain_failure(done.status, out, errors, reach=reach, opener=opener, seen=seen)
            notes += [why] if why else []
        return self._base(
            ending,
            "; ".join(notes),
            judgement=effects.judgement.outcome.value if effects else None,
            objected=effects.objected_to if effects else False,
            landed=landed,
            undoable=effects.undoable if effects else True,
            changes=effects.views if effects else (),
            changes_total=effects.total if effects else 0,
            changes_size=effects.shown.size if effects else 0,
            events=watched.events,
            exit_status=TIMED_OUT_STATUS if ending is Ending.TIMED_OUT else done.status,
            input_read=done.input_read,
            stdout=out,
            stderr=errors,
            stdout_file=self.output.file(1),
            stderr_file=self.output.file(2),
        )

    def _unopened(self) -> list[str]:
        """Say which hosts a person was asked about and did not open."""
        notes = []
        for host in self.hosts:
            if host["state"] == "opened":
                continue
            place, because = f"{host['host']}:{host['port']}", str(host.get("because") or "")
            if host.get("by"):
                refusal = f"a person refused `{place}`"
                notes.append(f"{refusal}: {because}" if because else refusal)
            else:
                opener = self._say_opener([place.removesuffix(":443")])
                notes.append(f"`{place}` was not opened: {because}; {opener}")
        return notes

    def _say_opener(self, names: Sequence[str]) -> str:
        return say_opener(self.plan, self.decision, names, env=bool(self.env))

    def _notes(
        self, ending: Ending, done: Exit, effects: Effects | None, watched: Watched
    ) -> list[str]:
        notes = []
        if ending is Ending.TIMED_OUT:
            notes.append("the time limit ended it")
        if ending is Ending.FLOODED:
            limit = self.decision.rights.limits.output_bytes
            notes.append(f"it wrote more than {limit} bytes and was ended")
        if ending is Ending.UNWATCHED:
            notes.append(f"it was ended, since nobody watched it any more ({watched.lost})")
        if done.oom:
            notes.append("a process was ended for want of memory")
        if effects is not None and effects.judgement.message:
            notes.append(effects.judgement.message)
        if effects and effects.notice and effects.judgement.outcome is not Outcome.DISCARD:
            notes.append(effects.notice)
        if watched.events:
            notes.append(f"what led there: {watched.sentence()}")
        if effects is not None and effects.judgement.outcome is Outcome.HOLD:
            notes.append(f"see `lockgate show {self.id}`")
        return notes

    def _base(self, ending: Ending, message: str, **more: Any) -> CallResult:
        return CallResult(
            id=self.id,
            tool=self.plan.tool,
            verdict=self.decision.verdict,
            tier=self.decision.tier,
            rules=self.decision.rules,
            message=message,
            ending=ending,
            matched_rules=self.decision.matched_rules,
            enforcement=self.decision.enforcement,
            ms=self.ms,
            **more,
        )
