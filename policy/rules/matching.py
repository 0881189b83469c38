# SPDX-License-Identifier: Apache-2.0
"""Rules with file patterns, behaviours and checks (policy-check.md).

File names are compared by component, in one spelling (`paths.canonical`), never as text: what a
command does to a file triggers a rule, what it merely mentions does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from policy.facts import WRITES, Facts, How, Touch
from policy.model import ActionPlan, Enforcement, LayerAnswer, MatchedRule, Verdict
from policy.rules.command_index import ProgramIndex
from policy.rules.schema import (
    Bounds,
    Check,
    Checks,
    CommandRule,
    Constraints,
    PolicyCheck,
    PolicyCheckResult,
    PolicyFile,
    Rule,
    Tools,
    Triggers,
)
from policy.rules.tiers import VERDICTS
from policy.values.partial import shown
from policy.values.path_index import Index
from policy.values.paths import Fit

__all__ = [
    "Bounds",
    "Check",
    "Checks",
    "CommandRule",
    "Constraints",
    "PolicyCheck",
    "PolicyCheckResult",
    "PolicyFile",
    "Rule",
    "RuleIndex",
    "Tools",
    "Triggers",
]

_ORDER = tuple(Verdict)


_SPELL = "; instead: write the path out"


class RuleIndex:
    """Rules, looked up by what they name; built once per policy."""

    def __init__(self, rules: Sequence[Rule], commands: Sequence[CommandRule] = ()) -> None:
        self._patterns = Index(
            pattern
            for rule in rules
            for several in (
                rule.triggers.file_patterns,
                *(one for check in rule.enforcement.checks for one in (check.writes, check.reads)),
            )
            for pattern in several
        )
        self._by_file: dict[str, list[Rule]] = {}
        self._programs: ProgramIndex[Rule] = ProgramIndex()
        self._keyed = [rule for rule in rules if rule.triggers.keywords]
        for rule in rules:
            for pattern in rule.triggers.file_patterns:
                self._by_file.setdefault(pattern, []).append(rule)
            for name in rule.triggers.command_patterns:
                self._programs.add(name, rule)
        self._commands: ProgramIndex[CommandRule] = ProgramIndex()
        for command in commands:
            for name in command.programs:
                self._commands.add(name, command)

    def check(
        self, plan: ActionPlan, touches: Iterable[Touch], facts: Facts, *, shell: bool
    ) -> PolicyCheck:
        """Return what the rules say of a plan, the strictest first.

        `shell` says that the plan is a command line, so that a match is one of behaviour.
        """
        found = _Found(plan, shell=shell)
        intent = plan.intent.casefold()
        for rule in self._keyed if intent else ():
            for word in rule.triggers.keywords:
                if word.casefold() in intent:
                    found.add_by_words(rule, "keyword", word)
        for pattern, rule in self._programs.find(facts):
            found.add_by_words(rule, "command_pattern", pattern)
        for touch in touches:
            hits = self._patterns.hits(touch.path, plan.workspace)
            fired = {id(r): (r, p) for p in reversed(hits) for r in self._by_file.get(p, ())}
            for rule, pattern in fired.values():
                found.add_by_file(rule, touch, pattern, hits)
        return found.combined()

    def commanded(self, facts: Facts) -> list[LayerAnswer]:
        """Return what rules on programs say."""
        return [
            LayerAnswer(
                layer="rules",
                verdict=VERDICTS[rule.tier],
                reason=f"`{pattern}`: {rule.because}",
                rule=rule.id,
            )
            for pattern, rule in self._commands.find(facts)
        ]


class _Found:
    """What rules say of one plan."""

    def __init__(self, plan: ActionPlan, *, shell: bool) -> None:
        self._plan = plan
        self._shell = shell
        self._matched: dict[MatchedRule, None] = {}
        self._said: list[tuple[LayerAnswer, Enforcement | None, str]] = []
        self._blocked: dict[LayerAnswer, None] = {}
        self._constraints: list[Constraints] = []

    def add_by_words(
        self, rule: Rule, kind: Literal["keyword", "command_pattern"], match: str
    ) -> None:
        """Take a rule that words of the plan or a program triggered."""
        self._matched[_matched(rule, kind, match)] = None
        for check in rule.enforcement.checks:
            if not check.writes and not check.reads:
                self._add_answer(rule, check, f"`{match}`", Fit.SURE)
                return

    def add_by_file(self, rule: Rule, touch: Touch, pattern: str, hits: dict[str, Fit]) -> None:
        """Take a rule that a touched file triggered."""
        for check in rule.enforcement.checks:
            writes = touch.how in WRITES
            fits = [
                hits[name] for name in (check.writes if writes else check.reads) if name in hits
            ]
            if not fits or (not writes and Fit.SURE not in fits):
                continue  # a file that may be read by chance is hidden where reading is denied
            self._add_answer(rule, check, f"`{shown(touch.path)}`", _surest(fits), touch)
            triggers = rule.triggers.behavior_triggers
            if self._shell and triggers and touch.how in WRITES:
                self._matched[_matched(rule, "command_pattern", triggers[0])] = None
            else:
                self._matched[_matched(rule, "file_pattern", pattern)] = None
            return

    def _add_answer(
        self, rule: Rule, check: Check, what: str, fit: Fit, touch: Touch | None = None
    ) -> None:
        enforcement = Enforcement(
            decision=check.decision,
            check_id=check.id,
            denied_path=check.denied_path,
            allowed_path=check.allowed_path,
            required_fields=check.required_fields,
            next_action_template=check.next_action_template,
        )
        if check.decision == "allow":
            verdict, message = Verdict.ALLOW, "Policy passed"
        elif check.decision == "allow_with_constraints":
            verdict, message = self._constrained(rule, check)
        elif touch is not None and touch.how is How.META:
            verdict, message = Verdict.ASK, f"{rule.name}: it changes the mode or owner of {what}"
        elif fit is Fit.MAYBE:
            verdict, message = Verdict.ASK, f"{rule.name}: {what} can be a governance file{_SPELL}"
        elif self._shell and touch is not None and touch.redirect:
            verdict = Verdict.DENY
            message = f"Blocked: Bash redirect to governance file {what} ({rule.name})"
        else:
            verdict, message = Verdict.DENY, f"Blocked by {rule.name}: {check.denied_path or what}"
        if verdict is Verdict.DENY and check.allowed_path:
            message += f"; instead: {check.allowed_path}"
        answer = LayerAnswer(layer="rules", verdict=verdict, reason=message, rule=rule.id)
        self._said.append((answer, enforcement, message))
        if verdict is Verdict.DENY and check.decision == "deny":
            self._blocked[answer] = None

    def _constrained(self, rule: Rule, check: Check) -> tuple[Verdict, str]:
        """Return the answer of a check that constrains: narrower rights, and what must be named."""
        self._constraints.append(check.constraints)
        missing = [name for name in check.required_fields if not _names(self._plan, name)]
        if missing:
            named = ", ".join(missing)
            instead = f"; instead: name {named} in the call, as `{missing[0]}: ...`"
            return Verdict.ASK, f"{rule.name}: it does not name {named}{instead}"
        return Verdict.REPORT, f"{rule.name}: allowed with constraints ({check.id})"

    def combined(self) -> PolicyCheck:
        """Return all of it, the strictest first."""
        matched, said = tuple(self._matched), self._said
        if not said:
            message = "Policy passed" if matched else "No policy constraints"
            return PolicyCheck(allowed=True, matched_rules=matched, message=message)
        said.sort(key=lambda one: (-_ORDER.index(one[0].verdict), one[2]))
        worst, enforcement, message = said[0]
        return PolicyCheck(
            allowed=worst.verdict is not Verdict.DENY,
            matched_rules=matched,
            enforcement=enforcement,
            message=message,
            answers=tuple(dict.fromkeys(one[0] for one in said)),
            blocked=tuple(self._blocked),
            constraints=tuple(self._constraints),
        )


def _surest(fits: Iterable[Fit]) -> Fit:
    return Fit.SURE if Fit.SURE in tuple(fits) else Fit.MAYBE


def _matched(
    rule: Rule, kind: Literal["file_pattern", "command_pattern", "keyword"], match: str
) -> MatchedRule:
    return MatchedRule(rule_id=rule.id, rule_name=rule.name, trigger_type=kind, trigger_match=match)


def _names(plan: ActionPlan, name: str) -> bool:
    """Whether a plan names a required field, as `name:`, `name=` or `name ...`."""
    params = plan.params
    texts = (plan.intent, params.command, params.content, params.new_string,
             *(edit.new_string for edit in params.edits))  # fmt: skip
    wanted = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])", re.IGNORECASE)
    return any(wanted.search(text) for text in texts if text)
