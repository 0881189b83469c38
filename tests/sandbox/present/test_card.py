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


ROLL_BACK = {
    "a deletion": ("rm notes.txt", "roll back    | lockgate undo, while"),
    "what reaches a host": ("curl https://example.com/", "nothing takes back what it sends"),
}


@pytest.mark.parametrize("command, said", ROLL_BACK.values(), ids=ROLL_BACK)
def test_a_card_promises_no_undo_of_what_cannot_be_undone(command: str, said: str) -> None:
    plan = PLAN.model_copy(update={"params": Params(command=command)})
    decision = decide(plan, Context((Workspace("/w"),), home="/home/me"), Policy.default())
    shown = card(plan.model_dump(mode="json"), decision.model_dump(mode="json"))
    assert said in shown


def test_a_card_says_which_part_is_off() -> None:
    plan = PLAN.model_copy(update={"intent": ""})
    decision = decide(plan, Context((Workspace("/w"),), home="/home/me"), Policy.default())
    shown = card(plan.model_dump(mode="json"), decision.model_dump(mode="json"))
    assert "expected     | not rehearsed: `preview: rehearse` in the settings" in shown


def test_a_folder_that_is_to_be_a_workspace_has_a_card_of_its_own() -> None:
    plan = ActionPlan(
        tool="workspace_add", params=Params.model_validate({"path": "/home/me/x"}), workspace="/w"
    )
    decision = decide(plan, Context((Workspace("/w"),), home="/home/me"), Policy.default())
    shown = card(plan.model_dump(mode="json"), decision.model_dump(mode="json"))
    for part in (
        "may this folder be a workspace?",
        "folder       | /home/me/x",
        "may change   | nothing now",
        "risk         | caution",
        "roll back    | lockgate workspace remove /home/me/x",
    ):
        assert part in shown
    assert "not known to the policy" not in shown


def test_what_leaves_the_machine_is_not_taken_back_by_an_undo() -> None:
    push = PLAN.model_copy(update={"params": Params(command="git push origin main")})
    decision = decide(push, Context((Workspace("/w"),), home="/home/me"), Policy.default())
    shown = card(push.model_dump(mode="json"), decision.model_dump(mode="json"))
    assert "roll back    | nothing takes back what it sends" in shown
    assert "Base action" not in shown  # the rule that asks says why
