# SPDX-License-Identifier: Apache-2.0
"""The flow of one call: decide, record, ask, open, run, close, judge, land, record.

Its steps are beside this: `prepare`, `ask`, `judge`, `landing`, `report`; `parts` is what they are
made of, `live` what runs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from policy.model import Verdict
from sandbox.approvals.desk import Patient
from sandbox.approvals.script_capture import other_scripts, touched_scripts
from sandbox.calls.edits.keeping import EditKeeping
from sandbox.calls.edits.tool_use import ToolUse
from sandbox.calls.flow.ask import Asking
from sandbox.calls.flow.call import Call, CallRequest
from sandbox.calls.flow.host_questions import HostAsking, host_record
from sandbox.calls.flow.judge import Judging
from sandbox.calls.flow.live import LiveState
from sandbox.calls.flow.parts import Parts
from sandbox.calls.flow.prepare import Preparation, is_runnable, time_limit
from sandbox.calls.flow.report import CallReports
from sandbox.calls.recovery import Unsure
from sandbox.calls.tickets import Admission
from sandbox.cells.cell import Cell
from sandbox.cells.pair.clock import CallClock
from sandbox.cells.pair.outcomes import Exit
from sandbox.cells.transaction import Transaction
from sandbox.errors import SandboxError, Stopped, say_os_error
from sandbox.gates.gate2 import Effects, say_not_as_approved
from sandbox.results import CallResult, Ending

_BACKGROUND_SECONDS = 30 * 86_400.0
"""How long a call in the background may take."""


class CallFlow:
    """Carries out calls.

    INVARIANT (P1, flow): a decision is on disk before its command starts.
    INVARIANT (P2, flow): what a command changed lands only after gate 2 judged it.
    """

    def __init__(self, parts: Parts, live: LiveState) -> None:
        self._latch = parts.latch
        self._record = parts.record
        self._settings = parts.settings
        self._files = parts.files
        self._contexts = parts.contexts
        self._learning = parts.learning
        self._live = live
        self.preparation = Preparation(parts)
        self._asking = Asking(parts, live, self.preparation)
        self._host_asking = HostAsking(parts, live.has_background)
        self._judging = Judging(parts, live)
        self._reports = CallReports(parts)

        async def cell_of(agent: str, workspaces: tuple[str, ...]) -> Cell:
            return await (await live.connected()).get(agent, workspaces)

        self.edits = EditKeeping(
            parts.record,
            parts.policies.paths,
            lambda: [workspace.path for workspace in parts.known.all()],
            cell_of,
            parts.settings.undo_mib << 20,
        )

    async def carry_out(self, request: CallRequest) -> CallResult:
        """Make a call. Raises SandboxError where Lockgate itself fails; nothing lands then."""
        call = await self.preparation.prepare(request)
        await self.preparation.open_hosts(call)
        if call.decision == request.admitted:  # it is on disk, and answered
            if call.decision.verdict is Verdict.ASK:
                call.stdin = None  # nobody was asked about any
            return await self._start(call, None)
        recorded = await self._record.deciding(call.id, call.plan, call.decision, call.env)
        if call.decision.verdict is Verdict.DENY or not is_runnable(call.plan):
            await recorded
            return self._refuse(call, Ending.DENIED, call.not_run())
        if call.decision.verdict is Verdict.ASK:
            await recorded
            async with self._failure_recorded(call):
                refused = await self._asking.ask(call)
            if refused is not None:
                return refused
            self._latch.check(call.plan.agent)
        return await self._start(call, recorded)

    async def _start(self, call: Call, recorded: asyncio.Future[None] | None) -> CallResult:
        """Give a call that may run a cell: for its time, or one of its own in the background."""
        background = call.plan.params.run_in_background
        if not background:
            self._host_asking.give(call)
        if recorded is not None and (background or call.has_outlet):
            await recorded  # P1: a gateway is open before the command runs
        for entry in call.hosts:
            await self._record.event(host_record(call, entry))
        if background:
            return await self._start_background(call)
        with self._live.listed(call):
            async with self._failure_recorded(call), self._live.lease(call) as cell:
                result, done = await self._run(call, cell, recorded)
            return await self._follow_up(call, result, done) if done is not None else result

    async def _run(
        self, call: Call, cell: Cell, recorded: asyncio.Future[None] | None = None
    ) -> tuple[CallResult, Exit | None]:
        """Run a call in a cell inside a transaction, judge it, land it, record it.

        There is no exit where it did not run after all, since what a person approved is not there
        any more. Others may have landed until it had its transaction.
        """
        async with Transaction(cell, call.id, write=call.writes) as transaction:
            if recorded is not None:
                await recorded  # P1
            self._latch.check(call.plan.agent)
            if why := await _other_scripts(call):  # P8
                return self._refuse(call, Ending.NOT_APPROVED, why), None
            self._reports.begin(call)
            done = await self._execute(call, cell)
            effects: Effects | None = None
            landed = False
            if call.writes:
                effects = await self._judging.judge(call, transaction)
                self._latch.check(call.plan.agent)
                effects, landed = await self._judging.land(call, transaction, effects)  # P2
            changed = await _touched_scripts(call) if effects is None else ""
        result = call.result(done, effects, transaction.watched, landed=landed, note=changed)
        self._record.ended(result, call.plan.agent, self._files.note(call.plan, result))
        return result, done

    async def _follow_up(self, call: Call, result: CallResult, done: Exit) -> CallResult:
        """Learn from a call that has ended, report it, keep the rest of its output.

        It is on record how it ended, and what landed has landed: what cannot be done now (the disk
        is full) is said with the answer, and is no failure of the call.
        """
        missed = []
        try:
            await self._learning.from_call(call, result, vouched=done.vouched)
        except (SandboxError, OSError) as error:
            missed.append(f"nothing was learned from it: {_say(error)}")
        try:
            result = await self._reports.send(call, result)
        except (SandboxError, OSError) as error:
            missed.append(f"it was not reported: {_say(error)}")
        try:
            await call.output.finish()
        except (SandboxError, OSError) as error:
            missed.append(f"what it wrote is not all kept: {_say(error)}")
        if missed:
            said = "; ".join(filter(None, [result.message, *missed]))
            result = result.model_copy(update={"message": said})
        return result

    async def admit(self, request: CallRequest, use: ToolUse) -> Admission:
        """Decide, and ask a person, about a call that is made later, or by the agent itself, by
        this use of a tool of its own."""
        call = await self.preparation.prepare(request)
        await self.preparation.open_hosts(call, later=True)
        await self._record.decided(call.id, call.plan, call.decision)
        refused = None
        if call.decision.verdict is Verdict.DENY:
            refused = self._refuse(call, Ending.DENIED, call.decision.message)
        elif call.decision.verdict is Verdict.ASK:
            async with self._failure_recorded(call):
                refused = await self._asking.ask(call)
        self._latch.check(call.plan.agent)
        if refused is None and call.on_host and (why := await self._judging.written_under(call)):
            refused = self._refuse(call, Ending.DENIED, why)
        if refused is None and call.on_host:
            context = self._contexts.of(call.plan)
            why = await self.edits.keep(call.id, call.plan, call.answer, context, use)  # P12
            refused = self._refuse(call, Ending.DENIED, why) if why else None
        if refused is None and call.on_host:
            if call.decision.verdict is not Verdict.ASK:  # else it is a person's word
                await self._judging.note_host_call(call)
            self._refuse(call, Ending.OUTSIDE, "")
        patience = call.approver.seconds if isinstance(call.approver, Patient) else 0.0
        return Admission(
            call.id,
            call.plan,
            call.decision,
            refused,
            call.preview,
            call.scripts,
            patience=patience,
        )

    async def _start_background(self, call: Call) -> CallResult:
        async with self._failure_recorded(call):
            pool = await self._live.connected()
            cell = await pool.background(call.plan.agent, call.workspaces, write=call.writes)

        async def run() -> CallResult:
            try:
                with self._live.listed(call, background=True):
                    async with self._failure_recorded(call):
                        result, done = await self._run(call, cell)
                    return await self._follow_up(call, result, done) if done is not None else result
            finally:
                await pool.end(cell)

        self._live.background.start(call.id, cell, call.output, run())
        return call.in_background()

    async def _execute(self, call: Call, cell: Cell) -> Exit:
        """Run a call's command; what it writes goes to the call's output."""
        seconds: float | CallClock = time_limit(call.plan, call.decision, self._settings)
        if call.questions is not None:
            seconds = call.questions.clock
        if call.plan.params.run_in_background:
            seconds = _BACKGROUND_SECONDS
        async with self._live.ports.of(call.id, call.plan.agent, cell):
            done = await cell.run(
                call.request,
                on_output=call.output.take,
                seconds=seconds,
                most_bytes=call.decision.rights.limits.output_bytes,
                stdin=call.stdin,
                room=call.output.room_wanted,
            )
        if call.network is not None:
            await call.network.end()  # its names go before anything of it lands
        if done.error:
            call.output.take(2, f"lockgate: {done.error}\n".encode())
        return done

    def _refuse(self, call: Call, ending: Ending, message: str) -> CallResult:
        """Record that a call does not run here, and return that."""
        result = call.refused(ending, message)
        self._record.ended(result)
        return result

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


async def _other_scripts(call: Call) -> str:
    """Say which approved files hold something else by now; empty where none does (P8)."""
    names = await asyncio.to_thread(other_scripts, call.scripts) if call.scripts else []
    if not names:
        return ""
    files = ", ".join(f"`{name}`" for name in names)
    return f"{files} is not what was approved any more; make the same call again, and it is asked"


async def _touched_scripts(call: Call) -> str:
    """Say which approved files were written to while a call ran that changes nothing; empty where
    none was (P8)."""
    names = await asyncio.to_thread(touched_scripts, call.scripts) if call.scripts else []
    return say_not_as_approved(names) if names else ""


def _say(error: SandboxError | OSError) -> str:
    return say_os_error(error) if isinstance(error, OSError) else str(error)
