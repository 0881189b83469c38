# SPDX-License-Identifier: Apache-2.0
"""Write the record of calls in order, off the event loop.

One thread appends, so that lines keep the order in which things happened. INVARIANT (P1): the
future that `decided` returns is done only when the decision is on disk. Whatever could not be
written makes the next decision fail: no call runs unrecorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from policy.model import ActionPlan, Decision, LayerAnswer
from sandbox.agents.told_sessions import CURRENT
from sandbox.approvals.desk import Permission
from sandbox.audit.events import (
    AnsweredRecord,
    AuditRecord,
    DecidedRecord,
    EndedRecord,
    ForgottenRecord,
    NetworkRecord,
    OutcomeRecord,
    RehearsedRecord,
    WaitingRecord,
)
from sandbox.audit.store import Store
from sandbox.audit.writer import Writer
from sandbox.config.settings import Dirs
from sandbox.errors import SandboxError, Stopped
from sandbox.gates.gate2 import Effects
from sandbox.gates.masked_diff import masked_diff
from sandbox.host.off_loop import SMALL, OffLoop
from sandbox.host.process_owner import owner_label
from sandbox.network.gateway import Traffic
from sandbox.results import CallResult, ChangeView, Ending, WatchEvent
from sandbox.text.redaction import mask_all

MOST_CHANGES = 200
"""Changed paths in one line of the log, unless more are protected."""
MOST_LOOKED_AT = 20_000
"""Newest records that are looked through for what agents made."""
MOST_VALUES = 64
"""Parameters and variables of a usual call."""
MOST_TEXT = 20_000
"""Characters of one parameter in the log (contents of files); commands are kept whole."""


class Recorder:
    """The record of one supervisor."""

    def __init__(self, dirs: Dirs) -> None:
        self.store = Store(dirs)
        self.off_loop = OffLoop()
        self._writer = Writer(lambda: self.store.sync())
        self._broken: SandboxError | None = None
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
        params = _shortened(plan)
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
            **_given(session=CURRENT.get(), env=dict(env or {})),
            verdict=decision.verdict.value,
            tier=decision.tier.value,
            rules=list(decision.rules),
            message=decision.message,
            layers=[_layer(layer) for layer in decision.layers],
            rights=decision.rights.model_dump(mode="json"),
            landing=decision.landing.value,
            policy=decision.policy,
            supervisor=owner_label(),
        )
        if not _is_short((*params.values(), plan.intent, *(env or {}).values())):
            masked = await self.off_loop.do(plan.agent, lambda: _masked(record))
            return self._writer.put(lambda durable: self._checked(masked, durable), durable=True)
        return self._writer.put(
            lambda durable: self._checked(_masked(record), durable), durable=True
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
        record = _ended(result, *by, {"agent": agent, "files": files} if files else None)
        self._soon(lambda: self._guarded(lambda: self._append(_masked(record), False)))

    def made(self) -> Iterator[Mapping[str, Any]]:
        """Give what calls noted of the files that their agents made, the newest first."""
        for record in islice(self.store.records(), MOST_LOOKED_AT):
            if isinstance(record, (EndedRecord, OutcomeRecord)) and record.made:
                yield {"made": record.made}

    async def failed(self, call: str, error: BaseException, ms: float) -> None:
        """Record that a call was cancelled or stopped, or that Lockgate failed under it."""
        self._answers.pop(call, None)
        ended = isinstance(error, (asyncio.CancelledError, Stopped))
        ending = Ending.CANCELLED.value if ended else "failed"
        self._later(
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
                **_given(refused=traffic.refused, lost=traffic.lost),
            )
        )

    async def waiting(self, call: str, effects: Effects, seconds: float) -> None:
        """Record that changes wait to land, so that a person can look at them and object."""
        await self.event(
            WaitingRecord(
                call=call,
                seconds=seconds,
                changes=recorded(effects.views),
                changes_total=effects.total,
            )
        )

    def forgotten(self, calls: Sequence[str]) -> None:
        """Record that calls can no longer be undone: the quota of before-images is reached."""
        if calls:
            self._later(ForgottenRecord(calls=list(calls)))

    async def event(self, record: AuditRecord) -> None:
        """Record something else, on disk when this returns."""
        texts = list(_texts(record).values())
        short = _is_short(texts)
        masked = _masked(record) if short else await asyncio.to_thread(_masked, record)
        await self._writer.put(lambda durable: self._append(masked, durable), durable=True)

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
            self._soon(lambda: self._guarded(lambda: self.store.keep_rest(call, data)))
        elif diff:
            write = lambda: self.store.keep_output(call, "diff.patch", data)  # noqa: E731
            self._soon(lambda: self._guarded(write))

    async def flush(self) -> None:
        """Wait until all is written."""
        await self._soon(lambda: None)

    def _soon(self, work: Callable[[], Any]) -> asyncio.Future[None]:
        return self._writer.put(lambda _durable: work(), durable=False)

    def _later(self, record: AuditRecord) -> None:
        self._soon(lambda: self._guarded(lambda: self._append(_masked(record), False)))

    def _guarded(self, work: Callable[[], Any]) -> None:
        try:
            work()
        except (SandboxError, OSError) as error:
            self._broken = SandboxError(f"an outcome could not be recorded: {error}")

    def _checked(self, record: AuditRecord, durable: bool) -> None:
        if self._broken is not None:
            raise self._broken
        self._append(record, durable)

    def _append(self, record: AuditRecord, durable: bool) -> None:
        self.store.append(record, durable=durable)


_TEXTS = (
    *("params", "env", "intent", "message", "outcome", "layers", "because", "answer_reason"),
    *("action", "details", "escalation", "rehearsal", "refused"),
)
"""Fields of a record that may hold text of an agent."""


def _is_short(values: Sequence[Any]) -> bool:
    """Whether it takes no time to look through what a call is given."""
    texts = [one for one in values[:MOST_VALUES] if isinstance(one, str)]
    plain = all(one is None or isinstance(one, str | int | float) for one in values[:MOST_VALUES])
    return plain and len(values) <= MOST_VALUES and sum(map(len, texts)) <= SMALL


def _texts(record: AuditRecord) -> dict[str, Any]:
    """Return the fields of a record that may hold text of an agent, and were given."""
    return {key: one for key, one in record.as_json().items() if key in _TEXTS}


def _masked(record: AuditRecord) -> AuditRecord:
    """Return a record without the secrets that stand in its texts."""
    return record.model_copy(update={key: mask_all(one) for key, one in _texts(record).items()})


def recorded(views: Sequence[ChangeView]) -> list[dict[str, Any]]:
    """Return changes as they stand in the log: every protected one, others up to a limit.

    INVARIANT (P3, recorded): what the guard and `verify` look at is never cut off.
    """
    first = [view for view in views if view.protected]
    others = [view for view in views if not view.protected]
    return [_plain(view) for view in first + others[: max(0, MOST_CHANGES - len(first))]]


def _ended(
    result: CallResult, by: str | None, grant: str | None, made: Mapping[str, Any] | None
) -> EndedRecord:
    """Return the record of how a call ended; it grows with what was changed."""
    return EndedRecord(
        call=result.id,
        ending=result.ending.value,
        judgement=result.judgement,
        landed=result.landed,
        exit_status=result.exit_status,
        **_landed_by(result, by, grant),
        changes=recorded(result.changes),
        changes_total=max(result.changes_total, len(result.changes)),
        size=result.changes_size,
        **_given(events=[_plain(event) for event in result.events], made=made),
        outcome=result.message,
        ms=round(result.ms, 2),
    )


def _layer(layer: LayerAnswer) -> dict[str, Any]:
    """Return a layer's answer as it is recorded."""
    return layer.model_dump(mode="json", exclude=None if layer.program else {"program"})


def _given(**fields: Any) -> dict[str, Any]:
    """Return the fields that hold something; the others are left out of a record."""
    return {key: one for key, one in fields.items() if one}


def _landed_by(result: CallResult, by: str | None, grant: str | None) -> dict[str, Any]:
    """Say of a call that landed at once by whose word it did."""
    if not result.landed:
        return {}
    return {"landed_by": {"call": result.id, "person": by, "grant": grant}}


def _plain(view: ChangeView | WatchEvent) -> dict[str, Any]:
    return view.model_dump(mode="json", exclude_none=True)


def _shortened(plan: ActionPlan) -> dict[str, Any]:
    params = plan.params.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return {
        key: value[:MOST_TEXT] + f"[cut, {len(value)} characters]"
        if key != "command" and isinstance(value, str) and len(value) > MOST_TEXT
        else value
        for key, value in params.items()
    }
