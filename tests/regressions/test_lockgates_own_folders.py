# SPDX-License-Identifier: Apache-2.0
"""A file tool that runs on the host could write the policy file: only reading was thought of."""

from __future__ import annotations

from typing import Any

import pytest

from policy.gate1.decide import Policy, decide
from policy.model import Context, Verdict, Workspace
from policy.tools.dialects import normalise

CONTEXT = Context((Workspace("/srv/p"),), home="/home/me", own=("/srv/state/lockgate",))
DENIED: dict[str, tuple[str, dict[str, Any]]] = {
    "writes the policy file": ("Write", {"file_path": "~/.config/lockgate/policy.yaml"}),
    "writes by another spelling": (
        "Write",
        {"file_path": "/home/me/.config/x/../lockgate/levels.yaml"},
    ),
    "writes the list of trusted files": (
        "Edit",
        {"file_path": "/home/me/.local/state/lockgate/trusted.json"},
    ),
    "writes into a folder that was chosen": ("Write", {"file_path": "/srv/state/lockgate/x"}),
    "writes by a command": ("Bash", {"command": "echo x > ~/.config/lockgate/policy.yaml"}),
    "copies onto it": ("Bash", {"command": "cp a ~/.config/lockgate/policy.yaml"}),
    "moves it away": ("Bash", {"command": "mv ~/.config/lockgate/policy.yaml x"}),
    "moves its folder away": ("Bash", {"command": "mv /srv/state x"}),
}


@pytest.mark.parametrize(("tool", "params"), DENIED.values(), ids=DENIED)
def test_no_call_writes_lockgates_own_folders(tool: str, params: dict[str, Any]) -> None:
    plan = normalise("claude", tool, params).plan(workspace="/srv/p")
    decision = decide(plan, CONTEXT, Policy.default())
    assert (decision.verdict, decision.rules[0]) == (Verdict.DENY, "lockgate-own")


def test_reading_the_settings_is_no_writing() -> None:
    for command in ("cat ~/.config/lockgate/policy.yaml", "echo x > notes.md"):
        plan = normalise("claude", "Bash", {"command": command}).plan(workspace="/srv/p")
        assert decide(plan, CONTEXT, Policy.default()).allowed
