# SPDX-License-Identifier: Apache-2.0
"""What MCP tools answer: light, with what a model needs, and with all that a refusal demands."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from mcp import Client

from policy.model import Enforcement, MatchedRule, Tier, Verdict
from sandbox.host.dirs import Dirs
from sandbox.mcp.answers import MOST_TEXT, as_result
from sandbox.mcp.governance.standpoint import Who
from sandbox.mcp.server import Tools, build
from sandbox.mcp.session import Door
from sandbox.results import CallResult, ChangeView, Ending

RULE = MatchedRule(
    rule_id="r1", rule_name="R", trigger_type="file_pattern", trigger_match="devkit.config.json"
)
DEMANDED = Enforcement(
    decision="deny",
    check_id="c1",
    allowed_path="open a PR",
    required_fields=("reason",),
    next_action_template={"tool": "Bash"},
)


def result(**fields: Any) -> CallResult:
    base = {
        "id": "c1", "tool": "Bash", "verdict": Verdict.ALLOW, "tier": Tier.SAFE, "rules": (),
        "message": "", "ending": Ending.RAN, "exit_status": 0,
    }  # fmt: skip
    return CallResult(**{**base, **fields})


def text(said: Any) -> str:
    return "".join(one.text for one in said.content)


def test_what_went_well_and_changed_nothing_is_plain_text() -> None:
    said = as_result(result(stdout="a\n", stderr="b\n"))
    assert (text(said), said.structured_content, said.is_error) == ("a\nb", None, False)
    assert said.meta == {"lockgate/call": "c1"}


def test_everything_else_has_a_structure_without_nulls() -> None:
    change = ChangeView(path="a", kind="created", type="file")
    cases: tuple[dict[str, Any], ...] = (
        {"exit_status": 1},
        {"landed": True, "changes": (change,)},
        {"ending": Ending.DENIED, "exit_status": None, "message": "no"},
        {"ending": Ending.RUNNING, "exit_status": None},
    )
    for fields in cases:
        said = as_result(result(**fields)).structured_content
        assert said is not None
        assert said["call"] == "c1"
        assert "null" not in json.dumps(said)


def test_a_refusal_says_what_its_rule_demands() -> None:
    denied = result(
        verdict=Verdict.DENY, ending=Ending.DENIED, exit_status=None, message="no",
        matched_rules=(RULE,), enforcement=DEMANDED,
    )  # fmt: skip
    said = as_result(denied).structured_content or {}
    assert said["matched_rules"] == [RULE.model_dump()]
    assert said["enforcement"] == {
        "decision": "deny", "check_id": "c1", "allowed_path": "open a PR",
        "required_fields": ["reason"], "next_action_template": {"tool": "Bash"},
    }  # fmt: skip
    message, _, needed = denied.told().partition(" ")
    assert (message, json.loads(needed)["check_id"]) == ("no", "c1")
    assert result(message="no").told() == "no"


def test_long_output_is_cut_in_its_middle_and_says_where_the_rest_is() -> None:
    for fields in ({"stdout": "x" * 10**6}, {"stdout": "x" * 10**6, "stderr": "y" * 10**6}):
        said = as_result(result(**{**fields, "exit_status": 1}))
        assert len(text(said)) < MOST_TEXT + 1_000
        assert "of 1000000 characters are left out here" in text(said)
        assert "`lockgate show c1 --output`" in text(said)
        assert len(json.dumps(said.structured_content)) < MOST_TEXT + 2_000
    short = "x" * MOST_TEXT
    assert text(as_result(result(stdout=short))) == short


def test_the_tools_for_work_are_few_and_all_are_more(tmp_path: Path) -> None:
    async def tools(which: Tools) -> list[Any]:
        door = Door(Dirs.under(tmp_path).create(), Who(workspace=str(tmp_path)))
        async with asyncio.timeout(30), Client(build(door, tools=which)) as client:
            return list((await client.list_tools()).tools)

    work, every = asyncio.run(tools("work")), asyncio.run(tools("all"))
    names = {one.name for one in work}
    assert {"bash", "read", "write", "edit", "glob", "grep", "ls"} <= names
    assert {one.name for one in every} - names >= {"check_permission", "workspace_add"}
    assert len(json.dumps([one.model_dump(exclude_none=True) for one in work])) < 8_000
    assert all(one.annotations is not None for one in every)
