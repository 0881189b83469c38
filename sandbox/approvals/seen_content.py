# SPDX-License-Identifier: Apache-2.0
"""What a person saw of a file that the host obeys when they said yes: gate 2 asks no second time.

INVARIANT (P8, seen): gate 2's hold of an obeyed file is lifted only where the approval of exactly
this call named that very path, and the person was shown what the file holds now: whole, unmasked
and in the rehearsal with these very effects, or as the content of a `Write`. Every other reason to
hold stays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from policy.model import ActionPlan, Judgement, Outcome
from policy.protected.paths import PathPolicy
from sandbox.approvals.rehearsal import EFFECTS, NAMED, WHOLE
from sandbox.cells.transaction import Transaction
from sandbox.gates.gate2 import Effects
from sandbox.present.card import CONTENT_LINES
from sandbox.text.redaction import mask


async def approved(
    plan: ActionPlan,
    preview: Mapping[str, Any] | None,
    paths: PathPolicy,
    transaction: Transaction,
    effects: Effects,
) -> Effects:
    """Return the effects of a closed transaction, to be landed where a person saw all that is held.

    Where a person approved the call and it is held all the same, the message says why.
    """
    named = (preview or {}).get(NAMED)
    if named is None or effects.judgement.outcome is not Outcome.HOLD:
        return effects
    rules = {obeyed_rule.id for obeyed_rule in (*paths.obeyed, *paths.manifests)}
    held = [reason for reason in effects.judgement.reasons if reason.outcome is Outcome.HOLD]
    if not held or any(reason.rule not in rules for reason in held):
        return effects
    found = sorted({reason.path for reason in held})
    why = await _unseen(plan, preview or {}, transaction, found, named)
    if why:
        message = f"{effects.judgement.message}; the approval did not cover it, since {why}"
        return replace(effects, judgement=replace(effects.judgement, message=message))
    names = ", ".join(f"`{path}`" for path in found)
    message = f"{names} landed as it was shown when it was approved"
    return replace(effects, judgement=Judgement(Outcome.LAND, effects.judgement.reasons, message))


async def _unseen(
    plan: ActionPlan,
    preview: Mapping[str, Any],
    transaction: Transaction,
    found: Sequence[str],
    named: Sequence[str],
) -> str:
    """Say what a person did not see of the files that are held; empty where they saw all."""
    if plan.also:
        return "it spans several workspaces"
    rehearsed = EFFECTS in preview
    how = ("writes", "deletes") if rehearsed else ("writes",)
    for path in found:
        if not any(f"{one} {plan.workspace}/{path}" in named for one in how):
            return f"the call does not name `{path}`"
    if rehearsed:  # the same effects: else it was held for that
        return "" if preview.get(WHOLE) is True else "it was not shown whole"
    content = plan.params.content
    if plan.tool != "Write" or content is None:
        return "what the file will hold was not shown (`preview: rehearse` would show it)"
    if content.count("\n") >= CONTENT_LINES or mask(content) != content:
        return "it was not shown whole"
    (digests,) = await transaction.digests([list(found)])
    wanted = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
    same = all(digests.get(path) == wanted for path in found)
    return "" if same else "the file holds something else than what was shown"
