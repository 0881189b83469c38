# SPDX-License-Identifier: Apache-2.0
"""Write the record of calls in order, off the event loop.

One thread appends, so that lines keep the order in which things happened. INVARIANT (P1): the
future that `decided` returns is done only when the decision is on disk. Whatever could not be
written is written before the next decision, or that fails: no call runs unrecorded, and once there
is room on the disk again, work goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from policy.model import ActionPlan, Decision
from sandbox.agents.told_sessions import CURRENT
from sandbox.approvals.desk import Permission
from sandbox.audit.events.calls import (
    AnsweredRecord,
    DecidedRecord,
    EndedRecord,
    NetworkRecord,
    RehearsedRecord,
    WaitingRecord,
)
from sandbox.audit.events.follow_ups import ForgottenRecord
from sandbox.audit.events.record import AuditRecord
from sandbox.audit.store import Store
from sandbox.audit.writer import Writer
from sandbox.calls.record_fields import (
    agents_texts,
    ended_record,
    given_fields,
    is_short,
    layer_fields,
    masked_record,
    recorded,
    shortened,
)
from sandbox.config.settings import Dirs
from sandbox.errors import SandboxError, Stopped
from sandbox.gates.gate2 import Effects
from sandbox.gates.masked_diff import masked_diff
from sandbox.host.off_loop import SMALL, OffLoop
from sandbox.host.process_owner import owner_label
from sandbox.network.traffic import Traffic
from sandbox.results import CallResult, Ending


class Recorder:
    """The record of one supervisor."""

    def __init__(self, dirs: Dirs, heard: Callable[[AuditRecord], None] | None = None) -> None:
        """`heard` is given what was recorded, in its order, by the thread that writes."""
        self.store = Store(dirs)
        self._heard = heard
        self.off_loop = OffLoop()
        self._writer = Writer(lambda: self.store.sync())
        self._unwritten: deque[Callable[[], Any]] = deque()
        """What is to be written yet, in its order, by the writer's thread alone; what could not be
        written is tried again."""
        self._answers: dict[str, tuple[str | None, str | None]] = {}
        """Of calls that a person approved and that have not ended: who, and by which grant."""

    async def decided(
        self,
        call: str,
        plan: ActionPlan,
        decision: Decision,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Record gate 1's answer, on disk when this returns."""
        await (await self.deciding(call, plan, decision, env))

    async def deciding(
        self,
        call: str,
        plan: ActionPlan,
        decision: Decision,
        env: Mapping[str, str] | None = None,
    ) -> asyncio.Future[None]:
        """Begin to record gate 1's answer; the future is done when it is on disk.

        A long text is masked first, so that no other decision waits for that.
        """
        params = shortened(plan)
        record = DecidedRecord(
            call=call,
            agent=plan.agent,
            role=plan.role,
            user=plan.user,
            tool=plan.tool,
            params=params,
            digest=plan.digest(),
            intent=plan.intent,
            workspace=plan.workspace,
            also=list(plan.also),
            cwd=plan.cwd,
            **given_fields(session=CURRENT.get(), env=dict(env or {})),
            verdict=decision.verdict.value,
            tier=decision.tier.value,
            rules=list(decision.rules),
            message=decision.message,
            layers=[layer_fields(layer) for layer in decision.layers],
            rights=decision.rights.model_dump(mode="json"),
            landing=decision.landing.value,
            policy=decision.policy,
            supervisor=owner_label(),
        )
        if not is_short((*params.values(), plan.intent, *(env or {}).values())):
            masked = await self.off_loop.do(plan.agent, lambda: masked_record(record))
            return self._writer.put(lambda durable: self._checked(masked, durable), durable=True)
        return self._writer.put(
            lambda durable: self._checked(masked_record(record), durable), durable=True
        )

    async def answered(self, call: str, said: Permission) -> None:
        """Record a person's answer, on disk when this returns."""
        if said.approved:
            self._answers[call] = said.by or None, said.grant
        await self.event(
            AnsweredRecord(
                call=call,
                approved=said.approved,
                approved_by=said.by or None,
                answer_reason=said.reason or None,
                grant=said.grant,
            )
        )

    def ended(
        self, result: CallResult, agent: str = "", made: Mapping[str, Sequence[int]] | None = None
    ) -> None:
        """Record how a call ended, and the files that its agent made (path -> what tells it from
        another)."""
        by = self._answers.pop(result.id, (None, None))
        files = {path: [*one] for path, one in (made or {}).items()}
        record = ended_record(result, *by, {"agent": agent, "files": files} if files else None)
        self.later(record)

    async def failed(self, call: str, error: BaseException, ms: float) -> None:
        """Record that a call was cancelled or stopped, or that Lockgate failed under it."""
        self._answers.pop(call, None)
        ended = isinstance(error, (asyncio.CancelledError, Stopped))
        ending = Ending.CANCELLED.value if ended else "failed"
        self.later(
            EndedRecord(
                call=call,
                ending=ending,
                landed=False,
                outcome=str(error) or type(error).__name__,
                ms=round(ms, 2),
            )
        )

    async def rehearsed(self, call: str, shown: Mapping[str, Any], effects: Effects | None) -> None:
        """Record that a call was rehearsed, and which effects a person is shown."""
        kept = ("ending", "exit_status", "judgement", "effects", "ms")
        await self.event(
            RehearsedRecord(
                call=call,
                rehearsal={
                    **{key: shown[key] for key in kept if key in shown},
                    "changes": recorded(effects.views) if effects else [],
                    "changes_total": effects.total if effects else 0,
                },
            )
        )

    async def network(self, call: str, traffic: Traffic) -> None:
        """Record what a call did with the network that it had."""
        await self.event(
            NetworkRecord(
                call=call,
                names=list(traffic.names),
                connections=traffic.connections,
                connections_total=traffic.count,
                sent=traffic.sent,
                received=traffic.received,
                **given_fields(
                    refused=traffic.refused,
                    lost=traffic.lost,
                    credentials=traffic.credentials,
                    unread=traffic.unread,
                ),
            )
        )

    async def waiting(self, call: str, effects: Effects, seconds: float) -> WaitingRecord:
        """Record that changes wait to land, so that a person can look at them and object."""
        record = WaitingRecord(
            call=call,
            seconds=seconds,
            changes=recorded(effects.views),
            changes_total=effects.total,
        )
        await self.event(record)
        return record

    def forgotten(self, calls: Sequence[str]) -> None:
        """Record that calls can no longer be undone: the quota of before-images is reached."""
        if calls:
            self.later(ForgottenRecord(calls=list(calls)))

    async def event(self, record: AuditRecord) -> None:
        """Record something else, on disk when this returns."""
        texts = list(agents_texts(record).values())
        short = is_short(texts)
        masked = masked_record(record) if short else await asyncio.to_thread(masked_record, record)

        def append(durable: bool) -> None:
            self._try_to_catch_up()
            self._append(masked, durable)

        await self._writer.put(append, durable=True)

    async def keep_diff(self, call: str, diff: str, *, rest: bool = False) -> None:
        """Keep a call's diff in its folder, secrets masked; `rest` is what of it is still held."""
        masked = (
            masked_diff(diff) if len(diff) <= SMALL else await asyncio.to_thread(masked_diff, diff)
        )
        self.keep_masked(call, masked, rest=rest)

    def keep_masked(self, call: str, diff: str, *, rest: bool = False) -> None:
        """Keep a call's diff, whose secrets are masked."""
        data = diff.encode("utf-8", "backslashreplace")
        if rest:
            self._outcome(lambda: self.store.keep_rest(call, data))
        elif diff:
            self._outcome(lambda: self.store.keep_output(call, "diff.patch", data))

    async def flush(self) -> None:
        """Wait until all is written."""
        await self._writer.put(lambda _durable: self._try_to_catch_up(), durable=False)

    def later(self, record: AuditRecord) -> None:
        """Record what has happened, soon; until it is recorded no decision is."""
        self._outcome(lambda: self._append(masked_record(record), False))

    def _outcome(self, work: Callable[[], Any]) -> None:
        """Write something of a call that has happened already, in its turn."""

        def write(_durable: bool) -> None:
            self._unwritten.append(work)
            self._try_to_catch_up()

        self._writer.put_unheard(write)

    def _try_to_catch_up(self) -> None:
        with contextlib.suppress(SandboxError):  # the next decision fails of it
            self._catch_up()

    def _catch_up(self) -> None:
        """Write what is to be written yet. Raises SandboxError where that cannot be."""
        while self._unwritten:
            work = self._unwritten.popleft()
            try:
                work()
            except (SandboxError, OSError) as error:
                self._unwritten.appendleft(work)
                raise SandboxError(f"an outcome could not be recorded: {error}") from error

    def _checked(self, record: AuditRecord, durable: bool) -> None:
        self._catch_up()
        self._append(record, durable)

    def _append(self, record: AuditRecord, durable: bool) -> None:
        self.store.append(record, durable=durable)
        if self._heard is not None:
            self._heard(record)
