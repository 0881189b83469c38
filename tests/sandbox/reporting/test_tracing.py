# SPDX-License-Identifier: Apache-2.0
"""Spans of calls: what they say and what not, where they go, and that none is made unasked."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from sandbox.audit.events.reading import record_of
from sandbox.calls.flow.parts import Parts
from sandbox.config.settings import Settings, TelemetrySettings
from sandbox.errors import BadInput
from sandbox.gates.policy_files import BuiltIn
from sandbox.host.dirs import Dirs
from sandbox.reporting.tracing import OTHER, Tracing, tracing_of

SECRET = "a-word-of-the-command"
DECIDED = {
    "event": "decided", "call": "c1", "agent": "coder", "tool": "Bash", "verdict": "ask",
    "tier": "DANGER", "rules": ["delete"], "session": "s1", "workspace": f"/{SECRET}",
    "params": {"command": f"rm {SECRET}"}, "message": SECRET,
}  # fmt: skip


def spans_of(*records: dict[str, Any]) -> dict[str, ReadableSpan]:
    """Return the spans that records make, by their names."""
    exporter = InMemorySpanExporter()
    tracing = Tracing(exporter)
    for record in records:
        tracing.take(record_of(record))
    tracing.close()
    return {span.name: span for span in exporter.get_finished_spans()}


def test_a_call_is_one_trace_of_its_phases() -> None:
    spans = spans_of(
        DECIDED,
        {"event": "asked", "call": "c1"},
        {"event": "rehearsed", "call": "c1", "rehearsal": {"ms": 30.0}},
        {"event": "answered", "call": "c1", "approved": True, "approved_by": SECRET},
        {"event": "ended", "call": "c1", "ending": "ran", "judgement": "land", "landed": True,
         "exit_status": 3, "ms": 250.0, "outcome": SECRET, "changes": [{"path": SECRET}]},
    )  # fmt: skip
    assert set(spans) == {"lockgate call", "gate 1", "question", "rehearsal", "run", "gate 2"}
    call = spans["lockgate call"]
    assert call.attributes == {
        "lockgate.call": "c1", "lockgate.agent": "coder", "lockgate.tool": "Bash",
        "lockgate.verdict": "ask", "lockgate.tier": "DANGER", "lockgate.rules": ("delete",),
        "lockgate.session": "s1", "lockgate.ending": "ran", "lockgate.landed": True,
        "lockgate.exit_status": 3,
    }  # fmt: skip
    assert call.parent is None
    for name in set(spans) - {"lockgate call"}:
        parent = spans[name].parent
        assert parent is not None
        assert parent.span_id == call.context.span_id
    assert _ms(call) == pytest.approx(250, abs=1)
    assert _ms(spans["rehearsal"]) == pytest.approx(30, abs=1)
    assert (spans["question"].attributes or {})["lockgate.approved"] is True
    assert spans["run"].start_time == spans["question"].end_time
    assert all(SECRET not in span.to_json() for span in spans.values())


def _ms(span: ReadableSpan) -> float:
    assert span.start_time is not None
    assert span.end_time is not None
    return (span.end_time - span.start_time) / 1_000_000


def test_what_did_not_run_has_no_such_phase() -> None:
    denied = spans_of({**DECIDED, "verdict": "deny"}, {"event": "ended", "call": "c1",
                      "ending": "denied"})  # fmt: skip
    assert set(denied) == {"lockgate call", "gate 1"}
    assert spans_of(DECIDED) == {}  # it goes on
    assert (
        spans_of({"event": "ended", "call": "c9", "ending": "ran"}) == {}
    )  # not seen from its start
    assert set(spans_of({"event": "undone", "call": "u1", "undone": "c1"})) == {"lockgate undone"}


def tool_of(tool: str) -> object:
    spans = spans_of({**DECIDED, "tool": tool}, {"event": "ended", "call": "c1", "ending": "ran"})
    return (spans["lockgate call"].attributes or {})["lockgate.tool"]


def test_a_tool_is_named_where_it_is_known_and_no_word_of_an_agent() -> None:
    tools = BuiltIn().of(()).policy.tools
    known = {name for _, names in tools for name in names if "*" not in name}
    assert len(known) > 20
    assert {tool_of(name) for name in known} == known
    assert tool_of(SECRET) == OTHER
    assert tool_of(f"mcp__{SECRET}__Bash") == OTHER


Collected = tuple[str, "queue.SimpleQueue[tuple[dict[str, str], bytes]]"]


@pytest.fixture
def collector() -> Iterator[Collected]:
    """Run a collector on loopback; give its address, and the headers and data it is sent."""
    with collecting() as one:
        yield one


@contextlib.contextmanager
def collecting() -> Iterator[Collected]:
    sent: queue.SimpleQueue[tuple[dict[str, str], bytes]] = queue.SimpleQueue()

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["content-length"]))
            sent.put(({name.lower(): value for name, value in self.headers.items()}, data))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1/traces", sent
        server.shutdown()
        thread.join()


def test_what_is_recorded_reaches_the_collector_that_the_settings_name(
    tmp_path: Path, collector: Collected
) -> None:
    settings = Settings(telemetry=TelemetrySettings(endpoint=collector[0], headers={"X-Key": "k"}))
    parts = Parts(Dirs.under(tmp_path), policy=None, workspaces=[], settings=settings)
    assert parts.tracing is not None

    async def work() -> None:
        await parts.record.event(record_of(DECIDED))
        await parts.record.event(record_of({"event": "ended", "call": "c1", "ending": "ran"}))

    asyncio.run(work())
    parts.tracing.close()
    headers, data = collector[1].get(timeout=30)
    names = [span.name for span in _sent(data).scope_spans[0].spans]
    assert sorted(names) == ["gate 1", "lockgate call", "run"]
    assert headers["x-key"] == "k"
    assert SECRET.encode() not in data


def _sent(data: bytes) -> ResourceSpans:
    sent: ResourceSpans
    [sent] = ExportTraceServiceRequest.FromString(data).resource_spans
    return sent


def _spans_to(endpoint: str, made: Callable[[], SpanExporter] | None = None) -> None:
    """Make a call's spans; `made` makes another exporter, the control."""
    tracing = tracing_of(TelemetrySettings(endpoint=endpoint)) if made is None else Tracing(made())
    assert tracing is not None
    for record in (DECIDED, {"event": "ended", "call": "c1", "ending": "ran"}):
        tracing.take(record_of(record))
    tracing.close()


def test_variables_change_neither_where_spans_go_nor_what_they_say(
    tmp_path: Path, collector: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever's call starts the supervisor would decide for all agents."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login a password b\n")
    with collecting() as (address, elsewhere):
        said = {
            "HTTP_PROXY": address, "http_proxy": address, "NETRC": str(netrc),
            "OTEL_RESOURCE_ATTRIBUTES": f"said={SECRET}", "OTEL_SERVICE_NAME": SECRET,
            "OTEL_EXPORTER_OTLP_HEADERS": f"x-said={SECRET}",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "1",
        }  # fmt: skip
        for name, value in said.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        _spans_to(collector[0], lambda: OTLPSpanExporter(endpoint=collector[0]))  # the control
        headers, data = elsewhere.get(timeout=30)
        assert (headers["x-said"], headers["content-encoding"]) == (SECRET, "gzip")
        assert headers["authorization"]
        assert collector[1].empty()
        for off in ({"OTEL_TRACES_SAMPLER": "always_off"}, {"OTEL_SDK_DISABLED": "true"}):
            for name, value in off.items():
                monkeypatch.setenv(name, value)
            _spans_to(collector[0], lambda: OTLPSpanExporter(endpoint=collector[0]))
            assert collector[1].empty()
            assert elsewhere.empty()
        _spans_to(collector[0])
        headers, data = collector[1].get(timeout=30)
        assert elsewhere.empty()
    assert not {"x-said", "content-encoding", "authorization"} & set(headers)
    assert SECRET.encode() not in data
    call = next(one for one in _sent(data).scope_spans[0].spans if one.name == "lockgate call")
    assert len(call.attributes) > 5
    assert os.environ["OTEL_SERVICE_NAME"] == SECRET  # what else this process does may want it


def test_nothing_is_made_unless_the_settings_name_a_place(tmp_path: Path) -> None:
    assert tracing_of(TelemetrySettings()) is None
    parts = Parts(Dirs.under(tmp_path), policy=None, workspaces=[], settings=Settings())
    assert parts.tracing is None


def test_without_its_library_a_named_place_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(BadInput, match=r"pip install 'lockgate\[telemetry\]'"):
        tracing_of(TelemetrySettings(endpoint="http://127.0.0.1:1/v1/traces"))
    assert tracing_of(TelemetrySettings()) is None
