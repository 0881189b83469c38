# SPDX-License-Identifier: Apache-2.0
"""Another policy is tried on the decisions of the record: what would differ, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from policy.gate1.decide import Policy, decide
from policy.model import ActionPlan, Context, Params, Workspace
from sandbox.audit.events.calls import DecidedRecord
from sandbox.audit.events.reading import record_of
from sandbox.audit.store import Store
from sandbox.policy_tools.simulate import plan_of
from tests.sandbox.shells import Shell

DRAFT = """\
version: 1
commands:
  - id: no-stash
    programs: [git stash]
    tier: forbidden
    because: stashed work gets lost
    match: [git stash]
    miss: [git status]
"""


def decided(root: str, call: str, command: str, **more: Any) -> dict[str, Any]:
    """Return a decision of the built-in policy as the supervisor writes it."""
    plan = ActionPlan(tool="Bash", params=Params(command=command), workspace=root)
    found = decide(plan, Context((Workspace(root),), home="/home/me"), Policy.default())
    return {
        "event": "decided",
        "call": call,
        "agent": "main",
        "role": None,
        "user": "default",
        "tool": "Bash",
        "params": {"command": command},
        "intent": "",
        "workspace": root,
        "also": [],
        "cwd": None,
        "verdict": found.verdict.value,
        "rules": list(found.rules),
        "message": found.message,
        "layers": [layer.model_dump(mode="json") for layer in found.layers],
        **more,
    }


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Return a command line with a record of a few calls."""
    shell = Shell(tmp_path)
    (tmp_path / "home").mkdir()
    shell.dirs.create()
    store, root = Store(shell.dirs), str(shell.workspace)
    for number, command in enumerate(["git stash", "git status", "git stash", "ls"]):
        store.append(record_of(decided(root, f"c{number}", command)), durable=False)
    (tmp_path / "draft.yaml").write_text(DRAFT)
    return shell


def draft(shell: Shell) -> str:
    """Return the path of the draft."""
    return str(shell.workspace.parent / "draft.yaml")


def test_what_would_differ_is_shown_with_its_rule(shell: Shell) -> None:
    before = decided(str(shell.workspace), "x", "git stash")["verdict"]
    assert before != "deny"
    status, out, err = shell("policy", "simulate", draft(shell))
    assert status == 1, err
    lines = out.splitlines()
    assert lines[0] == f"{before} -> deny: c2 (2 times) main: `git stash` (rule no-stash)"
    assert lines[1] == f"2 of 4 decisions would differ: 2 {before} -> deny"
    assert len(lines) == 2
    found = json.loads(shell("policy", "simulate", draft(shell), "--json")[1])
    assert (found["decisions"], found["stricter"], found["milder"]) == (4, 2, 0)
    [one] = found["differs"]
    assert (one["today"], one["after"], one["times"], one["masked"]) == (before, "deny", 2, False)


def test_a_policy_that_says_the_same_changes_nothing(shell: Shell) -> None:
    Path(draft(shell)).write_text("version: 1\n")
    status, out, _ = shell("policy", "simulate", draft(shell))
    assert (status, out) == (0, "0 of 4 decisions would differ\n")


def test_the_file_takes_the_place_of_the_users_own(shell: Shell) -> None:
    own = shell.dirs.config / "policy.yaml"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text(DRAFT)
    Path(draft(shell)).write_text("version: 1\n")
    found = json.loads(shell("policy", "simulate", draft(shell), "--json")[1])
    assert (found["differs"], found["drifted"]) == ([], 0)  # it says what the log says
    Store(shell.dirs).append(
        record_of(
            decided(str(shell.workspace), "c9", "git stash", verdict="deny", rules=["no-stash"])
        ),
        durable=False,
    )
    found = json.loads(shell("policy", "simulate", draft(shell), "--json")[1])
    assert [(one["before"], one["call"]) for one in found["differs"]] == [("deny", "c9")]
    assert found["milder"] == 1
    both = shell("policy", "simulate", draft(shell), "--layer", "administrator", "--json")[1]
    found = json.loads(both)  # the user's own counts as well, so nothing is due to the file
    assert (found["differs"], found["drifted"]) == ([], 2)


def test_a_masked_command_is_said_to_be_masked(shell: Shell) -> None:
    command = "git stash push -m token=[masked]"
    Store(shell.dirs).append(record_of(decided(str(shell.workspace), "c9", command)), durable=False)
    status, out, _ = shell("policy", "simulate", draft(shell))
    assert status == 1
    [line] = [one for one in out.splitlines() if "c9" in one]
    assert line.endswith("(rule no-stash) (masked in the record: judged as it stands there)")


def test_time_bounds_what_is_replayed(shell: Shell) -> None:
    old = decided(str(shell.workspace), "c9", "git stash", ts="2020-01-01T00:00:00+00:00")
    Store(shell.dirs).append(record_of(old), durable=False)
    words = ("policy", "simulate", draft(shell), "--json", "--until", "2021-01-01T00:00:00Z")
    assert json.loads(shell(*words)[1])["decisions"] == 1
    assert json.loads(shell(*words[:-2], "--since", "1h")[1])["decisions"] == 4


def test_bad_input_is_one_clear_line(shell: Shell) -> None:
    status, _, err = shell("policy", "simulate", "nowhere.yaml")
    assert (status, err) == (2, "lockgate: `nowhere.yaml` is not there; name a policy file\n")
    Path(draft(shell)).write_text("version: 1\ncommandss: []\n")
    status, _, err = shell("policy", "simulate", draft(shell))
    assert (status, err.count("\n")) == (2, 1)
    assert "draft.yaml:2" in err


def test_a_plan_comes_back_from_the_record() -> None:
    record = decided("/w", "c1", "ls", role="Coder", also=["/v"], cwd="/w/sub", intent="look")
    plan = plan_of(DecidedRecord(**record))
    assert (plan.role, plan.also, plan.cwd, plan.intent) == ("Coder", ("/v",), "/w/sub", "look")
    with pytest.raises(ValueError, match="validation error"):
        plan_of(DecidedRecord(**record | {"tool": ""}))
