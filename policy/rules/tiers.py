# SPDX-License-Identifier: Apache-2.0
"""The four permission tiers (safety-guardrails.md, "Permission Tiers"), from what a call does."""

from __future__ import annotations

from policy.facts import Facts, How, Touch
from policy.model import LayerAnswer, Tier, Verdict, worst
from policy.values.partial import shown

VERDICTS = {
    Tier.SAFE: Verdict.ALLOW,
    Tier.CAUTION: Verdict.REPORT,
    Tier.DANGER: Verdict.ASK,
    Tier.FORBIDDEN: Verdict.DENY,
}
TIERS = {verdict: tier for tier, verdict in VERDICTS.items()}

_TOUCHED = {
    How.WRITE: (Tier.CAUTION, "write", "it writes files in the workspace"),
    How.APPEND: (Tier.CAUTION, "write", "it writes files in the workspace"),
    How.META: (Tier.CAUTION, "write", "it changes modes in the workspace"),
    How.MOVE: (Tier.CAUTION, "write", "it moves files in the workspace"),
    How.EMPTY: (Tier.DANGER, "delete", "it empties a file"),
    How.DELETE: (Tier.DANGER, "delete", "it deletes files"),
    How.TREE: (Tier.FORBIDDEN, "recursive-delete", "it deletes a whole tree"),
}


def answers(facts: Facts) -> list[LayerAnswer]:
    """Return the tier layer's answers, one per thing found; a call that only reads is SAFE."""
    layer_answers = [
        LayerAnswer(
            layer="tier",
            verdict=VERDICTS[finding.tier],
            reason=finding.reason,
            rule=finding.rule,
            program=finding.program,
        )
        for finding in facts.findings
    ]
    for touch in facts.touches:
        if why := facts.lossless.get(touch):
            why = f"{why}: `{shown(touch.path)}`"
            layer_answers.append(
                LayerAnswer(layer="tier", verdict=Verdict.REPORT, reason=why, rule="delete")
            )
        elif (found := _touched(touch)) is not None:
            layer_answers.append(found)
    return layer_answers or [
        LayerAnswer(layer="tier", verdict=Verdict.ALLOW, reason="it only reads", rule="read")
    ]


def _touched(touch: Touch) -> LayerAnswer | None:
    found = _TOUCHED.get(touch.how)
    if found is None:
        return None
    tier, rule, reason = found
    return LayerAnswer(
        layer="tier", verdict=VERDICTS[tier], reason=f"{reason}: `{shown(touch.path)}`", rule=rule
    )


def tier(said: list[LayerAnswer]) -> Tier:
    """Return the tier that all layers' answers amount to."""
    return worst(TIERS[answer.verdict] for answer in said)
