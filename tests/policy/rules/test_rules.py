# SPDX-License-Identifier: Apache-2.0
"""The three scenarios of policy-check.md, and rules that a user adds."""

from __future__ import annotations

from dataclasses import replace

from policy.gate1.decide import Policy, decide, policy_check
from policy.model import ActionPlan, Enforcement, MatchedRule, Params, Tier, Verdict
from policy.rules.matching import (
    Check,
    Checks,
    CommandRule,
    PolicyCheckResult,
    PolicyFile,
    Rule,
    Triggers,
)
from tests.policy.asking import CONTEXT, bash, plan, tool

POLICY = Policy.default()


def checked(asked: ActionPlan) -> PolicyCheckResult:
    return policy_check(asked, CONTEXT, POLICY)


def test_a_direct_waiver_write_is_blocked() -> None:
    asked = plan("Write", file_path=".devkit-waiver.yml", content="waivers:\n  - rule: lint")
    answer = checked(asked)
    assert not answer.allowed
    assert answer.message.startswith("Blocked by Layered Governance Constitution")
    assert answer.matched_rules == (
        MatchedRule(
            rule_id="rule_006",
            rule_name="Layered Governance Constitution",
            trigger_type="file_pattern",
            trigger_match=".devkit-waiver.yml",
        ),
    )
    assert answer.enforcement == Enforcement(
        decision="deny",
        check_id="no-silent-waivers",
        denied_path="Write waiver file directly via Write/Edit/Bash",
        allowed_path="Open PR with waiver entry via gh pr create",
        required_fields=("rule", "reason", "owner", "expires"),
        next_action_template={
            "tool": "Bash",
            "command": "gh pr create --title 'Add waiver' --body '<rule, reason, owner, expires>'",
        },
    )
    assert decide(asked, CONTEXT, POLICY).verdict is Verdict.DENY


def test_a_waiver_by_pull_request_passes_the_rules() -> None:
    asked = plan(
        "Bash", command="gh pr create --title 'Add lint waiver' --body '.devkit-waiver.yml'"
    )
    answer = checked(asked)
    assert answer == PolicyCheckResult(
        allowed=True,
        matched_rules=(
            MatchedRule(
                rule_id="rule_006",
                rule_name="Layered Governance Constitution",
                trigger_type="command_pattern",
                trigger_match="gh pr create",
            ),
        ),
        message="Policy passed",
    )
    decision = decide(asked, CONTEXT, POLICY)
    assert decision.verdict is Verdict.ASK, "it leaves the machine"
    assert (decision.rules[0], decision.enforcement) == ("network", None)


def test_a_pull_request_beside_a_write_is_no_way_around() -> None:
    asked = plan("Bash", command="echo x > .devkit-waiver.yml; gh pr create --title x")
    assert not checked(asked).allowed
    assert decide(asked, CONTEXT, POLICY).verdict is Verdict.DENY


def test_a_plan_that_no_rule_is_about_has_no_constraints() -> None:
    answer = checked(plan("Bash", command="ls"))
    assert answer.model_dump() == {
        "allowed": True,
        "matched_rules": (),
        "enforcement": None,
        "message": "No policy constraints",
    }


def test_the_fields_are_those_of_the_document() -> None:
    assert set(PolicyCheckResult.model_fields) == {
        "allowed", "matched_rules", "enforcement", "message",
    }  # fmt: skip
    assert set(MatchedRule.model_fields) == {
        "rule_id", "rule_name", "trigger_type", "trigger_match",
    }  # fmt: skip
    assert set(Enforcement.model_fields) == {
        "decision", "check_id", "denied_path", "allowed_path", "required_fields",
        "next_action_template",
    }  # fmt: skip
    assert {"tool", "params", "intent", "derived_from"} <= set(ActionPlan.model_fields)
    assert {"file_path", "command", "content"} <= set(Params.model_fields)


def test_a_sneaky_redirect_is_blocked() -> None:
    asked = plan("Bash", command="echo 'waivers: ...' >> .devkit-waiver.yml")
    answer = checked(asked)
    assert not answer.allowed
    assert answer.message.startswith("Blocked: Bash redirect to governance file")
    assert [(one.rule_id, one.trigger_type, one.trigger_match) for one in answer.matched_rules] == [
        ("rule_006", "command_pattern", "Bash writes to governance files")
    ]
    decision = decide(asked, CONTEXT, POLICY)
    assert decision.verdict is Verdict.DENY
    assert "gh pr create" in decision.message


def test_an_edit_of_the_configuration_is_blocked() -> None:
    decision = tool(
        "Edit", file_path="/workspace/devkit.config.json", old_string="a", new_string="b"
    )
    assert decision.verdict is Verdict.DENY
    assert decision.enforcement is not None
    assert decision.enforcement.check_id == "no-direct-config-edits"


def test_reading_a_governance_file_is_no_write() -> None:
    assert bash("cat .devkit-waiver.yml; jq . devkit.config.json").verdict is Verdict.ALLOW


def test_a_name_that_only_contains_a_governance_name_is_another_file() -> None:
    assert bash("echo x > docs/devkit.config.json.md").allowed


def test_a_rule_on_a_program_only_tightens() -> None:
    rule = CommandRule(
        id="no-stash",
        programs=("git stash",),
        tier=Tier.DANGER,
        because="work gets lost",
        match=("git stash",),
    )
    policy = POLICY.tightened(PolicyFile(commands=(rule,)))
    assert decide(plan("Bash", command="git stash"), CONTEXT, policy).verdict is Verdict.ASK
    assert decide(plan("Bash", command="git status"), CONTEXT, policy).verdict is Verdict.ALLOW


def test_every_layer_says_something() -> None:
    layers = {one.layer for one in bash("ls").layers}
    assert layers == {"tier", "workspace", "rules", "level", "mode", "trust"}


def test_a_rule_that_allows_does_not_lower_anything() -> None:
    rule = Rule(
        id="mine",
        name="Mine",
        triggers=Triggers(file_patterns=("src",)),
        enforcement=Checks(checks=(Check(id="ok", writes=("src",), decision="allow"),)),
    )
    policy = POLICY.tightened(PolicyFile(rules=(rule,)))
    assert decide(plan("Bash", command="rm -rf src"), CONTEXT, policy).verdict is Verdict.DENY


def test_a_message_goes_by_what_an_answer_is_and_not_by_how_it_begins() -> None:
    named = tuple(rule.model_copy(update={"name": "Blocked by habit"}) for rule in POLICY.rules)
    policy = replace(POLICY, rules=named)
    asked = decide(plan("Bash", command="chmod 600 devkit.config.json"), CONTEXT, policy)
    assert asked.verdict is Verdict.ASK
    assert asked.message.startswith("a person must approve: Blocked by habit: it changes the mode")
    denied = decide(plan("Bash", command="rm devkit.config.json"), CONTEXT, policy)
    assert denied.message.startswith("Blocked by Blocked by habit: ")
