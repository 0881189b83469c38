# SPDX-License-Identifier: Apache-2.0
"""Every outcome of `resolveAutonomy` in autonomy-policy.ts.txt, with its exact text."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.autonomy.modes import (
    BASE,
    DANGEROUS_TOOLS,
    AutonomyDecision,
    Mode,
    ModesFile,
    resolve_autonomy,
)
from policy.model import Verdict
from policy.values.strict_yaml import PolicyError, build

BASES = ("silent", "log", "confirm", "deny", "anything")
ORDER = list(Verdict)

TABLE = {
    "conservative asks for a dangerous tool": (
        ("file.write", "silent", "conservative"),
        ("confirm", True, "Tool 'file.write' requires confirmation in conservative mode"),
    ),
    "conservative keeps a confirmation of a dangerous tool": (
        ("shell.exec", "confirm", "conservative"),
        ("confirm", False, "Tool 'shell.exec' already requires confirmation"),
    ),
    "conservative lets a safe tool do what its base says": (
        ("file.read", "silent", "conservative"),
        ("silent", False, "Tool 'file.read' is safe in conservative mode"),
    ),
    "conservative keeps a confirmation of a safe tool": (
        ("file.read", "confirm", "conservative"),
        ("confirm", False, "Tool 'file.read' is safe in conservative mode"),
    ),
    "conservative turns a denied dangerous tool into a question": (
        ("file.edit", "deny", "conservative"),
        ("confirm", True, "Tool 'file.edit' requires confirmation in conservative mode"),
    ),
    "standard asks for a dangerous tool without an explicit hook": (
        ("process.kill", "silent", "standard"),
        (
            "confirm",
            True,
            "Tool 'process.kill' requires confirmation in standard mode"
            " (dangerous tool without explicit hook)",
        ),
    ),
    "standard keeps a confirmation of a dangerous tool": (
        ("file.patch", "confirm", "standard"),
        ("confirm", False, "Base action 'confirm' applied in standard mode"),
    ),
    "standard lets a safe tool do what its base says": (
        ("web.fetch", "silent", "standard"),
        ("silent", False, "Base action 'silent' applied in standard mode"),
    ),
    "autonomous lets a dangerous tool do what its base says": (
        ("shell.exec", "silent", "autonomous"),
        ("silent", False, "Base action 'silent' applied in autonomous mode"),
    ),
    "autonomous keeps a confirmation": (
        ("shell.exec", "confirm", "autonomous"),
        ("confirm", False, "Base action 'confirm' applied in autonomous mode"),
    ),
    "an unknown level uses the base action": (
        ("shell.exec", "silent", "reckless"),
        ("silent", False, "Unknown autonomy level; using base action"),
    ),
}


@pytest.mark.parametrize("given_, wanted", TABLE.values(), ids=TABLE)
def test_an_outcome_of_the_table(
    given_: tuple[str, str, str], wanted: tuple[str, bool, str]
) -> None:
    action, overridden, reason = wanted
    assert resolve_autonomy(*given_) == AutonomyDecision(
        action=action, overridden=overridden, reason=reason, level=given_[2]
    )


@pytest.mark.parametrize(
    "tool",
    ["file.write", "file.edit", "file.patch", "shell.exec", "process.start", "process.kill"],
)
@pytest.mark.parametrize("mode", ["conservative", "standard"])
def test_a_dangerous_tool_is_confirmed(tool: str, mode: str) -> None:
    assert {resolve_autonomy(tool, base, mode).action for base in BASES} == {"confirm"}


def test_no_other_tool_is_dangerous() -> None:
    assert len(DANGEROUS_TOOLS) == 6
    for base, mode in itertools.product(BASES, Mode):
        assert resolve_autonomy("file.read", base, mode).action == base


@given(st.text(), st.text(), st.text())
def test_every_tool_action_and_level_gets_an_answer(tool: str, base: str, level: str) -> None:
    decision = resolve_autonomy(tool, base, level)
    assert decision.level == level
    assert decision.overridden == (decision.action != base)


TOOLS = {
    "Write": "file.write",
    "Edit": "file.edit",
    "MultiEdit": "file.edit",
    "Bash": "shell.exec",
    "Read": "file.read",
    "Grep": "file.search",
    "WebFetch": "web.fetch",
    "mcp__other__tool": "mcp__other__tool",
}


@pytest.mark.parametrize("ours, theirs", TOOLS.items(), ids=TOOLS)
def test_a_tool_of_ours_has_a_name_of_the_document(ours: str, theirs: str) -> None:
    assert ModesFile.default().tool(ours) == theirs


def test_a_command_in_the_background_starts_a_process() -> None:
    assert ModesFile.default().tool("Bash", background=True) == "process.start"


def test_verdicts_are_base_actions() -> None:
    assert BASE == {
        Verdict.ALLOW: "silent",
        Verdict.REPORT: "log",
        Verdict.ASK: "confirm",
        Verdict.DENY: "deny",
    }


LAYER = {
    "conservative asks before a write": (Mode.CONSERVATIVE, "Write", "report", "ask"),
    "conservative reads freely": (Mode.CONSERVATIVE, "Read", "allow", "allow"),
    "standard asks before a command": (Mode.STANDARD, "Bash", "allow", "ask"),
    "standard keeps a report of a safe tool": (Mode.STANDARD, "Grep", "report", "report"),
    "autonomous changes nothing": (Mode.AUTONOMOUS, "Bash", "report", "report"),
    "what is denied stays denied": (Mode.CONSERVATIVE, "Bash", "deny", "deny"),
}


@pytest.mark.parametrize("mode, tool, base, verdict", LAYER.values(), ids=LAYER)
def test_the_layer_of_a_mode(mode: Mode, tool: str, base: str, verdict: str) -> None:
    modes = ModesFile.default().model_copy(update={"mode": mode})
    assert modes.answer(tool, Verdict(base)).verdict is Verdict(verdict)


@given(st.sampled_from(Mode), st.text(min_size=1, max_size=20), st.sampled_from(Verdict))
def test_no_mode_loosens(mode: Mode, tool: str, base: Verdict) -> None:
    answer = ModesFile.default().model_copy(update={"mode": mode}).answer(tool, base)
    assert ORDER.index(answer.verdict) >= ORDER.index(base)


def test_a_mode_that_is_not_named_is_the_strictest() -> None:
    assert ModesFile().mode is Mode.CONSERVATIVE


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(PolicyError, match=r"modes.yaml: `mode`: "):
        build(ModesFile, {"mode": "reckless"}, "modes.yaml")
