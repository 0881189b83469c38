# SPDX-License-Identifier: Apache-2.0
"""The flow of one call: decide, record, ask, open, run, close, judge, land, record.

Everything else is elsewhere: gates in `policy`, containers in `pool` and `cells`, the record in
`store`. Front doors construct one Supervisor and hand it plans.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from policy.engine import Policy
from policy.model import (
    Access,
    ActionPlan,
    Context,
    Decision,
    Outcome,
    Verdict,
    Workspace,
)
from policy.protected import PathPolicy
from sandbox import launch
from sandbox.cells import Cell, CellLost, Exit
from sandbox.config import Dirs, Settings, load_settings
from sandbox.effects import Effects, weigh
from sandbox.errors import BadInput, SandboxError
from sandbox.gate import Gate
from sandbox.held import Held
from sandbox.known import KnownWorkspaces
from sandbox.opinion import SecondOpinion
from sandbox.output import Output
from sandbox.policies import Policies
from sandbox.pool import CellPool
from sandbox.records import Recorder
from sandbox.results import CallResult, ChangeView, Ending, StopReport, UndoResult
from sandbox.stop import Latch
from sandbox.transactions import Transaction

OnOutput = Callable[[str, bytes], None]
Stdin = AsyncIterator[bytes] | bytes | None
TIMED_OUT_STATUS = 124
_CALL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
_REAP_SECONDS = 15.0
_OPINION_SECONDS = 1.0
"""The second reading starts after this time, or when it is first wanted: not while the first call
waits for its cell."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A person's answer to gate 1's question."""

    approved: bool
    by: str = ""
    reason: str = ""


class Approver(Protocol):
    """Somebody who can be asked."""

    async def __call__(self, call_id: str, plan: ActionPlan, decision: Decision) -> Answer: ...


async def nobody(call_id: str, plan: ActionPlan, decision: Decision) -> Answer:
    """Answer no: there is nobody to ask."""
    return Answer(approved=False, reason="nobody to ask")


async def yes(call_id: str, plan: ActionPlan, decision: Decision) -> Answer:
    """Answer yes: a person said so beforehand, about exactly this call (a replay's `approve`)."""
    return Answer(approved=True, by="replay")


@dataclass(slots=True)
class _Call:
    """One call on its way."""

    id: str
    plan: ActionPlan
    decision: Decision
    output: Output
    started: float
    stdin: AsyncIterator[bytes] | None
    request: dict[str, Any]
    """What the runner is asked to do; empty for a plan that does not run."""
    workspaces: tuple[str, ...]
    paths: PathPolicy

    @property
    def writes(self) -> bool:
        return self.decision.rights.workspace is Access.WRITE

    @property
    def ms(self) -> float:
        return (time.perf_counter() - self.started) * 1000


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
        self._record = Recorder(self._dirs)
        self._opinion = SecondOpinion()
        self._gate = Gate(self._policies, self._opinion)
        self._pool: CellPool | None = None
        self._connecting = asyncio.Lock()
        self._running: dict[str, dict[str, Any]] = {}
        self._background: dict[str, asyncio.Task[CallResult]] = {}
        self._background_cells: dict[str, Cell] = {}
        self._reaper: asyncio.Task[None] | None = None
        self._later: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Supervisor:
        self._reaper = asyncio.create_task(self._reap())
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
        if self._later is not None:
            self._later.cancel()
        self._opinion.close()
        for task in self._background.values():
            task.cancel()
        await asyncio.gather(*self._background.values(), return_exceptions=True)
        if self._pool is not None:
            await self._pool.end_all()
        await self._record.flush()

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
        self._latch.check()
        call = await self._prepare(plan, stdin, env, on_output, call_id)
        decided = self._record.decided(call.id, plan, call.decision)  # P1: awaited before it runs
        if call.decision.verdict is Verdict.DENY or not launch.runnable(plan.tool):
            await decided
            return await self._refuse(call, Ending.DENIED, _not_run(call))
        if call.decision.verdict is Verdict.ASK:
            await decided
            answer = await self._answer(approver, call)
            await self._record.answered(call.id, answer.approved, answer.by, answer.reason)
            if not answer.approved:
                return await self._refuse(
                    call, Ending.NOT_APPROVED, f"{call.decision.message} ({answer.reason or 'no'})"
                )
            self._latch.check()
        if plan.params.run_in_background:
            await decided
            return await self._start_background(call)
        with self._listed(call):
            async with self._failure_recorded(call):
                pool = await self._connected()
                cell = await pool.get(plan.agent, call.workspaces)
                return await self._run(call, cell, decided)

    async def _run(
        self, call: _Call, cell: Cell, decided: asyncio.Future[None] | None = None
    ) -> CallResult:
        """Run a call in a cell inside a transaction, judge it, land it, record it."""
        async with Transaction(cell, call.id, write=call.writes) as transaction:
            if decided is not None:
                await decided
            self._latch.check()
            done = await self._execute(call, cell)
            effects = None
            landed = False
            if call.writes:
                raw, diff = await transaction.close()
                effects = weigh(call.decision, raw, call.workspaces, call.paths)
                effects, landed = await self._settle(transaction, effects)
                self._record.keep_diff(call.id, diff)
        result = self._result(call, done, effects, landed=landed)
        self._record.ended(result)
        call.output.finish()
        return result

    @contextlib.asynccontextmanager
    async def _failure_recorded(self, call: _Call) -> AsyncIterator[None]:
        """Record that a call was cancelled, or that Lockgate failed under it."""
        try:
            yield
        except BaseException as error:
            await self._record.failed(call.id, error, call.ms)
            raise

    async def _settle(self, transaction: Transaction, effects: Effects) -> tuple[Effects, bool]:
        """Land, hold or (by leaving it) throw away. Returns the effects as they turned out."""
        self._latch.check()
        match effects.judgement.outcome:
            case Outcome.LAND:
                if transaction.empty:
                    return effects, False
                try:
                    conflicts = await transaction.land()
                except CellLost:
                    raise
                except SandboxError as error:  # nothing was changed (a full disk, say)
                    effects = effects.kept(str(error))
                else:
                    if not conflicts:
                        return effects, effects.total > 0
                    effects = effects.conflicted(conflicts)
                await transaction.hold()
            case Outcome.HOLD:
                await transaction.hold()
            case Outcome.DISCARD:
                pass
        return effects, False

    async def _execute(self, call: _Call, cell: Cell) -> Exit:
        limits = call.decision.rights.limits
        timeout = call.plan.params.timeout
        wanted = timeout / 1000 if timeout else self._settings.call_seconds
        seconds = min(limits.seconds, wanted)
        if call.plan.params.run_in_background:
            seconds = 30 * 86_400
        done = await cell.run(
            call.request,
            on_output=call.output.take,
            seconds=seconds,
            most_bytes=limits.output_bytes,
            stdin=call.stdin,
        )
        if done.error:
            call.output.take(2, f"lockgate: {done.error}\n".encode())
        return done

    async def _answer(self, approver: Approver, call: _Call) -> Answer:
        """Ask a person; a question that waits too long is a no."""
        seconds = self._settings.approval_seconds
        try:
            async with asyncio.timeout(seconds):
                return await approver(call.id, call.plan, call.decision)
        except TimeoutError:
            return Answer(approved=False, reason=f"nobody answered within {seconds:.0f} s")

    # -- parts of the flow

    async def _prepare(
        self,
        plan: ActionPlan,
        stdin: Stdin,
        env: Mapping[str, str] | None,
        on_output: OnOutput | None,
        call_id: str | None,
    ) -> _Call:
        workspaces = self._workspaces(plan)
        context = Context(self._known.all(), home=self._known.home)
        answer = await self._gate.decide(plan, context, workspaces)
        decision = answer.decision
        limits = decision.rights.limits.meet(self._settings.limits)
        decision = decision.model_copy(
            update={"rights": decision.rights.model_copy(update={"limits": limits})}
        )
        name = call_id or new_id()
        request: dict[str, Any] = {}
        if launch.runnable(plan.tool) and decision.verdict is not Verdict.DENY:  # or says bad input
            writes = decision.rights.workspace is Access.WRITE
            request = launch.request(plan, call=name, exclusive=writes, env=env)
        if not _CALL.fullmatch(name):
            raise BadInput("a call's id is 1 to 64 letters, digits, `-` and `_`")
        output = Output(self._record.store, name, limits.answer_bytes, on_output)
        return _Call(
            name,
            plan,
            decision,
            output,
            time.perf_counter(),
            _pieces(stdin),
            request,
            workspaces,
            answer.paths,
        )

    def _workspaces(self, plan: ActionPlan) -> tuple[str, ...]:
        wanted = tuple(dict.fromkeys((plan.workspace, *plan.also)))
        for path in wanted:
            self._known.check(path)
        return wanted

    async def _refuse(self, call: _Call, ending: Ending, message: str) -> CallResult:
        result = CallResult(
            id=call.id,
            tool=call.plan.tool,
            verdict=call.decision.verdict,
            tier=call.decision.tier,
            rules=call.decision.rules,
            message=message,
            ending=ending,
            ms=call.ms,
        )
        self._record.ended(result)
        return result

    def _result(
        self, call: _Call, done: Exit, effects: Effects | None, *, landed: bool
    ) -> CallResult:
        ending = Ending(done.ended) if done.ended else Ending.RAN
        notes = []
        if ending is Ending.TIMED_OUT:
            notes.append("the time limit ended it")
        if ending is Ending.FLOODED:
            limit = call.decision.rights.limits.output_bytes
            notes.append(f"it wrote more than {limit} bytes and was ended")
        if done.oom:
            notes.append("a process was ended for want of memory")
        if effects is not None and effects.judgement.message:
            notes.append(effects.judgement.message)
        if effects is not None and effects.judgement.outcome is Outcome.HOLD:
            notes.append(f"see `lockgate show {call.id}`")
        return CallResult(
            id=call.id,
            tool=call.plan.tool,
            verdict=call.decision.verdict,
            tier=call.decision.tier,
            rules=call.decision.rules,
            message="; ".join(notes),
            ending=ending,
            judgement=effects.judgement.outcome.value if effects else None,
            landed=landed,
            changes=effects.views if effects else (),
            exit_status=TIMED_OUT_STATUS if ending is Ending.TIMED_OUT else done.status,
            stdout=call.output.text(1),
            stderr=call.output.text(2),
            stdout_file=call.output.file(1),
            stderr_file=call.output.file(2),
            ms=call.ms,
        )

    # -- background calls

    async def _start_background(self, call: _Call) -> CallResult:
        async with self._failure_recorded(call):
            pool = await self._connected()
            cell = await pool.beside(await pool.get(call.plan.agent, call.workspaces))

        async def run() -> CallResult:
            try:
                with self._listed(call, background=True):
                    async with self._failure_recorded(call):
                        return await self._run(call, cell)
            finally:
                await pool.end(cell)

        self._background[call.id] = asyncio.create_task(run())
        self._background_cells[call.id] = cell
        return CallResult(
            id=call.id,
            tool=call.plan.tool,
            verdict=call.decision.verdict,
            tier=call.decision.tier,
            rules=call.decision.rules,
            message=f"it runs in the background; `lockgate end {call.id}` ends it",
            ending=Ending.RUNNING,
            ms=call.ms,
        )

    async def end(self, call_id: str) -> CallResult:
        """End a background call; its changes are judged and land as any call's."""
        task = self._background.get(call_id)
        if task is None:
            raise BadInput(f"no background call `{call_id}`; `lockgate ps` lists them")
        self._background_cells[call_id].end_running()
        try:
            return await asyncio.shield(task)
        finally:
            del self._background[call_id], self._background_cells[call_id]

    # -- afterwards

    async def undo(self, call_id: str) -> UndoResult:
        """Undo a landed call. Raises BadInput with the paths where a later change would be lost."""
        self._latch.check()
        return await (await self._held()).undo(call_id, new_id())

    async def land(self, call_id: str) -> CallResult:
        """Land a held transaction: a person's word."""
        self._latch.check()
        return await (await self._held()).land(call_id)

    async def discard(self, call_id: str) -> CallResult:
        """Throw a held transaction away."""
        return await (await self._held()).discard(call_id)

    async def _held(self) -> Held:
        await self._record.flush()  # a call that has just ended must be found
        return Held(self._record, await self._connected(), self._workspaces)

    async def stop(self, reason: str) -> StopReport:
        """Set the latch and kill every cell of this state folder."""
        from sandbox.stop import stop_all

        self._latch.set(reason)
        engine = None
        with contextlib.suppress(SandboxError):
            engine = (await self._connected()).engine
        report = await asyncio.to_thread(stop_all, self._dirs, engine, reason)
        if self._pool is not None:
            await self._pool.end_all()
        return report

    # -- state

    async def warm(self, workspace: str, agent: str = "main") -> None:
        """Start the cell of a workspace ahead of the first call."""
        self._latch.check()
        plan = ActionPlan(tool="Bash", workspace=workspace, agent=agent)
        await (await self._connected()).get(agent, self._workspaces(plan))

    def running(self) -> list[dict[str, Any]]:
        """Return the calls that run now."""
        return list(self._running.values())

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
    def _listed(self, call: _Call, *, background: bool = False) -> Any:
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
            yield
        finally:
            self._running.pop(call.id, None)

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
        return self._pool

    async def _reap(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_REAP_SECONDS)
            if self._pool is not None:
                await self._pool.end_idle(now=loop.time())


def new_id() -> str:
    """Return a new call id: short enough to type."""
    return "c" + secrets.token_hex(5)


def _not_run(call: _Call) -> str:
    if call.decision.verdict is Verdict.DENY:
        return call.decision.message
    return f"{call.decision.message}; `{call.plan.tool}` is judged here, but not run by Lockgate"


async def _one(data: bytes) -> AsyncIterator[bytes]:
    yield data


def _pieces(stdin: Stdin) -> AsyncIterator[bytes] | None:
    return _one(stdin) if isinstance(stdin, bytes) else stdin


__all__ = ["Answer", "Approver", "ChangeView", "Supervisor", "new_id", "nobody", "yes"]
