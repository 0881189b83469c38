# SPDX-License-Identifier: Apache-2.0
"""What the MCP tools answer: structured, and as text that a model reads. Pure."""

from __future__ import annotations

from typing import Any

from mcp_types import CallToolResult, TextContent
from pydantic import BaseModel, ConfigDict

from sandbox.results import CallResult, Ending

_CHANGES = 50
_FAILED = (Ending.DENIED, Ending.NOT_APPROVED, Ending.CANCELLED)


class Changed(BaseModel):
    """One path that a call changed."""

    path: str
    kind: str
    outcome: str | None = None
    reason: str | None = None


class ToolAnswer(BaseModel):
    """The structured answer of a tool that ran, or was refused."""

    model_config = ConfigDict(extra="forbid")

    call: str
    """Id of the call in Lockgate's record."""
    verdict: str
    """allow, report, ask, deny."""
    ending: str
    exit_status: int | None = None
    stdout: str = ""
    stderr: str = ""
    judgement: str | None = None
    """land, hold or discard; None where nothing could be written."""
    landed: bool = False
    changes: list[Changed] = []
    message: str = ""
    undo_command: str | None = None
    report: dict[str, Any] | None = None
    escalation: dict[str, Any] | None = None


def answer(result: CallResult) -> ToolAnswer:
    """Return the structured answer."""
    return ToolAnswer(
        call=result.id,
        verdict=result.verdict.value,
        ending=result.ending.value,
        exit_status=result.exit_status,
        stdout=result.stdout,
        stderr=result.stderr,
        judgement=result.judgement,
        landed=result.landed,
        changes=[
            Changed(path=one.path, kind=one.kind, outcome=one.outcome, reason=one.reason)
            for one in result.changes[:_CHANGES]
        ],
        message=result.message,
        undo_command=f"lockgate undo {result.id}" if result.landed else None,
        report=result.report.model_dump(mode="json") if result.report else None,
        escalation=result.escalation.model_dump(mode="json") if result.escalation else None,
    )


def as_result(result: CallResult, *, ended: bool = False) -> CallToolResult:
    """Return a call's result as MCP has it; `ended`: that it ends was what the agent asked for."""
    said = answer(result)
    return CallToolResult(
        content=[TextContent(type="text", text=text(result))],
        structured_content=said.model_dump(mode="json"),
        is_error=_kept_back(result) if ended else failed(result),
    )


def failed(result: CallResult) -> bool:
    """Whether the agent should take the call for one that did not do what it was to do."""
    return result.ending in _FAILED or _kept_back(result) or bool(result.exit_status)


def _kept_back(result: CallResult) -> bool:
    return result.judgement in ("hold", "discard")


def text(result: CallResult) -> str:
    """Return what a model reads: the output, then notes in brackets."""
    parts = [result.stdout.rstrip("\n")] if result.stdout else []
    if result.stderr:
        parts.append(result.stderr.rstrip("\n"))
    notes = []
    if result.ending not in (Ending.RAN, Ending.RUNNING):
        said = result.ending.value
        told = result.message.startswith(f"{said}:") or not result.message
        notes.append((result.message or said) if told else f"{said}: {result.message}")
    elif result.message:
        notes.append(result.message)
    if result.exit_status:
        notes.append(f"exit status {result.exit_status}")
    if result.landed and result.changes:
        names = ", ".join(one.path for one in result.changes[:5])
        more = max(len(result.changes), result.changes_total) - 5  # not all are listed
        notes.append(f"landed {names}{f' and {more} more' if more > 0 else ''}")
    parts += [f"[lockgate: {note}]" for note in notes]
    return "\n".join(parts)
