# SPDX-License-Identifier: Apache-2.0
"""Explain gate 1's answer: every layer, the words that caused it, the rule's place, what is needed.

Returns data; `show_text` renders it for a person. The text for an agent is `Decision.message`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any

from policy.gate1.decide import wants_second_opinion
from policy.gate1.relief import milder
from policy.model import ActionPlan, LayerAnswer, MatchedRule, Network, Verdict
from policy.sources.precedence import Effective
from sandbox.gates.gate1 import Gate1Answer
from sandbox.policy_tools.rule_sources import built_in_place
from sandbox.present.card import fields

BY_NAME = "tools"
"""The rule of what a policy file says of tools by their names; the section has that name too."""
MOST_WORDS = 4
"""Pieces of the command that are shown for one answer."""
_TICKED = re.compile(r"`([^`]+)`")
_TEXT_WORD = re.compile(r"""[^\s;|&<>()'"`]+""")


def explanation(plan: ActionPlan, answer: Gate1Answer) -> dict[str, Any]:
    """Return the whole explanation of an answer, as JSON has it."""
    decision, effective = answer.decision, answer.effective
    remaining, needs = milder(decision)
    return {
        **decision.model_dump(mode="json"),
        "allowed": decision.allowed,
        "rules": list(decision.rules),
        "layers": [
            {
                **layer_answer.model_dump(mode="json"),
                "words": words(plan, layer_answer, decision.matched_rules),
                "places": list(places(layer_answer, effective)),
            }
            for layer_answer in decision.layers
        ],
        "second_opinion": _second(plan, answer),
        "milder": {
            "verdict": remaining.value if remaining else None,
            "needs": [
                {"layer": need.layer, "rule": need.rule, "needs": need.needs} for need in needs
            ],
        },
        "policy_files": [
            {
                "layer": source.layer.value,
                "file": source.document.name,
                "digest": source.document.digest,
                "trusted": source.trusted,
            }
            for source in (effective.sources if effective else ())
        ],
        "ignored": list(effective.ignored) if effective else [],
    }


def places(answer: LayerAnswer, effective: Effective | None) -> tuple[str, ...]:
    """Return `file:line` of the rule behind an answer: in policy files, else in the package."""
    if not answer.rule or effective is None:  # a file that is wrong is named in the reason
        return ()
    found = effective.places(answer.rule)
    if found and (answer.layer == "rules" or answer.rule == BY_NAME):
        return found
    place = built_in_place(answer.layer, answer.rule, answer.reason)
    return (place,) if place else ()


def words(plan: ActionPlan, answer: LayerAnswer, matched: Sequence[MatchedRule] = ()) -> list[str]:
    """Return the pieces of the plan that an answer is about, as they are written there; `matched`
    says what triggered rules."""
    if answer.verdict is Verdict.ALLOW:
        return []
    params = plan.params
    text = params.command if params.command is not None else params.file_path or params.path or ""
    found: dict[str, None] = {}
    for named in _TICKED.findall(answer.reason):
        piece = _piece(text, named)
        if piece:
            found[piece] = None
    for matched_rule in matched:
        piece = (
            _holding(text, matched_rule.trigger_match)
            if matched_rule.rule_id == answer.rule
            else ""
        )
        if piece:
            found[piece] = None
    return list(found)[:MOST_WORDS]


def _holding(text: str, pattern: str) -> str:
    """Return the word of a text that holds what a rule's pattern ends with; "" if none does."""
    name = pattern.strip("/*").rsplit("/", 1)[-1].casefold()
    words = _TEXT_WORD.findall(text)
    return next((word for word in words if name and name in word.casefold()), "")


def _piece(text: str, named: str) -> str:
    """Return where a text says what a reason names: a program, its verb, a path; "" if nowhere."""
    whole = re.search(rf"(?<![\w./-]){re.escape(named)}(?![\w-])", text)
    if whole:
        return whole[0]
    first, _, last = named.partition(" ")
    if last:
        apart = re.search(
            rf"(?<![\w-]){re.escape(first)}[^;|&\n]*?\s{re.escape(last)}(?![\w-])", text
        )
        if apart:
            return apart[0]
    if "/" not in named:
        return ""
    for word in _TEXT_WORD.findall(text):
        plain = word.removeprefix("./").removeprefix("~/").rstrip("/")
        if plain and (named == plain or named.endswith("/" + plain)):
            return str(word)
    name = named.rsplit("/", 1)[-1]
    return next((word for word in _TEXT_WORD.findall(text) if name and name in word), "")


def _second(plan: ActionPlan, answer: Gate1Answer) -> dict[str, Any]:
    decision = answer.decision
    policy = answer.effective.policy if answer.effective else None
    if policy is None or not wants_second_opinion(plan, policy):
        said = "not needed: the text is plain, and was read exactly"
        if policy is not None and not policy.tools.is_shell(plan.tool):
            said = "not needed: it is no command line"
    elif answer.second is not None:
        said = "heard"
    elif decision.allowed:
        said = "none: it could not read the text, or not in time"
    else:
        said = "not needed: the answer is strict already"
    return {"said": said, "programs": list(answer.second or ())}


def show_text(said: dict[str, Any]) -> str:
    """Return an explanation for a person."""
    rows: list[tuple[str, str]] = [
        ("verdict", f"{said['verdict']} ({said['tier']})"),
        ("message", str(said["message"])),
        ("rules", ", ".join(said["rules"]) or "none"),
    ]
    for one in said["layers"]:
        rows.append((str(one["layer"]), _layer(one)))
    for one in said["matched_rules"]:
        rows.append(
            ("matched", f"{one['rule_name']}: {one['trigger_type']} {one['trigger_match']}")
        )
    rows += _demand(said.get("enforcement") or {})
    rows.append(("rights", _rights(said["rights"])))
    rows.append(("landing", str(said["landing"])))
    if said["named_deletions"]:
        rows.append(("deletes", ", ".join(said["named_deletions"])))
    if said["programs"]:
        rows.append(("programs", ", ".join(said["programs"])))
    second = said["second_opinion"]
    programs = f": {', '.join(second['programs'])}" if second["programs"] else ""
    rows.append(("second", f"{second['said']}{programs}"))
    rows += _milder(said["milder"])
    for one in said["policy_files"]:
        trusted = "" if one["trusted"] else ", not trusted: it only tightens"
        rows.append(("policy", f"{one['file']} ({one['layer']}{trusted})"))
    rows += [("ignored", line) for line in said["ignored"]]
    return fields(rows, fold=sys.stdout.isatty())


def _layer(one: dict[str, Any]) -> str:
    lines = [f"{one['verdict']}: {one['reason']}" + (f" [{one['rule']}]" if one["rule"] else "")]
    if one["words"]:
        lines.append(f"  because of: {_joined(one['words'])}")
    if one["places"]:
        lines.append(f"  rule at {', '.join(one['places'])}")
    return "\n".join(lines)


def _joined(pieces: Sequence[str]) -> str:
    return ", ".join(f"`{piece}`" for piece in pieces)


def _demand(demand: dict[str, Any]) -> list[tuple[str, str]]:
    names = {
        "check_id": "check",
        "denied_path": "denied path",
        "allowed_path": "allowed path",
        "next_action_template": "next action",
    }
    rows = [(name, str(demand[key])) for key, name in names.items() if demand.get(key)]
    if demand.get("required_fields"):
        rows.append(("must name", ", ".join(demand["required_fields"])))
    return rows


def _rights(rights: dict[str, Any]) -> str:
    limits, network = rights["limits"], Network.model_validate(rights["network"])
    added = "".join(f", credential {credential.words()}" for credential in network.credentials)
    return (
        f"workspace {rights['workspace']}, network {network.words()}{added}, "
        f"{limits['seconds']:g} s, {limits['changed_files']} changed files"
    )


def _milder(said: dict[str, Any]) -> list[tuple[str, str]]:
    if not said["needs"]:
        return []
    verdict = said["verdict"] or "allow"
    lines = [f"{one['layer']} [{one['rule']}]: {one['needs']}" for one in said["needs"]]
    return [(f"for {verdict}", "\n".join(lines))]
