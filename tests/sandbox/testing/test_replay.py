# SPDX-License-Identifier: Apache-2.0
"""Replaying recorded calls: what a line means, what comes back, what is compared."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from sandbox.present.render import replay_row, replay_sum
from sandbox.testing.replay import Expect, Mark, Outcome, differ, replay
from tests.fakes import FakeSupervisor
from tests.sandbox.shells import Shell


def replayed(*lines: object) -> tuple[list[Outcome], list[Mark], FakeSupervisor]:
    fake = FakeSupervisor()
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]

    async def run() -> list[tuple[Outcome, Mark]]:
        return [pair async for pair in replay(fake, texts, "/w")]

    found = asyncio.run(run())
    return [outcome for outcome, _ in found], [mark for _, mark in found], fake


def line(command: str, **more: Any) -> dict[str, Any]:
    return {"id": "x", "tool": "Bash", "params": {"command": command}, **more}


def test_an_outcome_has_the_fixed_fields() -> None:
    (outcome,), marks, _ = replayed(line("exit 3"))
    fixed = "id verdict tier rules judgement landed changes exit_status stdout stderr ms message"
    assert set(fixed.split()) <= set(outcome)
    assert (outcome["id"], outcome["verdict"], outcome["exit_status"]) == ("x", "allow", 3)
    assert "expected" not in outcome
    assert marks == [Mark.DONE]


def test_a_question_is_answered_only_where_the_line_says_so() -> None:
    outcomes, _, fake = replayed(line("ask a", approve=True), line("ask b"))
    assert [one["ending"] for one in outcomes] == ["ran", "not-approved"]
    assert len(fake.asked) == 2


def test_relative_paths_are_placed_in_the_workspace() -> None:
    paths = ["a.py", "src/../b.py", "/etc/c", "~/d"]
    lines = [{"id": n, "tool": "Read", "params": {"file_path": p}} for n, p in enumerate(paths)]
    _, _, fake = replayed(*lines, {"tool": "LS", "params": {"path": "."}})
    assert [plan.params.file_path for plan in fake.plans[:4]] == [
        "/w/a.py",
        "/w/src/../b.py",
        "/etc/c",
        "~/d",
    ]
    assert fake.plans[4].params.path == "/w/."


def test_who_and_why_reach_the_plan() -> None:
    _, _, fake = replayed(line("exit 0", agent="coder", intent="why", role="Critic"))
    assert (fake.plans[0].agent, fake.plans[0].intent) == ("coder", "why")
    assert fake.plans[0].workspace == "/w"


BAD = {
    "not JSON": ("{", 1, "line 1: not JSON"),
    "not an object": ("[]", 1, "line 1: not a JSON object"),
    "no tool": ('{"id": "t", "params": {}}', "t", "line 1: `tool`: field required"),
    "params that are none": ('{"id": 7, "tool": "Bash", "params": 1}', 7, "line 1: `params`"),
    "an expectation that is none": (
        '{"id": 7, "tool": "Bash", "expect": {"verdit": "deny"}}',
        7,
        "line 1: `expect.verdit`",
    ),
    "an empty tool": ('{"id": 7, "tool": ""}', 7, "`tool`: "),
    "half a character": (
        '{"id": 7, "tool": "Bash", "params": {"command": "\\udcff"}}',
        7,
        "line 1: holds half a character",
    ),
    "nested without end": ("[" * 100_000, 1, "line 1: not JSON"),
}


@pytest.mark.parametrize("text, identity, message", BAD.values(), ids=BAD)
def test_a_wrong_line_is_denied_and_the_rest_goes_on(
    text: str, identity: object, message: str
) -> None:
    outcomes, marks, fake = replayed(text, line("exit 0"))
    assert (outcomes[0]["id"], outcomes[0]["verdict"]) == (identity, "deny")
    assert outcomes[0]["message"].startswith(message)
    assert outcomes[0]["exit_status"] is None
    assert marks == [Mark.BAD, Mark.DONE]
    assert len(fake.plans) == 1


def test_a_wrong_line_is_shown_as_one_and_counted() -> None:
    outcomes, marks, _ = replayed("{", line("exit 0"))
    rows = [
        replay_row(one, wrong=mark is Mark.BAD) for one, mark in zip(outcomes, marks, strict=True)
    ]
    assert "wrong line" in rows[0]
    assert "deny" not in rows[0]
    assert "line 1: not JSON" in rows[0]
    assert "wrong line" not in rows[1]
    assert replay_sum(outcomes, failed=0, wrong=1) == "1 calls, 1 wrong line"


def test_empty_lines_are_no_lines() -> None:
    outcomes, _, _ = replayed("", line("exit 0"), "  ")
    assert len(outcomes) == 1


def test_a_failure_is_an_outcome_and_the_rest_goes_on() -> None:
    outcomes, marks, _ = replayed(line("broken"), line("stopped"), line("exit 0"))
    assert marks == [Mark.FAILED, Mark.FAILED, Mark.DONE]
    assert outcomes[0]["message"] == "container differs from its plan: network"
    assert outcomes[0]["exit_status"] is None


def test_what_is_expected_is_compared() -> None:
    (same, other), _, _ = replayed(
        line("exit 3", expect={"verdict": "allow", "exit_status": 3, "landed": False}),
        line("deny", expect={"verdict": "allow"}),
    )
    assert (same["expected"], same["differences"]) == (True, [])
    assert (other["expected"], other["differences"]) == (
        False,
        ["verdict is 'deny', not 'allow'"],
    )


DIFFERENCES = {
    "nothing expected": ({}, []),
    "a text that is there": ({"stdout_has": "hello"}, []),
    "texts that are there": ({"stdout_has": ["hel", "lo"]}, []),
    "a text that is not": ({"stdout_has": "bye"}, ["stdout has no 'bye'"]),
    "a text that must not be": ({"stdout_not": "hello"}, ["stdout has 'hello'"]),
    "a rule": ({"rules_has": "write"}, []),
    "another rule": ({"rules_has": ["write", "read"]}, ["rules have no 'read'"]),
    "a change": ({"changes_has": "a.py"}, []),
    "another change": ({"changes_has": "b.py"}, ["changes have no 'b.py'"]),
    "no judgement": ({"judgement": None}, ["judgement is 'land', not None"]),
    "no status": ({"exit_status": None}, ["exit_status is 0, not None"]),
    "a message": ({"message_has": "x"}, ["message has no 'x'"]),
}


@pytest.mark.parametrize("expect, differences", DIFFERENCES.values(), ids=DIFFERENCES)
def test_differences(expect: dict[str, Any], differences: list[str]) -> None:
    outcome = {
        "verdict": "allow", "tier": "safe", "ending": "ran", "judgement": "land", "landed": True,
        "exit_status": 0, "stdout": "hello", "stderr": "", "message": "", "rules": ["write"],
        "changes": [{"path": "a.py"}],
    }  # fmt: skip
    assert differ(outcome, Expect.model_validate(expect)) == differences


def test_the_command_says_what_is_wrong(shell: Shell) -> None:
    file = shell.workspace / "calls.jsonl"
    file.write_text('{"id": 1}\n')
    status, out, err = shell("replay", "--json", "-w", str(shell.workspace), str(file))
    assert (status, err) == (2, "")
    assert json.loads(out)["message"] == "line 1: `tool`: field required"
    status, out, err = shell("replay", str(file))
    assert (status, out) == (2, "")
    assert "is in no registered workspace" in err
    file.write_bytes(b"\xff")
    assert shell("replay", "-w", ".", str(file)) == (2, "", f"lockgate: `{file}` is not UTF-8\n")
