# SPDX-License-Identifier: Apache-2.0
"""Rules with file patterns, behaviours and checks (policy-check.md).

File names are compared by component, in one spelling (`paths.canonical`), never as text: what a
command does to a file triggers a rule, what it merely mentions does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field

from policy.facts import WRITES, Facts, Touch
from policy.marks import shown
from policy.model import ActionPlan, Enforcement, Frozen, LayerAnswer, MatchedRule, Tier, Verdict
from policy.paths import Fit, fits
from policy.tiers import VERDICTS


class Triggers(Frozen):
    """What makes a rule apply."""

    file_patterns: tuple[str, ...] = ()
    behavior_triggers: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()


class Check(Frozen):
    """What a rule demands where its condition holds."""

    id: str
    condition: str = ""
    """The condition in words, for people; `writes` and `reads` are what is compared."""
    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    decision: Literal["allow", "deny", "allow_with_constraints"]
    denied_path: str = ""
    allowed_path: str = ""
    required_fields: tuple[str, ...] = ()
    next_action_template: dict[str, Any] | None = None


class Checks(Frozen):
    """The checks of a rule; the first whose condition holds counts."""

    checks: tuple[Check, ...] = Field(min_length=1)


class Rule(Frozen):
    """A governance rule."""

    id: str
    name: str
    triggers: Triggers
    enforcement: Checks


class CommandRule(Frozen):
    """A rule on programs by name, which can only tighten what the catalog says."""

    id: str
    programs: tuple[str, ...] = Field(min_length=1)
    """`git push` or `docker`."""
    tier: Tier
    because: str
    match: tuple[str, ...] = Field(min_length=1)
    miss: tuple[str, ...] = ()


class Tools(Frozen):
    """Names of tools by what they do."""

    read: tuple[str, ...] = ()
    list: tuple[str, ...] = ()
    search: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    shell: tuple[str, ...] = ()
    web: tuple[str, ...] = ()


class PolicyFile(Frozen):
    """The file `policy.yaml`."""

    rules: tuple[Rule, ...] = ()
    commands: tuple[CommandRule, ...] = ()
    tools: Tools = Tools()


class PolicyCheck(Frozen):
    """The answer of all rules (policy-check.md, PolicyCheckResult)."""

    allowed: bool
    matched_rules: tuple[MatchedRule, ...] = ()
    enforcement: Enforcement | None = None
    message: str
    answers: tuple[LayerAnswer, ...] = ()


def _hit(touch: Touch, patterns: tuple[str, ...]) -> tuple[str, Fit] | None:
    best: tuple[str, Fit] | None = None
    for part in touch.path.split("/"):
        for wanted in patterns if part else ():
            found = fits(part, wanted.casefold())
            if found is Fit.SURE:
                return wanted, found
            if found is Fit.MAYBE and touch.path.startswith("/"):
                best = best or (wanted, found)
    return best


def check(
    plan: ActionPlan, touches: Iterable[Touch], rules: tuple[Rule, ...], *, shell: bool
) -> PolicyCheck:
    """Return what the rules say of a plan, the strictest first.

    `shell` says that the plan is a command line, so that a match is one of behaviour.
    """
    matched: dict[MatchedRule, None] = {}
    said: list[tuple[LayerAnswer, Enforcement | None, str]] = []
    intent = plan.intent.casefold()
    touched = tuple(touches)
    for rule in rules:
        for word in rule.triggers.keywords:
            if word.casefold() in intent:
                matched[_matched(rule, "keyword", word)] = None
        for touch in touched:
            found = _hit(touch, rule.triggers.file_patterns)
            if found is None:
                continue
            answer = _enforced(rule, touch, found, shell=shell)
            if answer is None:
                continue
            said.append(answer)
            if shell and rule.triggers.behavior_triggers and touch.how in WRITES:
                matched[_matched(rule, "command_pattern", rule.triggers.behavior_triggers[0])] = (
                    None
                )
            else:
                matched[_matched(rule, "file_pattern", found[0])] = None
    return _combined(tuple(matched), said)


def _matched(
    rule: Rule, kind: Literal["file_pattern", "command_pattern", "keyword"], match: str
) -> MatchedRule:
    return MatchedRule(rule_id=rule.id, rule_name=rule.name, trigger_type=kind, trigger_match=match)


def _enforced(
    rule: Rule, touch: Touch, found: tuple[str, Fit], *, shell: bool
) -> tuple[LayerAnswer, Enforcement | None, str] | None:
    for one in rule.enforcement.checks:
        wanted = one.writes if touch.how in WRITES else one.reads
        if _hit(touch, wanted) is None:
            continue
        enforcement = Enforcement(
            decision=one.decision,
            check_id=one.id,
            denied_path=one.denied_path,
            allowed_path=one.allowed_path,
            required_fields=one.required_fields,
            next_action_template=one.next_action_template,
        )
        return _answer(rule, one, touch, found[1], enforcement, shell=shell)
    return None


def _answer(
    rule: Rule, one: Check, touch: Touch, fit: Fit, enforcement: Enforcement, *, shell: bool
) -> tuple[LayerAnswer, Enforcement | None, str]:
    path = shown(touch.path)
    if one.decision == "allow":
        verdict, message = Verdict.ALLOW, "Policy passed"
    elif one.decision == "allow_with_constraints":
        verdict = Verdict.REPORT
        message = f"{rule.name}: allowed if it names {', '.join(one.required_fields)}"
    elif touch.how.value.startswith("changes"):
        verdict, message = Verdict.ASK, f"{rule.name}: it changes the mode or owner of `{path}`"
    elif fit is Fit.MAYBE:
        verdict, message = Verdict.ASK, f"{rule.name}: `{path}` can be a governance file"
    elif shell and touch.redirect:
        verdict = Verdict.DENY
        message = f"Blocked: Bash redirect to governance file `{path}` ({rule.name})"
    else:
        verdict, message = Verdict.DENY, f"Blocked by {rule.name}: {one.denied_path}"
    if verdict is Verdict.DENY and one.allowed_path:
        message += f"; instead: {one.allowed_path}"
    answer = LayerAnswer(layer="rules", verdict=verdict, reason=message, rule=rule.id)
    return answer, enforcement, message


def _combined(
    matched: tuple[MatchedRule, ...], said: list[tuple[LayerAnswer, Enforcement | None, str]]
) -> PolicyCheck:
    if not said:
        message = "Policy passed" if matched else "No policy constraints"
        return PolicyCheck(allowed=True, matched_rules=matched, message=message)
    order = list(Verdict)
    said.sort(key=lambda one: (-order.index(one[0].verdict), one[2]))
    worst_answer, enforcement, message = said[0]
    return PolicyCheck(
        allowed=worst_answer.verdict is not Verdict.DENY,
        matched_rules=matched,
        enforcement=enforcement,
        message=message,
        answers=tuple(dict.fromkeys(one[0] for one in said)),
    )


def commanded(facts: Facts, rules: tuple[CommandRule, ...]) -> list[LayerAnswer]:
    """Return what rules on programs say."""
    return [
        LayerAnswer(
            layer="rules",
            verdict=VERDICTS[one.tier],
            reason=f"`{name}`: {one.because}",
            rule=one.id,
        )
        for one in rules
        for name in one.programs
        if name in facts.programs
    ]
