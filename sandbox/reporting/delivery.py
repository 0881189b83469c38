# SPDX-License-Identifier: Apache-2.0
"""Telling people: reports in the answer, in batches or over a channel; questions over a channel."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol

from policy.autonomy.levels import Levels
from policy.autonomy.levels_schema import UserLevels
from policy.model import ActionPlan
from policy.people.reports import YellowReport
from sandbox.audit.events.calls import AskedRecord
from sandbox.audit.events.people import UndeliveredRecord
from sandbox.audit.events.record import AuditRecord
from sandbox.config.channels import Channel
from sandbox.config.settings import Settings
from sandbox.errors import SandboxError
from sandbox.host.off_loop import OffLoop
from sandbox.reporting.bursts import Burst
from sandbox.reporting.channels import deliver
from sandbox.reporting.yellow_reports import Noted, Reports, is_quiet, report_of
from sandbox.results import CallResult
from sandbox.text.redaction import mask_all

BATCH_SECONDS = 60.0
"""How often reports that wait are sent to channels."""
NOTE_SECONDS = 0.5
"""How long reports come together before they are noted."""
SHOWN: ContextVar[bool] = ContextVar("shown", default=False)
"""Whether the door of the call at work shows its report in the answer; a door sets it."""
Now = Callable[[], datetime]


def _now() -> datetime:
    return datetime.now(UTC)


class Record(Protocol):
    """Where it is recorded what could not be delivered."""

    off_loop: OffLoop

    async def event(self, record: AuditRecord) -> None:
        """Record an event."""


def masked_question(question: AskedRecord) -> AskedRecord:
    """Return a question without the secrets that stand in it, since it may leave this host."""
    return AskedRecord.model_validate(mask_all(question.as_json()))


class People:
    """Everybody whom one supervisor tells something."""

    def __init__(
        self, reports: Reports, record: Record, settings: Settings, *, now: Now = _now
    ) -> None:
        self._reports = reports
        self._record = record
        self._channels = settings.channels
        self._zone = settings.time_zone
        self._now = now
        self._levels: Levels = Levels.default()
        self._tasks: set[asyncio.Task[None]] = set()
        self._notes: list[tuple[str, str, YellowReport, str | None]] = []
        self._noting: asyncio.Future[None] | None = None
        self._questions: dict[str, Burst[dict[str, Any]]] = {}
        """What is asked, by the name of the channel."""

    async def told(
        self,
        plan: ActionPlan,
        result: CallResult,
        title: str,
        levels: Levels,
        *,
        shown: bool = False,
        commits: int | None = None,
    ) -> CallResult:
        """Note a call's report; return the result with it, unless its user is to have quiet.

        It counts as told where the door shows it (`shown`); else it waits.
        """
        self._levels = levels
        now = self._now()
        report = await self._record.off_loop.read(
            plan, partial(report_of, plan, result, title, now, commits)
        )
        if report is None:
            return result
        quiet = is_quiet(levels.user(plan.user).quiet_hours, self._zone, now)
        waits = quiet or not shown or self._channel(levels.user(plan.user)) is not None
        how = None if waits else "inline"
        self._notes.append((result.id, plan.user, report, how))
        if self._noting is None or self._noting.done():
            self._noting = asyncio.ensure_future(self._note_soon())
        return result if quiet else result.model_copy(update={"report": report})

    async def asked(self, question: AskedRecord, user: str, levels: Levels) -> None:
        """Say that a call waits for a person, on the user's channel; quiet hours do not hold a
        question back, since a call waits for it."""
        record = await asyncio.to_thread(masked_question, question)
        await self._record.event(record)
        name = levels.user(user).escalation_channel or ""
        if (channel := self._channels.get(name)) is not None:
            burst = self._questions.setdefault(name, Burst(partial(self._send_questions, channel)))
            burst.add(record.as_json())

    async def _send_questions(self, channel: Channel, some: Sequence[dict[str, Any]]) -> None:
        """Send one question as it is, several in a row as one message with their count."""
        several = {"event": "several-asked", "count": len(some), "questions": list(some)}
        await self._send(channel, some[0] if len(some) == 1 else several)

    def tell(self, event: AuditRecord, user: str, levels: Levels) -> None:
        """Send what happened over the user's channel at once, if there is one; wait for nothing."""
        channel = self._channel(levels.user(user))
        if channel is not None:
            self._later(self._send(channel, dict(mask_all(event.as_json()))))

    async def batch(self) -> None:
        """Send what waits to the channels of those who have no quiet hours now."""
        users: dict[str, list[Noted]] = {}
        for report in await asyncio.to_thread(self._reports.waiting):
            users.setdefault(report.user, []).append(report)
        for user, noted in users.items():
            user_levels = self._levels.user(user)
            channel = self._channel(user_levels)
            if channel is None or is_quiet(user_levels.quiet_hours, self._zone, self._now()):
                continue
            reports = [report.report.model_dump(mode="json") for report in noted]
            if await self._send(channel, {"event": "reports", "reports": reports}):
                calls = [report.call for report in noted]
                await asyncio.to_thread(self._reports.delivered, calls, "channel")

    async def go_on(self) -> None:
        """Send batches until cancelled."""
        while True:
            await asyncio.sleep(BATCH_SECONDS)
            with contextlib.suppress(SandboxError):
                await self.batch()

    async def close(self) -> None:
        """Wait for what is being noted and sent."""
        if self._noting is not None:
            self._noting.cancel()
        await self._note()
        for burst in self._questions.values():
            await burst.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _channel(self, user_levels: UserLevels) -> Channel | None:
        return self._channels.get(user_levels.escalation_channel or "")

    async def _note_soon(self) -> None:
        """Note what has come together: one write for many calls, and none in a call's way."""
        await asyncio.sleep(NOTE_SECONDS)
        await self._note()

    async def _note(self) -> None:
        notes, self._notes = self._notes, []
        if not notes:
            return
        try:
            await asyncio.to_thread(self._reports.note, notes)
        except SandboxError as error:
            await self._record.event(UndeliveredRecord(because=str(error)))

    async def _send(self, channel: Channel, message: dict[str, Any]) -> bool:
        problem = await deliver(channel, message)
        if problem is not None:
            await self._record.event(UndeliveredRecord(what=message["event"], because=problem))
        return problem is None

    def _later(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
