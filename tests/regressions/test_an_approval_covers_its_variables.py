# SPDX-License-Identifier: Apache-2.0
"""A yes to `rm "$F"` with one `F` let the same command run with another.

Variables of a call (`lockgate run --env`) were no part of what an approval is bound to, and the
card did not show them; neither did it show parameters of tools that it had no field for.
"""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

from policy.gate1.decide import Policy, decide
from policy.model import ActionPlan, Context, Params, Workspace
from policy.people.approval import wanted
from sandbox.approvals.approver import nobody
from sandbox.approvals.desk import Desk, Permission
from sandbox.approvals.store.grants import Grants
from sandbox.approvals.store.request import Terms
from sandbox.audit.events.calls import AskedRecord
from sandbox.calls.recorder import Recorder
from sandbox.config.settings import Dirs
from sandbox.gates.gate1 import Gate1
from sandbox.gates.gate1 import Gate1Answer as GateAnswer
from sandbox.gates.policy_files import BuiltIn
from sandbox.gates.second_opinion import SecondOpinion
from sandbox.present.card import card
from sandbox.text.redaction import MASK

CONTEXT = Context((Workspace("/w"),), home="/home/me")
PLAN = ActionPlan(tool="Bash", params=Params(command='rm "$F"'), workspace="/w")
F = {"F": "build.log"}
OTHERS: dict[str, dict[str, str] | None] = {
    "another value": {"F": "src"},
    "another variable": {"F": "build.log", "G": "x"},
    "none": None,
}


def ask(dirs: Dirs, call: str, env: dict[str, str] | None) -> Permission:
    """Ask about the call where nobody sits: only a grant lets it run."""

    async def told(question: AskedRecord, plan: ActionPlan) -> None:
        """Tell nobody."""

    async def run() -> Permission:
        gate = Gate1(BuiltIn(), SecondOpinion())

        async def again() -> GateAnswer:
            return await gate.decide(PLAN, CONTEXT, ("/w",))

        desk = Desk(Grants(dirs), seconds=60, notify=told)
        return await desk.permission(
            call, PLAN, await again(), CONTEXT, nobody, again=again, env=env
        )

    return asyncio.run(run())


def approve(dirs: Dirs, call: str) -> None:
    grants = Grants(dirs)
    grants.approve(grants.asked(call).request, Terms(), by="me", reason="", now=time.time())


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_a_yes_covers_no_other_variables(tmp_path: Path, other: dict[str, str] | None) -> None:
    dirs = Dirs.under(tmp_path).create()
    assert not ask(dirs, "c1", F).approved
    approve(dirs, "c1")
    assert not ask(dirs, "c2", other).approved
    assert ask(dirs, "c3", F).approved  # with those that were shown it runs


def test_a_yes_without_variables_covers_none(tmp_path: Path) -> None:
    dirs = Dirs.under(tmp_path).create()
    assert not ask(dirs, "c1", None).approved
    approve(dirs, "c1")
    assert not ask(dirs, "c2", F).approved
    assert ask(dirs, "c3", None).approved


def test_the_card_shows_them_and_the_answer_masks_what_is_kept(tmp_path: Path) -> None:
    dirs = Dirs.under(tmp_path).create()
    ask(dirs, "c1", {**F, "DB_PASSWORD": "hunter2"})
    request = Grants(dirs).asked("c1").request
    plan = request.plan.model_dump(mode="json", by_alias=True)
    shown = card(plan, request.decision.model_dump(mode="json"), env=request.env)
    assert "  variable     | F=build.log\n  variable     | DB_PASSWORD=hunter2\n" in shown
    approve(dirs, "c1")
    assert Grants(dirs).asked("c1").request.env == {**F, "DB_PASSWORD": MASK}


def test_the_record_says_which_were_set(tmp_path: Path) -> None:
    dirs = Dirs.under(tmp_path).create()
    decision = decide(PLAN, CONTEXT, Policy.default())

    async def record() -> None:
        recorder = Recorder(dirs)
        await recorder.decided("c1", PLAN, decision, {**F, "DB_PASSWORD": "hunter2"})
        await recorder.decided("c2", PLAN, decision)

    asyncio.run(record())
    lines = (dirs.state / "audit.jsonl").read_text().splitlines()
    first, second = map(json.loads, lines)
    assert first["env"] == {**F, "DB_PASSWORD": MASK}
    assert "env" not in second


def test_no_parameter_and_no_line_of_a_command_is_left_out() -> None:
    params = {"to": "a@example.org", "body": "hi\nrisk | safe", "cc": ["b"], "x\n  risk": "safe"}
    mail = ActionPlan(tool="mcp__m__send", params=Params.model_validate(params), workspace="/w")
    long = "\n".join(["true"] * 100 + ["rm -f last.txt"])
    edit = Params(file_path="a", old_string="x", new_string="y", replace_all=True)
    lines = "\n".join(f"l{number}" for number in range(402))
    write = ActionPlan(tool="Write", params=Params(file_path="a", content=lines), workspace="/w")
    for plan, parts in (
        (write, ["| l299", "| ... and 2 more lines"]),
        (mail, ["with         | to: a@example.org", '| cc: ["b"]', "             |   risk: safe"]),
        (PLAN.model_copy(update={"params": Params(command=long)}), ["| rm -f last.txt"]),
        (
            PLAN.model_copy(update={"params": edit, "tool": "Edit"}),
            ["with         | replace_all: true"],
        ),
    ):
        decision = decide(plan, CONTEXT, Policy.default())
        wanted(plan, decision, CONTEXT, Policy.default())
        shown = card(plan.model_dump(mode="json", by_alias=True), decision.model_dump(mode="json"))
        for part in parts:
            assert part in shown
        assert all(line[15:16] == "|" for line in shown.split("\n")[1:])
