# SPDX-License-Identifier: Apache-2.0
"""What real agents told their hooks is answered as it was when it worked (`make test-agents`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sandbox.host.self_test import SELF_TEST
from tests.sandbox.hooks.test_hook_door import Hooks

FOLDER = Path(__file__).parents[1] / "recordings"
AGENTS = ("claude-code", "codex", "gemini")
LINES = [
    pytest.param(agent, json.loads(line), id=f"{agent}-{number}")
    for agent in AGENTS
    for number, line in enumerate((FOLDER / f"{agent}.jsonl").read_text("utf-8").splitlines())
]
_PLACE = "/home/me/work"


def _shape(value: Any) -> Any:
    """Return an answer without what differs each time: words of reasons, tickets."""
    if isinstance(value, Mapping):
        return {
            key: "a text" if key.lower().endswith("reason") and inner else _shape(inner)
            for key, inner in value.items()
        }
    if isinstance(value, str) and " run --ticket " in value:
        return "a ticket"
    return value


@pytest.mark.parametrize(("agent", "line"), LINES)
def test_an_event_of_a_real_agent(tmp_path: Path, agent: str, line: dict[str, Any]) -> None:
    hooks = Hooks(tmp_path)
    said = json.loads(json.dumps(line["said"]).replace(_PLACE, str(hooks.place)))
    status, out, err = hooks.ask(agent, {**said, "session_id": SELF_TEST})
    expected = json.loads(line["out"].replace(_PLACE, str(hooks.place)) or "null")
    assert status == line["status"]
    assert _shape(out) == _shape(expected)
    assert bool(err) is bool(line["err"])


@pytest.mark.parametrize("agent", AGENTS)
def test_a_recording_holds_what_matters(agent: str) -> None:
    lines = [json.loads(one) for one in (FOLDER / f"{agent}.jsonl").read_text().splitlines()]
    text = json.dumps(lines)
    assert "a ticket" in json.dumps([_shape(json.loads(one["out"] or "null")) for one in lines])
    assert '\\"deny\\"' in text
    assert ".devkit-waiver.yml" in text
    for private in ("/tmp/", "/root/.", "TOKEN", "api_key", "sk-"):
        assert private not in text, private


def test_a_change_of_an_answer_is_noticed() -> None:
    allowed = {"permissionDecision": "allow", "updatedInput": {"command": "x run --ticket T"}}
    denied = {"permissionDecision": "deny", "permissionDecisionReason": "no"}
    assert _shape(allowed) != _shape(denied)
    assert _shape({**denied, "permissionDecisionReason": ""}) != _shape(denied)
