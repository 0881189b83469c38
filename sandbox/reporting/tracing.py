# SPDX-License-Identifier: Apache-2.0
"""Spans of calls and their phases, for OpenTelemetry: made from what is recorded, when a call ends.

It needs the extra `telemetry`, and does nothing unless the settings name where spans go. They say
which call, agent, tool, verdict and outcome; no command, path, or output leaves with them. A
collector that does not answer holds no call up: spans wait in a bounded queue, and are dropped.

INVARIANT (P7, spans): the settings alone say where spans go, with what headers, and which are made:
variables of whoever started this process (`OTEL_*`, proxies) and `.netrc` say nothing.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from sandbox.audit.events.calls import (
    AnsweredRecord,
    AskedRecord,
    DecidedRecord,
    EndedRecord,
    RehearsedRecord,
    WaitingRecord,
)
from sandbox.audit.events.follow_ups import DiscardedRecord, LandedRecord, UndoneRecord
from sandbox.audit.events.record import AuditRecord
from sandbox.config.settings import TelemetrySettings
from sandbox.errors import BadInput

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

MOST_OPEN = 10_000
"""Calls of which the end is waited for; of more the oldest are forgotten."""
Attributes = Mapping[str, str | int | bool | tuple[str, ...]]
_TOOLS = frozenset(
    ("Bash", "BashOutput", "Delete", "Edit", "Glob", "Grep", "Internal", "KillBash", "KillShell",
     "LS", "MultiEdit", "NotebookEdit", "NotebookRead", "Opaque", "PowerShell", "Read", "ReadMany",
     "Task", "TodoWrite", "WebFetch", "WebSearch", "Write", "apply_patch")
)  # fmt: skip
"""Tools that spans name; another's name is a word of an agent, and `OTHER` stands for it."""
OTHER = "other"
_FOLLOW_UPS = {LandedRecord: "landed", DiscardedRecord: "discarded", UndoneRecord: "undone"}


class CallPhase:
    """A part of a call: when it began and ended, in nanoseconds since 1970."""

    def __init__(self, name: str, began: int, ended: int, **attributes: str | bool | None) -> None:
        self.name, self.began, self.ended = name, min(began, ended), ended
        self.attributes: Attributes = {
            f"lockgate.{key}": value for key, value in attributes.items() if value is not None
        }


class OpenCall:
    """What is known so far of a call that has not ended."""

    def __init__(self) -> None:
        self.attributes: dict[str, str | int | bool | tuple[str, ...]] = {}
        self.phases: list[CallPhase] = []
        self.decided = self.going = self.asked = 0


class Tracing:
    """Makes spans of what is recorded. `take` is called by one thread at a time."""

    def __init__(self, exporter: SpanExporter) -> None:
        """`exporter` is given spans by a thread of its own."""
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        self._provider = TracerProvider(
            resource=Resource.create({"service.name": "lockgate"}), shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("lockgate")
        self._open: OrderedDict[str, OpenCall] = OrderedDict()

    def take(self, record: AuditRecord) -> None:
        """Take what was just recorded; the end of a call makes its spans."""
        now, call = time.time_ns(), record.call
        if call is None:
            return
        if name := _FOLLOW_UPS.get(type(record)):
            self._make(name, now, now, {"lockgate.call": call}, ())
            return
        known = self._open.get(call)
        if isinstance(record, DecidedRecord):
            known = self._open.setdefault(call, known or OpenCall())
            if len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
            known.attributes |= _attributes(record)
            known.decided, known.going = known.decided or now, now
        if known is None:
            return
        match record:
            case AskedRecord(event="asked"):
                known.asked = now
            case AnsweredRecord():
                question = CallPhase("question", known.asked or now, now, approved=record.approved)
                known.phases.append(question)
                known.going = now
            case RehearsedRecord():
                took = int(float(record.rehearsal.get("ms") or 0) * 1_000_000)
                known.phases.append(CallPhase("rehearsal", now - took, now))
            case WaitingRecord():
                known.attributes["lockgate.objection_window"] = True
            case EndedRecord():
                self._end(self._open.pop(call), record, now)

    def _end(self, known: OpenCall, record: EndedRecord, now: int) -> None:
        began = min(now - int((record.ms or 0) * 1_000_000), known.decided)
        verdict = str(known.attributes.get("lockgate.verdict", ""))
        phases = [CallPhase("gate 1", began, known.decided, verdict=verdict), *known.phases]
        if record.ending not in ("denied", "not-approved"):
            phases.append(CallPhase("run", known.going, now))
        if record.judgement is not None:
            phases.append(
                CallPhase(
                    "gate 2", now, now, judgement=record.judgement, landed=bool(record.landed)
                )
            )
        outcome: dict[str, str | int | bool] = {
            "lockgate.ending": record.ending or "",
            "lockgate.landed": bool(record.landed),
        }
        if record.exit_status is not None:
            outcome["lockgate.exit_status"] = record.exit_status
        self._make("call", began, now, {**known.attributes, **outcome}, phases)

    def _make(
        self,
        name: str,
        began: int,
        ended: int,
        attributes: Attributes,
        phases: list[CallPhase] | tuple[()],
    ) -> None:
        from opentelemetry import trace

        span = self._tracer.start_span(
            f"lockgate {name}", context=trace.set_span_in_context(trace.INVALID_SPAN),
            start_time=began, attributes=attributes,
        )  # fmt: skip
        inside = trace.set_span_in_context(span)
        for phase in phases:
            part = self._tracer.start_span(
                phase.name, context=inside, start_time=phase.began, attributes=phase.attributes
            )
            part.end(phase.ended)
        span.end(ended)

    def close(self) -> None:
        """Hand over what waits, for some seconds; takes that long where nobody answers."""
        self._provider.shutdown()


def tracing_of(settings: TelemetrySettings) -> Tracing | None:
    """Return what makes spans as the settings say; None: they name no place. Raises BadInput."""
    if settings.endpoint is None:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        raise BadInput(
            "`telemetry.endpoint` is set, and its library is not installed; "
            "`pip install 'lockgate[telemetry]'`"
        ) from None
    import requests

    with _unsaid_by_variables():
        session = requests.Session()
        session.trust_env = False
        exporter = OTLPSpanExporter(
            endpoint=settings.endpoint,
            headers=dict(settings.headers),
            timeout=settings.seconds,
            session=session,
        )
        return Tracing(exporter)


@contextlib.contextmanager
def _unsaid_by_variables() -> Iterator[None]:
    """Take the variables of the SDK away, which its parts read as they are made."""
    away = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("OTEL_")}
    try:
        yield
    finally:
        os.environ.update(away)


def _attributes(record: DecidedRecord) -> Attributes:
    """Return what a span says of a call: names and answers, nothing that an agent wrote freely."""
    tool = record.tool and (record.tool if record.tool in _TOOLS else OTHER)
    texts = {
        "call": record.call, "agent": record.agent, "role": record.role, "tool": tool,
        "verdict": record.verdict, "tier": record.tier, "session": record.session,
    }  # fmt: skip
    named = {f"lockgate.{name}": text for name, text in texts.items() if text}
    return {**named, "lockgate.rules": tuple(record.rules or ())}
