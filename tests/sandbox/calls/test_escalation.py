# SPDX-License-Identifier: Apache-2.0
"""The object that a sub-agent answers with (autonomy-levels.md, "Escalation from Sub-Agents")."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from policy.gate1.decide import Policy, decide
from policy.model import ActionPlan, Context, Params, Workspace
from sandbox.approvals.escalation import escalation
from sandbox.audit.call_entry import CallEntry
from sandbox.calls.supervisor import Supervisor
from sandbox.config.settings import Dirs, Settings
from sandbox.results import CallResult, Ending

EARLIER = tuple(
    CallEntry(
        id=name,
        last=name,
        agent=agent,
        landed=landed,
        judgement=None if landed else judgement,
        changes=[{"path": path} for path in paths],
    )
    for name, agent, landed, judgement, paths in (
        ("c3", "sub:a", True, None, "bc"),
        ("c2", "main", True, None, "x"),
        ("c1", "sub:a", True, None, "a"),
        ("c0", "sub:a", False, None, "y"),
        ("b9", "sub:a", False, "hold", "z"),
    )
)


def test_it_is_the_object_of_the_document() -> None:
    plan = ActionPlan(
        tool="Bash",
        params=Params(command="mail -s pricing vendor@example.com"),
        intent="Need to email vendor about pricing",
        workspace="/w",
        agent="sub:a",
    )
    context = Context((Workspace("/w"),), home="/home/me")
    found = escalation(plan, decide(plan, context, Policy.default()), EARLIER).model_dump()
    assert found["status"] == "escalation"
    assert found["completed_work"] == "landed c1 (a), c3 (b, c); waits for a person b9 (z)"
    assert set(found["escalation"]) == {"action", "details", "proposed_content", "reason"}
    assert found["escalation"]["proposed_content"] == "mail -s pricing vendor@example.com"
    assert found["escalation"]["reason"] == "Need to email vendor about pricing"


@pytest.mark.parametrize(("agent", "escalates"), [("sub:abc123", True), ("main", False)])
def test_a_red_call_of_a_sub_agent_answers_with_it(
    tmp_path: Path, agent: str, escalates: bool
) -> None:
    place = tmp_path / "w"
    place.mkdir()
    plan = ActionPlan(tool="Bash", params=Params(command="rm a"), workspace=str(place), agent=agent)

    async def call() -> CallResult:
        supervisor = Supervisor(
            Dirs.under(tmp_path / "l"),
            workspaces=[Workspace(str(place))],
            settings=Settings(),
        )
        async with supervisor:
            return await supervisor.call(plan)

    done = asyncio.run(call())
    assert done.ending is Ending.NOT_APPROVED
    assert (done.escalation is not None) is escalates
