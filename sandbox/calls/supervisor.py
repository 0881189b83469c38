# SPDX-License-Identifier: Apache-2.0
"""The flow of one call: decide, record, ask, open, run, close, judge, land, record.

Everything else is elsewhere: gates in `policy`, containers in `pool` and `cells`, the record in
`store`. Front doors construct one Supervisor and hand it plans.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict
from types import TracebackType
from typing import Any

from policy.gate1.decide import Policy
from policy.model import Access, ActionPlan, Context, Decision, Verdict, Workspace
from policy.people.approval import category
from sandbox.agents.budget_keeper import BudgetKeeper
from sandbox.agents.registry import Registry
from sandbox.agents.reputation import Reputations
from sandbox.approvals.approver import Answer, Approver, nobody, yes
from sandbox.approvals.desk import Desk, escalates
from sandbox.approvals.escalation import LOOKED_AT, escalation
from sandbox.approvals.objections import Objection, Objections
from sandbox.approvals.rehearsal import NAMED, SKIPPED, Rehearsal, as_shown
from sandbox.approvals.seen_content import approved
from sandbox.approvals.stdin_capture import BEGIN_SECONDS, NotWhole, pieces, taken
from sandbox.approvals.store import Grants
from sandbox.audit.events import AskedRecord, ChildRecord, OutcomeRecord, OutputsDroppedRecord
from sandbox.audit.retention import Retention
from sandbox.calls.background import Background
from sandbox.calls.call import Call
from sandbox.calls.corrections import Corrections
from sandbox.calls.ids import CallNames
from sandbox.calls.ignore_noting import note, note_agents
from sandbox.calls.keepers import Keepers
from sandbox.calls.landing import settle
from sandbox.calls.learning import Learning
from sandbox.calls.output import Do, Output
from sandbox.calls.recorder import Recorder
from sandbox.calls.recovery import Aftermath, Unsure
from sandbox.calls.tickets import Admission
from sandbox.cells import request as launch
from sandbox.cells.cell import Cell, CellLost, Exit
from sandbox.cells.pool import CellPool
from sandbox.cells.transaction import Transaction
from sandbox.cells.turns import Turns
from sandbox.config.settings import Dirs, Preview, Settings, load_settings
from sandbox.errors import SandboxError, Stopped
from sandbox.gates.gate1 import Answer as GateAnswer
from sandbox.gates.gate1 import Gate, within
from sandbox.gates.gate2 import Effects, all_ignored, weigh
from sandbox.gates.host_calls import tightened, touched_rules
from sandbox.gates.masked_diff import masked_diff
from sandbox.gates.policy_files import Policies
from sandbox.gates.second_opinion import SecondOpinion
from sandbox.host.latch import LatchInfo, below
from sandbox.host.off_loop import is_quick
from sandbox.questions.contexts import Contexts
from sandbox.reporting.delivery import People
from sandbox.reporting.yellow_reports import Reports
from sandbox.results import (
    CallResult,
    ChangeView,
    Ending,
    HeldCall,
    HeldLook,
    StopReport,
    UndoReport,
    UndoResult,
)
from sandbox.stopping.latch_watch import StopWatch
from sandbox.stopping.stop import Latch, stop_all
from sandbox.workspaces.cached import KnownWorkspaces
from sandbox.workspaces.ignore_ledger import Ledger
from sandbox.workspaces.project_files import ProjectFiles
from sandbox.workspaces.replaced_ledger import ReplacedLedger

OnOutput = Callable[[str, bytes], None]
Stdin = AsyncIterator[bytes] | bytes | str | None
_REAP_SECONDS = 15.0
_END_SECONDS = 0.5
"""How long a stop waits until the engine has removed what runs no more."""
_SILENT = (
    f"lockgate: nothing came on standard input within {BEGIN_SECONDS:.0f} s, before a person is "
    "asked; the command gets none\n"
).encode()
_OPINION_SECONDS = 1.0
"""The second reading starts after this time, or when it is first wanted: not while the first call
waits for its cell."""


class Supervisor:
    """Takes plans, gives results. One per process and state folder; several may share a folder."""

    def __init__(
        self,
        dirs: Dirs | None = None,
        *,
        policy: Policy | None = None,
        workspaces: Sequence[Workspace] | None = None,
        settings: Settings | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Reach for nothing yet; `labels` are put on every container in addition to its own."""
        self._labels = dict(labels or {})
        self._dirs = (dirs or Dirs.default()).create()
        self._settings = settings or load_settings(self._dirs)
        self._policies = Policies(self._dirs, base=policy)
        self._known = KnownWorkspaces(self._dirs, workspaces)
        self._latch = Latch(self._dirs)
        self._objections = Objections(self._latch.check)
        self._record = Recorder(self._dirs)
        self._names = CallNames(self._record.store)
        self._off_loop = self._record.off_loop
        self._ledger = Ledger(self._dirs.state / "ignoring")
        self._replaced = ReplacedLedger(self._dirs.state / "replaced")
        self._aftermath = Aftermath(self._record)
        self._opinion = SecondOpinion()
        self._files = ProjectFiles(self._record.made)
        self._gate = Gate(
            self._policies, self._opinion, self._files, off_loop=self._record.off_loop
        )
        reputations = Reputations(self._dirs)
        self._contexts = Contexts(
            self._dirs, self._policies, known=self._known, reputations=reputations
        )
        self._learning = Learning(reputations, self._policies, self._record)
        self._people = People(Reports(self._dirs), self._record, self._settings)
        self._desk = Desk(
            Grants(self._dirs),
            seconds=self._settings.approval_seconds,
            notify=self._notify,
            off_loop=self._record.off_loop,
        )
        self._pool: CellPool | None = None
        self._retention = Retention(
            self._record.store.folders,
            self._settings.outputs_mib << 20,
            lambda: [one["id"] for one in self._record.store.held()],
        )
        self._connecting = asyncio.Lock()
        self._turns = Turns()
        self._running: dict[str, dict[str, Any]] = {}
        self._background = Background()
        self._budgets = BudgetKeeper(
            self._settings.budgets,
            self._latch,
            record=self._record.event,
            stop=self.stop,
            end_running=self._end_running,
        )
        self._watch = StopWatch(
            self._latch,
            Registry(self._dirs),
            self._carry_out,
            also=lambda: self._budgets.look(self._running.values()),
        )
        self._corrections = Corrections(
            self._record,
            self._latch,
            self._objections,
            self._learning,
            new_id=new_id,
            keepers=self._keepers,
            end_cells=self._end_cells,
        )
        self._ending: set[asyncio.Task[None]] = set()
        self._reaper: asyncio.Task[None] | None = None
        self._later: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Supervisor:
        self._reaper = asyncio.create_task(self._reap())
        self._batches = asyncio.create_task(self._people.go_on())
        self._watch.start()
        loop = asyncio.get_running_loop()
        self._later = loop.call_later(_OPINION_SECONDS, self._opinion.start)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._reaper is not None:
            self._reaper.cancel()
        self._watch.close()
        if self._later is not None:
            self._later.cancel()
        self._opinion.close()
        await self._background.close()
        self._batches.cancel()
        await self._people.close()
        await self._end_cells()
        await self._record.flush()
        self._off_loop.close()

    # -- the flow

    async def call(
        self,
        plan: ActionPlan,
        *,
        approver: Approver = nobody,
        stdin: Stdin = None,
        env: Mapping[str, str] | None = None,
        on_output: OnOutput | None = None,
        call_id: str | None = None,
    ) -> CallResult:
        """Carry out one plan. Raises SandboxError where Lockgate itself fails; nothing lands then.

        Cancelling ends the call's processes and throws its changes away.
        """
        self._latch.check(plan.agent)
        if call_id is not None:
            await self._names.claim(call_id)
        made = functools.partial(
            self._call,
            plan,
            approver=approver,
            stdin=stdin,
            env=env,
            on_output=on_output,
            call_id=call_id,
        )
        return await self._budgets.counted(plan.agent, made)

    async def _call(
        self,
        plan: ActionPlan,
        *,
        approver: Approver,
        stdin: Stdin,
        env: Mapping[str, str] | None,
        on_output: OnOutput | None,
        call_id: str | None,
        admitted: Decision | None = None,
        preview: Mapping[str, Any] | None = None,
    ) -> CallResult:
        call = await self._prepare(plan, stdin, env, on_output, call_id)
        call.preview = preview
        if call.decision == admitted:  # it is on disk, and answered
            if call.decision.verdict is Verdict.ASK:
                call.stdin = None  # nobody was asked about any
            return await self._make(call, None)
        # P1: awaited before it runs
        decided = await self._record.deciding(call.id, plan, call.decision, env)
        if call.decision.verdict is Verdict.DENY or not launch.runnable(plan.tool):
            await decided
            return self._refuse(call, Ending.DENIED, call.not_run())
        if call.decision.verdict is Verdict.ASK:
            await decided
            async with self._failure_recorded(call):
                refused = await self._ask(call, approver, env)
            if refused is not None:
                return refused
            self._latch.check(plan.agent)
        return await self._make(call, decided)

    async def _make(self, call: Call, decided: asyncio.Future[None] | None) -> CallResult:
        """Run a call that may run, once its decision is on disk."""
        plan = call.plan
        if plan.params.run_in_background:
            if decided is not None:
                await decided
            return await self._start_background(call)
        with self._listed(call):
            async with self._failure_recorded(call):
                pool = await self._connected()
                async with pool.lease(plan.agent, call.workspaces, write=call.writes) as cell:
                    return await self._run(call, cell, decided)

    async def admit(
        self,
        plan: ActionPlan,
        *,
        approver: Approver = nobody,
        on_host: bool = False,
        call_id: str | None = None,
    ) -> Admission:
        """Decide, and ask a person, about a call that is not made now: it is made later through
        `redeem`, or by the agent itself (`on_host`)."""
        self._latch.check(plan.agent)
        if call_id is not None:
            await self._names.claim(call_id)
        call = await self._prepare(plan, None, None, None, call_id, on_host=on_host)
        await self._record.decided(call.id, plan, call.decision)
        refused = None
        if call.decision.verdict is Verdict.DENY:
            refused = self._refuse(call, Ending.DENIED, call.decision.message)
        elif call.decision.verdict is Verdict.ASK:
            async with self._failure_recorded(call):
                refused = await self._ask(call, approver, None)
        self._latch.check(plan.agent)
        if refused is None and on_host:
            if call.decision.verdict is not Verdict.ASK:  # else it is a person's word
                await self._note_rules(call)
            self._refuse(call, Ending.OUTSIDE, "")
        return Admission(call.id, plan, call.decision, refused, call.preview)

    async def _note_rules(self, call: Call) -> None:
        """Note what an agent is about to do on the host to files of ignore rules."""
        context = self._contexts.of(call.plan)
        found = await self._off_loop.do(
            call.plan.agent, lambda: touched_rules(call.answer, call.plan, context)
        )
        for root, what in found:
            await note(self._ledger, (what,), ({},), (root,), person=False)

    def check_latch(self, agent: str) -> None:
        """Raise Stopped while a stop is in force for an agent."""
        self._latch.check(agent)

    async def note(self, said: ChildRecord | OutcomeRecord) -> None:
        """Record something that an agent said of itself."""
        await self._record.event(said)

    async def redeem(
        self,
        admission: Admission,
        *,
        stdin: Stdin = None,
        on_output: OnOutput | None = None,
    ) -> CallResult:
        """Make a call that was admitted; what is decided otherwise by now is asked anew.

        It takes no variables: nobody was asked about any.
        """
        plan = admission.plan
        self._latch.check(plan.agent)
        made = functools.partial(
            self._call,
            plan,
            approver=admission.said,
            stdin=stdin,
            env=None,
            on_output=on_output,
            call_id=admission.call,
            admitted=admission.decision if admission.refused is None else None,
            preview=admission.preview,
        )
        return await self._budgets.counted(plan.agent, made)

    async def _run(
        self, call: Call, cell: Cell, decided: asyncio.Future[None] | None = None
    ) -> CallResult:
        """Run a call in a cell inside a transaction, judge it, land it, record it."""
        async with Transaction(cell, call.id, write=call.writes) as transaction:
            if decided is not None:
                await decided
            self._latch.check(call.plan.agent)
            quick = is_quick(call.plan)
            if call.decision.verdict is Verdict.REPORT and quick:  # while the command runs
                asyncio.get_running_loop().call_soon(self._categorise, call)
            done = await self._execute(call, cell)
            effects = None
            landed = False
            if call.writes:
                raw, diff = await transaction.close()
                judged = functools.partial(_judged, call, raw, diff, self._ledger, self._replaced)
                if any(raw):
                    effects, diff = await self._off_loop.do(call.plan.agent, judged)
                else:  # nothing was changed
                    effects, diff = judged()
                self._record.keep_masked(call.id, diff)
                effects = await self._seen(call, transaction, raw, effects)
                self._latch.check(call.plan.agent)
                try:
                    effects, landed = await settle(
                        transaction,
                        effects,
                        call.decision.landing,
                        call.decision.objection_seconds,
                        lambda found: self._window(call, found),
                        lambda listed: self._judged_anew(call, transaction, listed),
                        len(call.workspaces),
                        note=lambda found: self._note(call, transaction, found),
                        rebuildable=lambda found: asyncio.to_thread(
                            all_ignored, found, call.workspaces, self._ledger
                        ),
                        turn=self._turns.take(call.workspaces),
                    )
                except CellLost as lost:  # in the middle of the landing, perhaps
                    effects, landed = await self._turned_out(call, effects, lost)
                self._record.forgotten(transaction.evicted)
        result = call.result(done, effects, transaction.watched, landed=landed)
        self._record.ended(result, call.plan.agent, self._files.note(call.plan, result))
        context = self._contexts.of(call.plan)
        await self._learning.from_call(call, result, context, vouched=done.vouched)
        if call.decision.verdict is Verdict.REPORT and not quick:
            await self._off_loop.do(call.plan.agent, lambda: self._categorise(call))
        result = await self._tell(call, result)
        await call.output.finish()
        return result

    async def _judged_anew(
        self, call: Call, transaction: Transaction, raw: list[list[dict[str, Any]]]
    ) -> Effects:
        """Return the effects of a closed transaction with gate 2's judgement."""
        effects = await self._off_loop.do(
            call.plan.agent,
            lambda: _weighed(call, raw, self._ledger, self._replaced),
        )
        return await self._seen(call, transaction, raw, effects)

    async def _note(self, call: Call, transaction: Transaction, effects: Effects) -> None:
        """Note of effects that are about to land what later calls are judged by."""
        await note_agents(self._ledger, transaction, effects, call.workspaces)
        for workspace, paths in zip(call.workspaces, effects.replaced, strict=False):
            if paths:
                await asyncio.to_thread(self._replaced.note, call.plan.agent, workspace, paths)

    @staticmethod
    async def _seen(
        call: Call,
        transaction: Transaction,
        raw: list[list[dict[str, Any]]],
        effects: Effects,
    ) -> Effects:
        """Return the effects that gate 2 has judged, after what watched them and people saw."""
        effects = transaction.watched.over(effects, call.paths)
        effects = await as_shown(call.preview, transaction, raw, effects)  # P8
        return await approved(call.plan, call.preview, call.paths, transaction, effects)

    async def _ask(
        self, call: Call, approver: Approver, env: Mapping[str, str] | None
    ) -> CallResult | None:
        """Ask a person; return the refusal, or None where the call may run (P8)."""
        context = self._contexts.of(call.plan)
        try:
            call.given = await taken(call.stdin)
        except NotWhole as error:
            text = f"{call.decision.message} ({error})"
            return self._refuse(call, Ending.NOT_APPROVED, text)
        if call.given.silent:
            call.output.take(2, _SILENT)
        call.stdin = _pieces(call.given.data or None)
        said = await self._desk.permission(
            call.id,
            call.plan,
            call.answer,
            context,
            approver,
            again=lambda: self._decide(call.plan, context, call.workspaces, on_host=call.on_host),
            rehearse=lambda decision: self._rehearse(call, decision, env),
            env=env,
            given=call.given,
        )
        call.preview = said.preview
        await self._record.answered(call.id, said)
        if not said.approved:
            text = f"{said.decision.message} ({said.reason or 'no'})"
            refused = self._refuse(call, Ending.NOT_APPROVED, text)
            return await self._escalated(call, refused)
        if said.decision != call.decision:  # the policy changed while the person thought
            call.answer = said.answer
            if not call.on_host:
                call.request = self._request(call.plan, said.decision, call.id, env)
            await self._record.decided(call.id, call.plan, call.decision, env)
        return None

    async def _rehearse(
        self, call: Call, decision: Decision, env: Mapping[str, str] | None
    ) -> dict[str, Any]:
        """Return what a person is shown of the effects of a call before they say yes or no."""
        if self._settings.preview is not Preview.REHEARSE:
            return {}
        if call.preview is not None:  # it was admitted, and is made now
            return {key: one for key, one in call.preview.items() if key != NAMED}
        if reason := call.not_rehearsed():
            return {SKIPPED: reason}
        self._latch.check(call.plan.agent)
        rehearsal = Rehearsal(
            self._request(call.plan, decision, call.id, env),
            decision,
            call.workspaces,
            call.paths,
            self._seconds(call.plan, decision),
            self._ledger,
            call.given.data if call.given else b"",
        )
        pool = await self._connected()
        with self._listed(call):
            async with pool.rehearsal(
                call.plan.agent, call.workspaces, write=rehearsal.writes
            ) as cell:
                shown, effects = await rehearsal.run(cell)
        self._latch.check(call.plan.agent)
        await self._record.rehearsed(call.id, shown, effects)
        return shown

    async def _escalated(self, call: Call, refused: CallResult) -> CallResult:
        """Return the refusal, with what the parent of a sub-agent must ask for."""
        if not escalates(call.decision):
            return refused
        earlier = await asyncio.to_thread(self._record.store.calls, limit=LOOKED_AT)
        found = escalation(call.plan, call.decision, earlier)
        return refused.model_copy(update={"escalation": found})

    async def _turned_out(
        self, call: Call, effects: Effects, lost: CellLost
    ) -> tuple[Effects, bool]:
        """Return the effects of a call whose keeper died over them, and whether they landed."""
        pool = await self._connected()
        again = lambda: pool.get(call.plan.agent, call.workspaces)  # noqa: E731
        return await self._aftermath.effects(call.id, effects, lost, again)

    @contextlib.asynccontextmanager
    async def _failure_recorded(self, call: Call) -> AsyncIterator[None]:
        """Record that a call was cancelled, or that Lockgate failed under it.

        What fails while a stop is in force, fails because of it. Raises Stopped then.
        """
        try:
            yield
        except Unsure:
            raise  # the record learns later what became of it
        except SandboxError as error:
            try:
                self._latch.check(call.plan.agent)
            except Stopped as stopped:
                await self._record.failed(call.id, stopped, call.ms)
                raise stopped from error
            await self._record.failed(call.id, error, call.ms)
            raise
        except BaseException as error:
            await self._record.failed(call.id, error, call.ms)
            raise

    async def _execute(self, call: Call, cell: Cell) -> Exit:
        limits = call.decision.rights.limits
        seconds = self._seconds(call.plan, call.decision)
        if call.plan.params.run_in_background:
            seconds = 30 * 86_400
        done = await cell.run(
            call.request,
            on_output=call.output.take,
            seconds=seconds,
            most_bytes=limits.output_bytes,
            stdin=call.stdin,
            room=call.output.room_wanted,
        )
        if done.error:
            call.output.take(2, f"lockgate: {done.error}\n".encode())
        return done

    def _seconds(self, plan: ActionPlan, decision: Decision) -> float:
        """Return how long a call may take."""
        wanted = plan.params.timeout / 1000 if plan.params.timeout else self._settings.call_seconds
        return min(decision.rights.limits.seconds, wanted)

    # -- parts of the flow

    async def _prepare(
        self,
        plan: ActionPlan,
        stdin: Stdin,
        env: Mapping[str, str] | None,
        on_output: OnOutput | None,
        call_id: str | None,
        *,
        on_host: bool = False,
    ) -> Call:
        name = call_id or new_id()
        workspaces = self._workspaces(plan)
        context = self._contexts.of(plan)
        answer = await self._decide(plan, context, workspaces, on_host=on_host)
        most = answer.decision.rights.limits.answer_bytes
        return Call(
            name,
            plan,
            answer,
            Output(self._record.store, name, most, on_output, self._of(plan.agent)),
            _pieces(stdin),
            {} if on_host else self._request(plan, answer.decision, name, env),
            workspaces,
            on_host=on_host,
        )

    async def _decide(
        self,
        plan: ActionPlan,
        context: Context,
        workspaces: tuple[str, ...],
        *,
        on_host: bool = False,
    ) -> GateAnswer:
        """Return gate 1's answer, within the limits of the settings."""
        answer = await self._gate.decide(plan, context, workspaces)
        if on_host:
            answer = tightened(answer, plan, context)
        return within(answer, self._settings.limits)

    @staticmethod
    def _request(
        plan: ActionPlan, decision: Decision, call_id: str, env: Mapping[str, str] | None
    ) -> dict[str, Any]:
        """Return what the runner will be asked; raises BadInput for what it cannot run."""
        if not launch.runnable(plan.tool) or decision.verdict is Verdict.DENY:
            return {}
        writes = decision.rights.workspace is Access.WRITE
        return launch.request(
            plan,
            call=call_id,
            exclusive=writes,
            env=env,
            approved=decision.verdict is Verdict.ASK,
            tests="tests" in decision.rules,
        )

    async def _notify(self, question: AskedRecord, plan: ActionPlan) -> None:
        levels = self._policies.of(self._workspaces(plan)).policy.standing.levels
        await self._people.asked(question, plan.user, levels)

    async def _tell(self, call: Call, result: CallResult) -> CallResult:
        """Report a YELLOW call."""
        if call.answer.effective is None or result.verdict is not Verdict.REPORT:
            return result
        levels = call.answer.effective.policy.standing.levels
        return await self._people.told(call.plan, result, call.category, levels)

    def _categorise(self, call: Call) -> None:
        if call.answer.effective is not None:
            context = self._contexts.of(call.plan)
            call.category = category(call.plan, context, call.answer.effective.policy)

    def _of(self, agent: str) -> Do:
        """Return what does an agent's work off the event loop."""
        return lambda work: self._off_loop.do(agent, work)

    def _workspaces(self, plan: ActionPlan) -> tuple[str, ...]:
        return self._checked((plan.workspace, *plan.also))

    def _checked(self, paths: Sequence[str]) -> tuple[str, ...]:
        """Return the workspaces at these paths, each once. Raises BadInput where one is none."""
        wanted = tuple(dict.fromkeys(paths))
        for path in wanted:
            self._known.check(path)
        return wanted

    def _refuse(self, call: Call, ending: Ending, message: str) -> CallResult:
        result = call.refused(ending, message)
        self._record.ended(result)
        return result

    # -- background calls

    async def _start_background(self, call: Call) -> CallResult:
        async with self._failure_recorded(call):
            pool = await self._connected()
            cell = await pool.background(call.plan.agent, call.workspaces, write=call.writes)

        async def run() -> CallResult:
            try:
                with self._listed(call, background=True):
                    async with self._failure_recorded(call):
                        return await self._run(call, cell)
            finally:
                await pool.end(cell)

        self._background.start(call.id, cell, call.output, run())
        return call.in_background()

    async def attach(self, call_id: str, on_output: OnOutput) -> CallResult:
        """Pass on what a background call writes until it ends. Cancelling ends it."""
        return await self._background.attach(call_id, on_output)

    def peek(self, call_id: str) -> dict[str, Any]:
        """Return what a background call has written so far."""
        return self._background.peek(call_id)

    async def end(self, call_id: str) -> CallResult:
        """End a background call; its changes are judged and land as any call's."""
        return await self._background.end(call_id)

    # -- afterwards

    async def undo(
        self, call_id: str, *, dry_run: bool = False, by: str | None = None
    ) -> UndoResult:
        """Undo a landed call. Raises BadInput with the paths where a later change would be lost.

        With `dry_run` nothing changes; the result says what an undo would do. `by` is the agent
        that asks, None for a person: an agent may undo what is its own, and ordinary files alone.
        """
        return await self._corrections.undo(call_id, dry_run=dry_run, by=by)

    async def undo_last(self, count: int, *, dry_run: bool = False) -> UndoReport:
        """Undo the newest landed calls, newest first, until one cannot be undone."""
        return await self._corrections.undo_last(count, dry_run=dry_run)

    async def held(self) -> tuple[HeldCall, ...]:
        """Return what waits for a person to land or discard it, newest first."""
        return await self._corrections.held()

    async def look_held(self, call_id: str) -> HeldLook:
        """Look at a held transaction as things stand, for a person: it is what was shown then."""
        return await self._corrections.look_held(call_id)

    async def land(
        self, call_id: str, paths: Sequence[str] = (), *, force: bool = False
    ) -> CallResult:
        """Land a held transaction, or some of its paths: a person's word."""
        return await self._corrections.land(call_id, paths, force=force)

    async def discard(self, call_id: str) -> CallResult:
        """Throw away a held transaction, or what waits to land."""
        return await self._corrections.discard(call_id)

    async def object(self, call_id: str, reason: str = "") -> CallResult:
        """Object to a call whose changes wait to land: they are thrown away."""
        return await self._corrections.object(call_id, reason)

    async def _window(self, call: Call, effects: Effects) -> Objection | None:
        """Give a person time to object to what is about to land."""
        seconds = call.decision.objection_seconds
        await self._record.waiting(call.id, effects, seconds)
        return await self._objections.wait(call.id, seconds)

    async def _keepers(self) -> Keepers:
        return Keepers(
            self._record,
            await self._connected(),
            self._checked,
            self._policies.paths,
            self._aftermath,
            self._ledger,
            self._replaced,
            self._turns,
        )

    async def _end_cells(self) -> None:
        if self._pool is not None:
            await self._pool.end_all()

    async def stop(self, reason: str, agent: str | None = None, *, own: bool = False) -> StopReport:
        """Stop everything, or one agent and all below it. Raises BadInput for an unknown one.

        `own`: that agent asks, so it is known even if it has done nothing yet.
        """
        engine = self._pool.engine if self._pool is not None else None
        hold = self._latch.hold
        report = await asyncio.to_thread(
            stop_all, self._dirs, reason, agent=agent, own=own, engine=engine, hold=hold
        )
        self._watch.handles(report.agent)
        if self._pool is not None and report.agent is None:
            ending = asyncio.create_task(self._end_cells())  # the engine takes its time
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
            await asyncio.wait([ending], timeout=_END_SECONDS)
        return report

    def _end_running(self, agent: str) -> None:
        """End what the calls of an agent, and of those below it, run; they are judged."""
        for cell in self._pool.living() if self._pool else ():
            if below(agent, cell.spec.agent):
                cell.end_running()

    async def _carry_out(self, info: LatchInfo) -> None:
        """Carry out a stop that somebody set and nobody sweeps for."""
        await self.stop(info.reason, info.agent)

    # -- state

    async def warm(self, workspace: str, agent: str = "main") -> None:
        """Start the cell of a workspace ahead of the first call."""
        self._latch.check(agent)
        await (await self._connected()).warm(agent, self._checked((workspace,)))

    def running(self) -> list[dict[str, Any]]:
        """Return the calls that run now."""
        now = time.time()
        ends = {call: self._objections.until(call) for call in self._running}
        return [
            {**one, "lands_in": max(0.0, until - now)} if (until := ends[call]) else dict(one)
            for call, one in self._running.items()
        ]

    def cells(self) -> list[dict[str, Any]]:
        """Return the living cells."""
        return [
            {
                "name": cell.name,
                "agent": cell.spec.agent,
                "workspaces": list(cell.spec.workspaces),
                "started": cell.started,
                "busy": cell.busy,
                "hidden": [path for paths in cell.hidden for path in paths],
            }
            for cell in (self._pool.living() if self._pool else ())
        ]

    @contextlib.contextmanager
    def _listed(self, call: Call, *, background: bool = False) -> Any:
        self._running[call.id] = {
            "id": call.id,
            "agent": call.plan.agent,
            "tool": call.plan.tool,
            "command": call.plan.params.command or call.plan.params.file_path or "",
            "workspace": call.plan.workspace,
            "started": time.time(),
            "background": background,
        }
        try:
            with self._budgets.running(call.plan.agent):
                yield
        finally:
            self._running.pop(call.id, None)
            self._objections.ended(call.id)

    async def _connected(self) -> CellPool:
        async with self._connecting:
            if self._pool is None:
                self._pool = await asyncio.to_thread(
                    CellPool.connect,
                    self._dirs,
                    self._settings,
                    self._policies.paths,
                    self._labels,
                )
                self._pool.on_start = self._aftermath.settle
        return self._pool

    async def _reap(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_REAP_SECONDS)
            if self._pool is not None:
                await self._pool.end_idle(now=loop.time())
            if not self._running:
                await asyncio.to_thread(self._record.store.index_ahead)
            store, running = self._record.store, tuple(self._running)
            dropped = await asyncio.to_thread(self._retention.look, store.written, running)
            if dropped is not None:
                await self._record.event(OutputsDroppedRecord(**asdict(dropped)))


def _weighed(
    call: Call,
    raw: Sequence[Sequence[Mapping[str, Any]]],
    ledger: Ledger,
    replaced: ReplacedLedger,
) -> Effects:
    """Return what gate 2 says of a call's changes."""
    takes = any(one.get("replaced") for items in raw for one in items)
    earlier = replaced.earlier(call.plan.agent, call.workspaces) if takes else ()
    return weigh(call.decision, raw, call.workspaces, call.paths, ledger, earlier)


def _judged(
    call: Call,
    raw: Sequence[Sequence[Mapping[str, Any]]],
    diff: str,
    ledger: Ledger,
    replaced: ReplacedLedger,
) -> tuple[Effects, str]:
    """Return what gate 2 says of a call's changes, and their diff with its secrets masked."""
    return _weighed(call, raw, ledger, replaced), masked_diff(diff)


def new_id() -> str:
    """Return a new call id: short enough to type."""
    return "c" + secrets.token_hex(5)


def _pieces(stdin: Stdin) -> AsyncIterator[bytes] | None:
    match stdin:
        case str() | bytes() | bytearray():
            return pieces(stdin.encode() if isinstance(stdin, str) else bytes(stdin))
        case None:
            return None
        case _ if isinstance(stdin, AsyncIterator):
            return stdin
        case _:
            kind = type(stdin).__name__
            raise TypeError(f"`stdin` is text, bytes or an async iterator of bytes, not {kind}")


__all__ = ["Answer", "Approver", "ChangeView", "Supervisor", "new_id", "nobody", "yes"]
