# SPDX-License-Identifier: Apache-2.0
"""What would be needed for a milder verdict on a call. Pure; `explain` shows it."""

from __future__ import annotations

from dataclasses import dataclass

from policy.gate1.alternatives import ADVICE
from policy.gate1.plain_scan import RULE as SECOND
from policy.model import Decision, LayerAnswer, Verdict, strictest

_NEEDS = {
    "role": "another role; a role only narrows, so a child of this one does not help",
    "trust": "more trust in the agent, earned or given under `trust` in a policy file",
    "mode": "a mode that confirms less, under `modes` in a policy file",
    "level": "a lower level of that category for the user, under `levels` in a policy file, and an "
    "agent whose type may act at it",
}
_RULES = {
    "policy-file": "a policy file that can be read; `lockgate policy validate` says what is wrong",
    SECOND: "a text that both readings see the same in; write the command out plainly",
    "outside": "a path inside a registered workspace; `lockgate workspace add` registers another",
    "unknown-path": "a path that is written out",
    "script": "a script that git or a landing knows, or its path under `programs` in your own "
    "policy file",
    "opaque": "a text that can be read; write the command out plainly",
    "unknown-program": "a word of yours on the program, under `programs` in your own policy file",
}


@dataclass(frozen=True, slots=True)
class Need:
    """What one answer would need to be milder."""

    layer: str
    rule: str
    needs: str


def milder(decision: Decision) -> tuple[Verdict | None, tuple[Need, ...]]:
    """Return the verdict that would remain, and all that is needed for it, for a call that is not
    allowed silently; (None, ()) otherwise."""
    if decision.verdict is Verdict.ALLOW:
        return None, ()
    deciding = [answer for answer in decision.layers if answer.verdict is decision.verdict]
    rest = [answer.verdict for answer in decision.layers if answer.verdict is not decision.verdict]
    # A mode or a level without a rule of its own only repeats what the others say.
    own = [answer for answer in deciding if answer.rule] or deciding
    needs = tuple(
        dict.fromkeys(Need(answer.layer, answer.rule, _need(answer, decision)) for answer in own)
    )
    return (strictest(rest) if rest else None), needs


def _need(answer: LayerAnswer, decision: Decision) -> str:
    if answer.rule in _RULES:
        return _RULES[answer.rule]
    if answer.layer in _NEEDS:
        return _NEEDS[answer.layer]
    instead = ADVICE.get(answer.rule, "")
    if answer.layer == "rules":
        demand = decision.enforcement
        if demand is not None and demand.allowed_path:
            instead = demand.allowed_path
        needs = "another call, since a rule is never lowered"
    elif answer.verdict is Verdict.DENY:
        needs = "another call, since nothing and nobody lowers this"
    elif answer.layer == "workspace":
        needs = "another path"
    else:
        needs = "the user's own word for that category (`overrides` under `levels`)"
    return f"{needs}; instead: {instead}" if instead else needs
