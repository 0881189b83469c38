# SPDX-License-Identifier: Apache-2.0
"""What a person sees before the word: the five checkpoints of safety-guardrails.md."""

from __future__ import annotations

import pytest

from policy.gate1.decide import Policy, decide
from policy.model import ActionPlan, Context, Params, Workspace
from sandbox.present.card import card

PLAN = ActionPlan(
    tool="Bash",
    params=Params(command="rm notes.txt"),
    intent="notes.txt is no longer needed",
    workspace="/w",
    agent="main",
)
REHEARSED = {"exit_status": 0, "judgement": "hold: deletes notes.txt", "diff": "-a line of it"}

CHECKPOINTS = {
    "exact command": "command      | rm notes.txt",
    "files that will be modified": "may change   | files of /w, and delete notes.txt",
    "expected outcome": "it changed   | -a line of it",
    "risk level": "risk         | danger",
    "rollback plan": "roll back    | lockgate undo",
}


@pytest.mark.parametrize("part", CHECKPOINTS.values(), ids=CHECKPOINTS)
def test_an_approval_checkpoint(part: str) -> None:
    decision = decide(PLAN, Context((Workspace("/w"),), home="/home/me"), Policy.default())
    shown = card(PLAN.model_dump(mode="json"), decision.model_dump(mode="json"), preview=REHEARSED)
    assert part in shown


def test_without_a_rehearsal_the_outcome_is_the_agents_word() -> None:
    decision = decide(PLAN, Context((Workspace("/w"),), home="/home/me"), Policy.default())
    shown = card(PLAN.model_dump(mode="json"), decision.model_dump(mode="json"))
    assert "expected     | as the agent says: notes.txt is no longer needed" in shown
