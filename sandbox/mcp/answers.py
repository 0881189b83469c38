# SPDX-License-Identifier: Apache-2.0
"""What the MCP tools answer: structured, and as text that a model reads. Pure."""

from __future__ import annotations

from typing import Any

from mcp_types import CallToolResult, TextContent
from pydantic import BaseModel, ConfigDict

from sandbox.results import CallResult, Ending

_CHANGES = 50
MOST_TEXT = 30_000
"""Characters of output that an answer holds."""
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
    matched_rules: list[dict[str, Any]] | None = None
    enforcement: dict[str, Any] | None = None
    """What a matched rule demands: check_id, required_fields, allowed_path,
    next_action_template."""


def answer(result: CallResult) -> ToolAnswer:
    """Return the structured answer; its output is cut as in `text`."""
    out, errors = _cut(result)
    rules = [rule.model_dump(mode="json") for rule in result.matched_rules]
    return ToolAnswer(
        call=result.id,
        verdict=result.verdict.value,
        ending=result.ending.value,
        exit_status=result.exit_status,
        stdout=out,
        stderr=errors,
        judgement=result.judgement,
        landed=result.landed,
        changes=[
            Changed(
                path=change.path, kind=change.kind, outcome=change.outcome, reason=change.reason
            )
            for change in result.changes[:_CHANGES]
        ],
        message=result.message,
        undo_command=f"lockgate undo {result.id}" if result.landed else None,
        report=result.report.model_dump(mode="json") if result.report else None,
        escalation=result.escalation.model_dump(mode="json") if result.escalation else None,
        matched_rules=rules or None,
        enforcement=result.demanded(),
    )


def as_result(result: CallResult, *, ended: bool = False) -> CallToolResult:
    """Return a call's result as MCP has it; `ended`: that it ends was what the agent asked for.

    Where the text says all that there is, there is no structured answer beside it: clients show
    models that one, with every line of the output escaped.
    """
    said = None
    if not _is_plain(result):
        said = answer(result).model_dump(mode="json", exclude_none=True)
    return CallToolResult(
        content=[TextContent(type="text", text=text(result))],
        structured_content=said,
        is_error=_kept_back(result) if ended else failed(result),
        _meta={"lockgate/call": result.id},
    )


def _is_plain(result: CallResult) -> bool:
    """Whether a call did what it was to do, and there is nothing to say but what it printed."""
    more = (result.changes, result.report, result.escalation, result.enforcement, result.message)
    return result.ending is Ending.RAN and not failed(result) and not any(more)


def failed(result: CallResult) -> bool:
    """Whether the agent should take the call for one that did not do what it was to do."""
    return result.ending in _FAILED or _kept_back(result) or bool(result.exit_status)


def _kept_back(result: CallResult) -> bool:
    return result.judgement in ("hold", "discard")


def text(result: CallResult) -> str:
    """Return what a model reads: the output, then notes in brackets; of a long one both ends."""
    out, errors = _cut(result)
    parts = [out.rstrip("\n")] if out else []
    if errors:
        parts.append(errors.rstrip("\n"))
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
        names = ", ".join(change.path for change in result.changes[:5])
        more = max(len(result.changes), result.changes_total) - 5  # not all are listed
        notes.append(f"landed {names}{f' and {more} more' if more > 0 else ''}")
    parts += [f"[lockgate: {note}]" for note in notes]
    return "\n".join(parts)


def _cut(result: CallResult) -> tuple[str, str]:
    """Return both outputs, together at most MOST_TEXT characters but for the notes in them."""
    errors = shortened(result.stderr, MOST_TEXT // 3, result.id)
    return shortened(result.stdout, MOST_TEXT - min(len(errors), MOST_TEXT // 3), result.id), errors


def shortened(said: str, most: int, call: str) -> str:
    """Return a text of at most `most` characters, and where its middle is if that was left out."""
    if len(said) <= most:
        return said
    head, tail = said[: most * 2 // 3], said[len(said) - most // 3 :]
    left = f"{len(said) - len(head) - len(tail)} of {len(said)} characters are left out here"
    way = f"a person has all of it with `lockgate show {call} --output`"
    less = "ask for less (`| tail -n 100`, offset and limit)"
    return f"{head}\n[lockgate: {left}; {less}, or {way}]\n{tail}"
