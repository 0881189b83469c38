# SPDX-License-Identifier: Apache-2.0
"""A person was asked about an agent's own edit and saw what comes, but not what goes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from policy.tools.dialects import normalise
from sandbox.present.card import card
from tests.sandbox.hooks.test_hook_door import Hooks

LINE = "set -e; check_signature || exit 1"
EDIT = {"old_string": LINE, "new_string": "", "replace_all": True}
EDITS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "claude edits": ("claude", "Edit", {"file_path": ".envrc", **EDIT}),
    "claude edits twice": ("claude", "MultiEdit", {"file_path": ".envrc", "edits": [EDIT, EDIT]}),
    "gemini": (
        "gemini",
        "replace",
        {
            "file_path": ".envrc",
            "old_string": LINE,
            "new_string": "",
            "expected_replacements": 2,
        },
    ),
    "cursor": ("cursor", "StrReplace", {"path": ".envrc", **EDIT}),
    "cursor writes": ("cursor", "Write", {"path": ".envrc", "edits": [EDIT]}),
    "vscode": (
        "vscode",
        "multi_replace_string_in_file",
        {"replacements": [{"filePath": ".envrc", "oldString": LINE, "newString": ""}]},
    ),
    "two files": ("cursor", "Edit", {"file_path": "a", "path": ".envrc", "edits": [EDIT]}),
}


def shown(agent: str, tool: str, params: dict[str, Any]) -> str:
    plan = normalise(agent, tool, params).plan(workspace="/w")
    return card(plan.model_dump(mode="json", by_alias=True), {"tier": "danger"})


@pytest.mark.parametrize("case", EDITS.values(), ids=EDITS)
def test_the_card_shows_what_goes(case: tuple[str, str, dict[str, Any]]) -> None:
    assert LINE in shown(*case)


def test_the_card_shows_that_it_goes_everywhere_and_which_cell_goes() -> None:
    assert "replace_all: true" in shown(*EDITS["claude edits"])
    assert "everywhere" in shown(*EDITS["claude edits twice"])
    assert "replace_all" not in shown(
        *("claude", "Edit", {**EDIT, "replace_all": False, "file_path": "a"})
    )
    params = {"notebook_path": "a.ipynb", "new_source": "", "cell_id": "c7", "edit_mode": "delete"}
    said = shown("claude", "NotebookEdit", params)
    assert "c7" in said
    assert "delete" in said


PACKAGE = '{"name": "a", "version": "1.0.0"}\n'
HOOK = '"scripts": {"postinstall": "evil"}, "version"'


@pytest.mark.parametrize(
    ("tool", "new", "decision"),
    [
        ("Edit", '"version": "1.0.1"', "allow"),
        ("Edit", f'{HOOK}: "1.0.0"', "ask"),
        ("MultiEdit", '"version": "1.0.1"', "allow"),
        ("MultiEdit", f'{HOOK}: "1.0.0"', "ask"),
    ],
)
def test_an_edit_of_a_manifest_is_judged_by_what_it_leaves(
    tmp_path: Path, tool: str, new: str, decision: str
) -> None:
    hooks = Hooks(tmp_path)
    path = hooks.place / "package.json"
    path.write_text(PACKAGE)
    step = {"old_string": '"version": "1.0.0"', "new_string": new}
    params: dict[str, Any] = step if tool == "Edit" else {"edits": [step]}
    said = hooks.claude(tool, file_path=str(path), **params)
    assert (said["permissionDecision"] == "allow") is (decision == "allow"), said


WAS = '-{"name": "a", "version": "1.0.0"}'
PATCHES = {
    "a version": ((WAS, '+{"name": "a", "version": "1.0.1"}'), True),
    "a script": ((WAS, '+{"name": "a", "scripts": {"install": "x"}}'), False),
    "lines that are not there": (("-{}", '+{"version": "1.0.1"}'), False),
}


@pytest.mark.parametrize("lines, allowed", PATCHES.values(), ids=PATCHES)
def test_a_patch_of_a_manifest_is_judged_by_what_it_leaves(
    tmp_path: Path, lines: tuple[str, ...], allowed: bool
) -> None:
    hooks = Hooks(tmp_path)
    (hooks.place / "package.json").write_text(PACKAGE)
    text = ["*** Begin Patch", "*** Update File: package.json", "@@", *lines, "*** End Patch"]
    event = {
        "session_id": "s",
        "cwd": str(hooks.place),
        "hook_event_name": "PreToolUse",
        "tool_name": "apply_patch",
        "tool_input": {"command": "\n".join(text)},
    }
    answer = hooks.ask("codex", event)
    assert ("deny" not in json.dumps(answer)) is allowed, answer
