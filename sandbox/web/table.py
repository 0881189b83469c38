# SPDX-License-Identifier: Apache-2.0
"""The table of resources: what of a supervisor and of the record can be reached, and where."""

from __future__ import annotations

from typing import Any

from sandbox.audit.call_entry import CallEntry
from sandbox.operations import requests as ops
from sandbox.operations.requests import May
from sandbox.results import (
    CallResult,
    ChangedReport,
    HeldCall,
    HeldLook,
    StopReport,
    UndoReport,
    UndoResult,
)
from sandbox.web import calls, control, people, record_views, taken
from sandbox.web.resources import Resource, of_operation

_Said = dict[str, Any]

RESOURCES: tuple[Resource, ...] = (
    # calls
    Resource("POST", "/v1/calls", "MakeCall", "Make a call; its client's end cancels it",
             calls.make_call, CallResult, as_caller=True, body=taken.CallBody,
             ends_with_client=True),
    Resource("GET", "/v1/calls", "ListCalls", "List calls and undos, newest first",
             calls.list_calls, calls.CallPage, query=taken.CallsQuery),
    Resource("GET", "/v1/calls/{call}", "ShowCall", "Show one call",
             calls.show_call, CallEntry),
    Resource("GET", "/v1/calls/{call}/output", "ShowOutput", "Show what a call wrote",
             calls.show_output, calls.WrittenOutput),
    Resource("GET", "/v1/calls/{call}/diff", "ShowDiff", "Show the diff of a call's changes",
             calls.show_diff, calls.CallDiff),
    of_operation("POST", "/v1/calls/{call}/end", ops.EndRequest, CallResult),
    of_operation("POST", "/v1/calls/{call}/undo", ops.UndoRequest, UndoResult),
    of_operation("POST", "/v1/calls/{call}/object", ops.ObjectRequest, CallResult),
    of_operation("POST", "/v1/calls/{call}/ports/open", ops.OpenPortRequest, _Said),
    of_operation("POST", "/v1/calls/{call}/ports/close", ops.ClosePortRequest, tuple[_Said, ...]),
    of_operation("POST", "/v1/undo-last", ops.UndoLastRequest, UndoReport),
    of_operation("POST", "/v1/undo-chosen", ops.UndoChosenRequest, UndoReport),
    of_operation("GET", "/v1/changed", ops.ChangedRequest, ChangedReport),
    Resource("GET", "/v1/record", "ListRecord", "List the record line by line, newest first",
             calls.list_record, calls.RecordPage, query=taken.RecordQuery),
    Resource("GET", "/v1/record/state", "CheckRecord", "Check that the record is whole",
             record_views.check_record, record_views.RecordState),
    Resource("GET", "/v1/sessions", "ListSessions", "List agents' sessions, the newest first",
             record_views.list_sessions, record_views.SessionPage, query=taken.SessionsQuery),
    Resource("GET", "/v1/findings", "ListFindings",
             "List changes of protected files that no landing made",
             record_views.list_findings, tuple[_Said, ...]),
    # gate 1 alone
    Resource("POST", "/v1/check", "Check", "Say what gate 1 answers to a call; nothing runs",
             calls.check, _Said, body=taken.Action),
    Resource("POST", "/v1/explain", "Explain", "Say how gate 1 comes to its answer; nothing runs",
             calls.explain, _Said, body=taken.Action),
    # what waits for a person
    of_operation("GET", "/v1/held", ops.HeldRequest, tuple[HeldCall, ...]),
    of_operation("POST", "/v1/held/{call}/look", ops.LookHeldRequest, HeldLook),
    of_operation("POST", "/v1/held/{call}/land", ops.LandRequest, CallResult, needs=("digest",)),
    of_operation("POST", "/v1/held/{call}/discard", ops.DiscardRequest, CallResult),
    Resource("GET", "/v1/approvals", "ListQuestions", "List the calls that wait for a person",
             people.list_questions, tuple[people.Question, ...]),
    Resource("GET", "/v1/approvals-count", "CountQuestions", "Count the questions that wait",
             people.count_questions, people.QuestionCount),
    Resource("GET", "/v1/approvals/{call}", "ShowCard", "Show all that a question is about",
             people.show_card, people.QuestionCard, may=May.PERSON, deed="seeing a whole card"),
    Resource("POST", "/v1/approvals/{call}/approve", "Approve", "Approve a call that waits",
             people.approve, people.GrantView, may=May.PERSON, deed="approving",
             body=taken.ApproveBody),
    Resource("POST", "/v1/approvals/{call}/deny", "Deny", "Refuse a call that waits",
             people.deny, people.Question, may=May.PERSON, deed="refusing",
             body=taken.ReasonBody),
    Resource("GET", "/v1/grants", "ListGrants", "List what was granted",
             people.list_grants, tuple[people.GrantView, ...], query=taken.EverythingQuery),
    Resource("POST", "/v1/grants", "Grant", "Approve a command before it is run",
             people.grant, people.GrantView, may=May.PERSON, deed="granting",
             body=taken.GrantBody),
    Resource("DELETE", "/v1/grants/{grant}", "Revoke", "Take a grant back",
             people.revoke, people.GrantView, may=May.PERSON, deed="revoking"),
    Resource("GET", "/v1/reports", "ListReports", "List what waits to be told to the user",
             people.list_reports, tuple[people.ReportView, ...], query=taken.EverythingQuery),
    Resource("POST", "/v1/reports/told", "NoteTold", "Note that reports were told to the user",
             people.note_told, may=May.PERSON, deed="counting a report as told",
             body=taken.ToldBody),
    # what runs, and by which rules
    Resource("GET", "/v1/agents", "ShowAgents", "Show agents, cells and calls that go on",
             control.show_agents, control.RunningNow),
    Resource("GET", "/v1/stops", "ListStops", "List the stops and pauses that are in force",
             control.list_stops, tuple[control.StopView, ...]),
    Resource("POST", "/v1/stop", "Stop", "Stop everything, or one agent and all below it",
             control.stop, StopReport, body=taken.StopBody),
    Resource("POST", "/v1/resume", "Resume", "Let calls run again after a stop",
             control.resume, control.Resumed, may=May.PERSON, deed="resuming",
             body=taken.ResumeBody),
    Resource("GET", "/v1/workspaces", "ListWorkspaces", "List the registered workspaces",
             control.list_workspaces, tuple[control.WorkspaceView, ...]),
    Resource("GET", "/v1/policy", "ShowPolicy", "Show the policy that counts for a workspace",
             control.show_policy, _Said, query=taken.PlaceQuery),
    Resource("GET", "/v1/events", "FollowEvents", "Follow what is added to the record",
             control.follow_events, query=taken.EventsQuery, streams=True),
)  # fmt: skip
"""Everything that is served, beside the OpenAPI document itself."""
