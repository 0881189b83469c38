# SPDX-License-Identifier: Apache-2.0
"""Replay recorded tool calls through a Supervisor and compare what came of them.

One JSON object per line comes in, `{"id", "tool", "params", "agent"?, "intent"?, "approve"?,
"expect"?}`, and one goes out. `approve` is a person's yes to gate 1's question about that call
alone; nothing here answers for gate 2. Prints nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterable
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from policy.model import ActionPlan, Frozen, Params, Verdict
from sandbox.approvals.approver import Approver, nobody, yes
from sandbox.errors import BadInput, SandboxError
from sandbox.host.login import login
from sandbox.questions.plans import read_plan
from sandbox.results import CallResult
from sandbox.text.terminal import is_unicode

Outcome = dict[str, Any]
"""What comes out for one line."""

Texts = str | tuple[str, ...]
PATHS = ("file_path", "path")
"""Parameters that may be given relative to the workspace."""


class Calling(Protocol):
    """What a replay needs of a Supervisor."""

    async def call(self, plan: ActionPlan, *, approver: Approver) -> CallResult: ...


class Mark(str, Enum):
    """What a line counts as."""

    DONE = "done"
    BAD = "bad"
    """The line itself is wrong."""
    FAILED = "failed"
    """Lockgate could not do its part."""


class Expect(Frozen):
    """What a line says should come of it. Only what is given is compared."""

    verdict: Verdict | None = None
    tier: str | None = None
    ending: str | None = None
    judgement: str | None = None
    landed: bool | None = None
    exit_status: int | None = None
    rules_has: Texts = ()
    stdout_has: Texts = ()
    stdout_not: Texts = ()
    stderr_has: Texts = ()
    message_has: Texts = ()
    changes_has: Texts = ()
    """Paths that must be among the changes."""


class ReplayLine(BaseModel):
    """One recorded call. Keys that are not listed are other tools' notes and have no effect."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=False)

    id: str | int
    tool: str
    params: Params = Params()
    agent: str = "main"
    role: str | None = None
    intent: str = ""
    cwd: str | None = None
    approve: bool = False
    expect: Expect | None = None


async def replay(
    supervisor: Calling, lines: Iterable[str], workspace: str
) -> AsyncIterator[tuple[Outcome, Mark]]:
    """Make each line's call, one after another, and yield what came of it.

    A wrong line and a failure of Lockgate are outcomes too; the replay goes on behind them.
    """
    for number, text in enumerate(lines, start=1):
        if text.strip():
            yield await _one(supervisor, text, number, workspace)


async def _one(supervisor: Calling, text: str, number: int, workspace: str) -> tuple[Outcome, Mark]:
    try:
        line = parse(text, number)
        plan = _plan(line, workspace)
    except BadInput as error:
        return _nothing(_identity(text, number), str(error)), Mark.BAD
    try:
        result = await supervisor.call(plan, approver=yes if line.approve else nobody)
    except BadInput as error:
        return _compared(_nothing(line.id, str(error), line), line), Mark.BAD
    except SandboxError as error:
        return _compared(_nothing(line.id, str(error), line), line), Mark.FAILED
    return _compared(_outcome(line, result), line), Mark.DONE


def parse(text: str, number: int) -> ReplayLine:
    """Return a line of the file. Raises BadInput with the number and what is wrong."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"line {number}: not JSON: {error}") from None
    if not isinstance(data, dict):
        raise BadInput(f"line {number}: not a JSON object")
    if not is_unicode(data):
        raise BadInput(f"line {number}: holds half a character, which no text can")
    data.setdefault("id", number)
    try:
        return ReplayLine.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise BadInput(f"line {number}: `{place}`: {first['msg'].lower()}") from None


def _plan(line: ReplayLine, workspace: str) -> ActionPlan:
    """Return the plan of a line, with relative paths placed in the workspace."""
    placed = {
        key: os.path.join(workspace, value)  # noqa: PTH118 - keeps `..` for gate 1 to see
        for key in PATHS
        if (value := getattr(line.params, key)) is not None and not value.startswith("~")
    }
    try:
        return read_plan(
            {
                "tool": line.tool,
                "params": line.params.model_copy(update=placed),
                "intent": line.intent,
                "agent": line.agent,
                "role": line.role,
                "user": login(),
                "workspace": workspace,
                "cwd": str(Path(workspace) / line.cwd) if line.cwd is not None else None,
            }
        )
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise BadInput(f"`{place}`: {first['msg'].lower()}") from None


def _outcome(line: ReplayLine, result: CallResult) -> Outcome:
    return {
        "id": line.id,
        "call": result.id,
        "tool": line.tool,
        "params": line.params.model_dump(mode="json", exclude_defaults=True, by_alias=True),
        "verdict": result.verdict.value,
        "tier": result.tier.value,
        "rules": list(result.rules),
        "ending": result.ending.value,
        "judgement": result.judgement,
        "landed": result.landed,
        "changes": [change.model_dump(mode="json", exclude_none=True) for change in result.changes],
        "exit_status": result.exit_status,
        "stdout": result.stdout,
        "stderr": result.stderr,
        "ms": round(result.ms, 2),
        "message": result.message,
    }


def _nothing(identity: str | int, message: str, line: ReplayLine | None = None) -> Outcome:
    """Return the outcome of a line that came to nothing: refused, since nothing was decided."""
    return {
        "id": identity,
        "call": None,
        "tool": line.tool if line is not None else None,
        "params": {},
        "verdict": Verdict.DENY.value,
        "tier": None,
        "rules": [],
        "ending": None,
        "judgement": None,
        "landed": False,
        "changes": [],
        "exit_status": None,
        "stdout": "",
        "stderr": "",
        "ms": 0.0,
        "message": message,
    }


def _identity(text: str, number: int) -> str | int:
    """Return the id of a line that is otherwise wrong, so that its answer can be matched."""
    try:
        found = json.loads(text)["id"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return number
    return found if isinstance(found, str | int) else number


def _compared(outcome: Outcome, line: ReplayLine) -> Outcome:
    if line.expect is None:
        return outcome
    differences = differ(outcome, line.expect)
    return {**outcome, "expected": not differences, "differences": differences}


def differ(outcome: Outcome, expect: Expect) -> list[str]:
    """Return in which way an outcome differs from what was expected; empty if in none."""
    found = []
    for key in ("verdict", "tier", "ending", "judgement", "landed", "exit_status"):
        if key in expect.model_fields_set:
            wanted = getattr(expect, key)
            wanted = wanted.value if isinstance(wanted, Enum) else wanted
            if outcome[key] != wanted:
                found.append(f"{key} is {outcome[key]!r}, not {wanted!r}")
    for key in ("stdout", "stderr", "message"):
        for text in _texts(getattr(expect, f"{key}_has")):
            if text not in outcome[key]:
                found.append(f"{key} has no {text!r}")
    for text in _texts(expect.stdout_not):
        if text in outcome["stdout"]:
            found.append(f"stdout has {text!r}")
    for rule in _texts(expect.rules_has):
        if rule not in outcome["rules"]:
            found.append(f"rules have no {rule!r}")
    paths = [change["path"] for change in outcome["changes"]]
    for path in _texts(expect.changes_has):
        if path not in paths:
            found.append(f"changes have no {path!r}")
    return found


def _texts(value: Texts) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value
