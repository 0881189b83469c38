# SPDX-License-Identifier: Apache-2.0
"""Commands with the verdicts that are right for them, one JSON line each; nothing here is run.

`denied` may only be denied, `asked` must not run unasked, `allowed` must run unasked, and
`not_denied` is ordinary work that a person may be asked about but that is never refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from policy.gate1.decide import Policy, decide
from policy.model import ActionPlan, Context, Params, Workspace

HERE = Path(__file__).parent
CONTEXT = Context(workspaces=(Workspace("/workspace"),), home="/root")


def rows() -> Iterator[tuple[str, dict[str, object]]]:
    for file in sorted(HERE.glob("*.jsonl")):
        for number, line in enumerate(file.read_text("utf-8").split("\n"), start=1):
            if line:
                yield f"{file.stem}:{number}", json.loads(line)


ROWS = list(rows())
AT_ONCE = 250
"""A test for each row would cost more than the decisions."""


@pytest.mark.parametrize(
    "cases",
    [ROWS[at : at + AT_ONCE] for at in range(0, len(ROWS), AT_ONCE)],
    ids=[name for name, _ in ROWS[::AT_ONCE]],
)
def test_every_command_gets_a_right_verdict(cases: list[tuple[str, dict[str, object]]]) -> None:
    wrong = {}
    for name, case in cases:
        plan = ActionPlan(
            tool="Bash", params=Params(command=str(case["command"])), workspace="/workspace"
        )
        decision = decide(plan, CONTEXT, Policy.default())
        if decision.verdict.value not in case["accept"]:  # type: ignore[operator]
            wrong[name] = (case["command"], decision.verdict.value, decision.message)
    assert wrong == {}
